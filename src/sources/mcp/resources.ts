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

/** Longest nonce or version, characters. They are kept, and sent back to the server. */
const MAX_TOKEN = 1024;

/** Reads a nonce or a version. Throws CtlError `invalid_argument` if it is too long. */
export function checkedToken(what: 'nonce' | 'version', token: string): string {
  if (token.length <= MAX_TOKEN) return token;
  const message = `a ${what} has ${token.length} characters, of which there may be ${MAX_TOKEN}`;
  throw new CtlError('invalid_argument', message);
}

/** Adds to a list of a response; what exceeds `most` by more than one is left out: the response is refused then. */
export function addTo<T>(list: T[], most: number, read: () => T): void {
  if (list.length <= most) list.push(read());
}

/**
 * Why a response does not say which documents exist, one line; undefined if it does. Documents that are missing in such
 * a response must not be removed.
 */
export function unnamedProblem(resources: readonly ReceivedResource[]): string | undefined {
  const unnamed = resources.filter(({ name }) => name === '').length;
  return unnamed === 0 ? undefined : `${unnamed} resources that cannot be read or have no metadata.name`;
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

/**
 * Name and version of an encoded `istio.mcp.v1alpha1.Resource`; other bytes are a fault of a resource without a name.
 * Throws CtlError `invalid_argument` for a version that is too long.
 */
export function resourceAt(bytes: Buffer): ReceivedResource {
  const head = readable(() => headAt(bytes));
  if ('fault' in head) return { name: '', version: '', bytes, fault: head.fault };
  return { name: head.name, version: checkedToken('version', head.version), bytes };
}

/** What `read` returns, or why bytes are not the message that they should be. */
export function readable<T extends object>(read: () => T): T | { readonly fault: string } {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CtlError)) throw error;
    return { fault: error.message };
  }
}

function headAt(bytes: Buffer): Pick<ReceivedResource, 'name' | 'version'> {
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
  return { name, version };
}
