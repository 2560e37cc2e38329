/** Fixed answers that Envoy gives itself. */
import type { HttpDirectResponse } from '../../resources/schemas.ts';
import type { DirectResponseAction } from './messages.ts';

/** Undefined for a status that Envoy does not take (it wants 200–599). */
export function directResponseAction({ status, body }: HttpDirectResponse): DirectResponseAction | undefined {
  if (status < 200 || status > 599) return undefined;
  if (body?.string !== undefined) return { status, body: { inlineString: body.string } };
  const bytes = body?.bytes === undefined ? undefined : fromBase64(body.bytes);
  return bytes === undefined ? { status } : { status, body: { inlineBytes: bytes } };
}

/** Undefined for what is not Base64. */
function fromBase64(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
