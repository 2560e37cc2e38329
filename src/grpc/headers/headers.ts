/**
 * The headers of gRPC calls: checks the headers of requests, and encodes the few blocks of responses. Source: RFC 9113
 * section 8.2 and 8.3; https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import type { CtlError } from '../../core/errors.ts';
import { statusOf } from '../../core/grpc-status.ts';
import { ERROR, Http2Error } from '../frames/frames.ts';
import { encodeHeaders } from '../hpack/encoder.ts';
import type { HeaderField } from '../hpack/types.ts';
import type { MessageEncoding, Metadata } from '../types.ts';

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly metadata: Metadata;
  /** The announced number of DATA bytes. */
  readonly contentLength: number | undefined;
}

/** Fields about a connection, which are not allowed in HTTP/2. */
const CONNECTION_FIELDS = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade']);

const NO_VALUES: readonly string[] = [];

class HeaderMap implements Metadata {
  readonly #values = new Map<string, string[]>();

  add(name: string, value: string): void {
    const known = this.#values.get(name);
    if (known === undefined) this.#values.set(name, [value]);
    else known.push(value);
  }

  get(name: string): readonly string[] {
    return this.#values.get(name) ?? NO_VALUES;
  }
}

function malformed(what: string, stream: number): Http2Error {
  return new Http2Error(ERROR.protocol, `malformed request: ${what}`, stream);
}

/** Visible ASCII in lower case, without a colon (RFC 9113 section 8.2.1). */
function isFieldName(name: string): boolean {
  for (let index = 0; index < name.length; index++) {
    const unit = name.charCodeAt(index);
    if (unit <= 0x20 || unit >= 0x7f || unit === 0x3a || (unit >= 0x41 && unit <= 0x5a)) return false;
  }
  return name !== '';
}

/** Characters that end a line in other formats, such as logs or HTTP/1.1, are not allowed. */
function isFieldValue(value: string): boolean {
  return !value.includes('\n') && !value.includes('\r') && !value.includes('\0');
}

const DIGITS = /^\d{1,15}$/;

function contentLength(metadata: Metadata, stream: number): number | undefined {
  const [text, ...more] = metadata.get('content-length');
  if (text === undefined) return undefined;
  if (more.length > 0 || !DIGITS.test(text)) throw malformed('content-length', stream);
  return Number(text);
}

/** Reads a request's header fields. Throws Http2Error of the stream. */
export function requestHead(fields: readonly HeaderField[], stream: number): RequestHead {
  const pseudo = new Map<string, string>();
  const metadata = new HeaderMap();
  let regular = false;
  for (const { name, value } of fields) {
    if (!isFieldValue(value)) throw malformed('a line break or NUL in a header', stream);
    if (name.startsWith(':')) {
      if (regular) throw malformed(`${name} after other headers`, stream);
      if (pseudo.has(name)) throw malformed(`${name} twice`, stream);
      if (name !== ':method' && name !== ':path' && name !== ':scheme' && name !== ':authority')
        throw malformed('an unknown pseudo header', stream);
      pseudo.set(name, value);
      continue;
    }
    regular = true;
    if (!isFieldName(name)) throw malformed('an invalid header name', stream);
    if (CONNECTION_FIELDS.has(name) || (name === 'te' && value !== 'trailers'))
      throw malformed(`${name} is not allowed in HTTP/2`, stream);
    metadata.add(name, value);
  }
  const method = pseudo.get(':method');
  const path = pseudo.get(':path');
  if (method === undefined || path === undefined || path === '' || !pseudo.has(':scheme'))
    throw malformed(':method, :path or :scheme is missing', stream);
  return { method, path, metadata, contentLength: contentLength(metadata, stream) };
}

/** Trailers have no pseudo headers. Throws Http2Error of the stream. */
export function checkTrailers(fields: readonly HeaderField[], stream: number): void {
  for (const { name, value } of fields)
    if (!isFieldName(name) || !isFieldValue(value)) throw malformed('bad trailers', stream);
}

/** `application/grpc`, alone or with `+proto` and the like, or with parameters. */
export function isGrpc(contentType: readonly string[]): boolean {
  const [type = ''] = contentType;
  return type === 'application/grpc' || type.startsWith('application/grpc+') || type.startsWith('application/grpc;');
}

const OK_HEADERS = [
  { name: ':status', value: '200' },
  { name: 'content-type', value: 'application/grpc' },
] as const;
const OK_TRAILERS = encodeHeaders([{ name: 'grpc-status', value: '0' }]);

/** Headers of a response with messages. */
export const RESPONSE_HEADERS = encodeHeaders(OK_HEADERS);

/** The same where messages may be compressed. */
export const RESPONSE_HEADERS_OF: Readonly<Record<MessageEncoding, Buffer>> = {
  gzip: encodeHeaders([...OK_HEADERS, { name: 'grpc-encoding', value: 'gzip' }]),
};

/** Whether the client of a call accepts messages that are compressed like this. */
export function acceptsEncoding(metadata: Metadata, encoding: MessageEncoding): boolean {
  return metadata.get('grpc-accept-encoding').some((list) => list.split(',').some((each) => each.trim() === encoding));
}

/** Percent-encoding of gRPC: everything but printable ASCII, and the percent sign itself. */
function encodedMessage(text: string): string {
  let encoded = '';
  for (const byte of Buffer.from(text))
    encoded +=
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  return encoded;
}

function statusFields(error: CtlError): HeaderField[] {
  const { code, details } = statusOf(error);
  return [
    { name: 'grpc-status', value: String(code) },
    { name: 'grpc-message', value: encodedMessage(details) },
  ];
}

/** Trailers of a response; OK without an error. */
export function trailers(error: CtlError | undefined): Buffer {
  return error === undefined ? OK_TRAILERS : encodeHeaders(statusFields(error));
}

/** Headers of a response without messages. */
export function trailersOnly(error: CtlError | undefined, more: readonly HeaderField[] = []): Buffer {
  const status = error === undefined ? [{ name: 'grpc-status', value: '0' }] : statusFields(error);
  return encodeHeaders([...OK_HEADERS, ...status, ...more]);
}

/** Headers of a response to a request that is not gRPC. */
export function httpError(status: number): Buffer {
  return encodeHeaders([{ name: ':status', value: String(status) }]);
}

const TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** The `grpc-timeout` of a call, ms; undefined without one. Throws Http2Error of the stream for a malformed one. */
export function timeoutMs(metadata: Metadata, stream: number): number | undefined {
  const [text] = metadata.get('grpc-timeout');
  if (text === undefined) return undefined;
  const [, amount, unit = ''] = TIMEOUT.exec(text) ?? [];
  if (amount === undefined) throw malformed('grpc-timeout', stream);
  return Math.ceil(Number(amount) * (UNIT_MS[unit] ?? 0));
}
