/** The distinct changes of resources that a preview finds: views that share a change share one entry. */
import { XDS, type XdsType } from '../../core/xds-types.ts';
import { toShownJson } from '../../protobuf/index.ts';
import { type FieldChanges, fieldChanges } from './fields.ts';
import type { ChangedResource } from './types.ts';

/** A resource of one side of a change. */
export interface ComparedResource {
  readonly name: string;
  readonly version: string;
  /** The message, whole or in pieces that are fields of it. */
  readonly pieces: readonly Uint8Array[];
}

/** Resources whose fields are compared. Decoding them takes most of the time of a preview. */
const MAX_DETAILED = 64;
/** Larger messages, bytes, are not decoded. */
const MAX_DECODED = 256 * 1024;

export class ResourceChanges {
  readonly all: ChangedResource[] = [];
  readonly #known = new Map<string, number>();
  #detailed = 0;

  /** The number of a change. */
  numberOf(type: XdsType, before: ComparedResource | undefined, after: ComparedResource | undefined): number {
    const name = (after ?? before)?.name ?? '';
    const key = `${type}\n${name}\n${before?.version ?? ''}\n${after?.version ?? ''}`;
    let number = this.#known.get(key);
    if (number === undefined) {
      number = this.all.length;
      this.#known.set(key, number);
      this.all.push(this.#change(type, name, before, after));
    }
    return number;
  }

  #change(
    type: XdsType,
    name: string,
    before: ComparedResource | undefined,
    after: ComparedResource | undefined,
  ): ChangedResource {
    const sizes = {
      ...(before !== undefined && { before: sizeOf(before.pieces) }),
      ...(after !== undefined && { after: sizeOf(after.pieces) }),
    };
    const detail = this.#detailed < MAX_DETAILED ? detailOf(type, before, after) : undefined;
    if (detail === undefined) return { type, name, ...sizes };
    this.#detailed++;
    const { fields, more } = detail;
    return { type, name, ...sizes, fields, ...(more > 0 && { moreFields: more }) };
  }
}

function sizeOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}

/** Undefined where the messages are too large to be decoded. */
function detailOf(
  type: XdsType,
  before: ComparedResource | undefined,
  after: ComparedResource | undefined,
): FieldChanges | undefined {
  const [was, is] = [differing(before, after), differing(after, before)];
  if (Math.max(was?.length ?? 0, is?.length ?? 0) > MAX_DECODED) return undefined;
  const { message } = XDS[type];
  return fieldChanges(was && toShownJson(message, was), is && toShownJson(message, is));
}

/**
 * A message without the pieces that the other one has as well. Pieces are whole fields, such as the virtual hosts of a
 * route configuration, so what is left is a message, too.
 */
function differing(one: ComparedResource | undefined, other: ComparedResource | undefined): Uint8Array | undefined {
  if (one === undefined) return undefined;
  if (other === undefined || one.pieces.length === 1) return Buffer.concat(one.pieces);
  const known = new Set(other.pieces);
  const own = new Set(one.pieces);
  // Equal pieces are mostly the same objects; those that are not are compared by content. The first one is the name.
  const content = new Set(other.pieces.filter((piece) => !own.has(piece)).map(textOf));
  return Buffer.concat(
    one.pieces.filter((piece, index) => index === 0 || !(known.has(piece) || content.has(textOf(piece)))),
  );
}

function textOf(piece: Uint8Array): string {
  return Buffer.from(piece.buffer, piece.byteOffset, piece.length).toString('latin1');
}
