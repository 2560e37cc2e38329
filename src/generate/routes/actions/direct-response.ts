/** Fixed responses that Envoy sends itself. */
import type { HttpDirectResponse } from '../../../resources/index.ts';
import type { DirectResponseAction } from '../messages.ts';

/** Bytes of the longest body; route configurations raise Envoy's own limit (4 KiB) to this. */
export const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Undefined when Envoy would refuse the whole route configuration because of it: a status outside 200–599, a body over
 * the limit.
 */
export function directResponseAction({ status, body }: HttpDirectResponse): DirectResponseAction | undefined {
  if (status < 200 || status > 599) return undefined;
  if (body?.string !== undefined) {
    const fits = new TextEncoder().encode(body.string).length <= MAX_BODY_BYTES;
    return fits ? { status, body: { inlineString: body.string } } : undefined;
  }
  const bytes = body?.bytes === undefined ? undefined : fromBase64(body.bytes);
  if (bytes === undefined) return { status };
  return bytes.length <= MAX_BODY_BYTES ? { status, body: { inlineBytes: bytes } } : undefined;
}

/** Undefined for a string that is not Base64. */
function fromBase64(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
