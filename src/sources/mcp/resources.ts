/** Parts of responses that both protocols have. */
import { CtlError } from '../../core/errors.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import type { ReceivedResource } from './received.ts';

/** The most refused documents that a NACK names. */
const MAX_NAMED = 5;
const MAX_CHARS = 1000;

/** The message of a NACK, for the operator of the source. */
export function nackMessage(refused: readonly string[]): string {
  const more = refused.length > MAX_NAMED ? `; and ${refused.length - MAX_NAMED} more` : '';
  return `refused documents: ${refused.slice(0, MAX_NAMED).join('; ')}`.slice(0, MAX_CHARS) + more;
}

/** Longest nonce, bytes. It is sent back with each answer. */
const MAX_NONCE = 1024;

/** Reads the nonce of a response. Throws CtlError `invalid_argument` if it is too long. */
export function checkedNonce(nonce: string): string {
  if (nonce.length <= MAX_NONCE) return nonce;
  throw new CtlError('invalid_argument', `a nonce has ${nonce.length} characters, of which there may be ${MAX_NONCE}`);
}

/**
 * Why a response does not say which documents exist, one line; undefined if it does. Documents that are missing in such
 * a response must not be removed.
 */
export function unnamedProblem(resources: readonly ReceivedResource[]): string | undefined {
  const unnamed = resources.filter(({ name }) => name === '').length;
  return unnamed === 0 ? undefined : `${unnamed} resources without metadata.name`;
}

/** Type URL and content of an encoded `google.protobuf.Any`. Throws CtlError `invalid_argument` for other bytes. */
export function anyAt(bytes: Buffer): { readonly typeUrl: string; readonly value: Buffer } {
  const any = new WireReader(bytes);
  let typeUrl = '';
  let value = Buffer.alloc(0);
  for (let field = any.next(); field !== undefined; field = any.next()) {
    if (field.number === 1) typeUrl = any.text(field);
    else if (field.number === 2) value = any.content(field) as Buffer<ArrayBuffer>;
  }
  return { typeUrl, value };
}

/** Name and version of an encoded `istio.mcp.v1alpha1.Resource`. Throws CtlError `invalid_argument` for other bytes. */
export function resourceAt(bytes: Buffer): ReceivedResource {
  const reader = new WireReader(bytes);
  let [name, version] = ['', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    // `metadata`
    if (field.number !== 1) continue;
    const inside = reader.inside(field);
    for (let part = inside.next(); part !== undefined; part = inside.next()) {
      if (part.number === 1) name = inside.text(part);
      else if (part.number === 3) version = inside.text(part);
    }
  }
  return { name, version, bytes };
}
