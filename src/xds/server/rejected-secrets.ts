/** Messages of rejections about secrets: an Envoy quotes what it rejects. */
import type { AnyRequest } from '../protocol/index.ts';

/** Where the content of a secret begins in an error message of Envoy. */
const SECRET_CONTENT = /\b(?:inline_(?:bytes|string)|private_key)\b|PRIVATE KEY/;

/** The request with its error message cut off before the content of a secret, for logs and debug pages. */
export function withoutSecrets<Request extends AnyRequest>(request: Request): Request {
  const at = request.nack?.search(SECRET_CONTENT) ?? -1;
  return at < 0 ? request : { ...request, nack: `${request.nack?.slice(0, at)}…` };
}
