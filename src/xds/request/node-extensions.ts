/** The extensions that an Envoy lists in its node. */
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import type { WireField, WireReader } from '../../protobuf/wire/index.ts';
import type { ExtensionList } from '../protocol/index.ts';
import type { KnownExtensions } from './known-extensions.ts';
import { invalid } from './node-error.ts';
import { boundedText, MAX_STRING_BYTES } from './node-values.ts';

export const MAX_EXTENSIONS = 4096;

/**
 * Other extensions are not kept, because an Envoy sends the names of 500 extensions, which would take half of the
 * memory of its stream.
 */
const ASKED: ReadonlySet<string> = new Set(ASKED_EXTENSIONS);

function readExtensionName(reader: WireReader): string {
  let name = '';
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 1) name = boundedText(reader, field, MAX_STRING_BYTES, 'node.extensions');
  return name;
}

/** The extensions of a node while they are read; `left` are those that were left out of its bytes. */
export class ExtensionReader {
  readonly #checked: Set<string>;
  #count: number;
  readonly #learns: boolean;
  /** Where they begin and end, as long as no other field is between them. */
  #begin = -1;
  #end = -1;

  constructor(left: ExtensionList | undefined) {
    this.#checked = new Set(left?.checked);
    this.#count = left?.count ?? 0;
    this.#learns = left === undefined;
  }

  read(reader: WireReader, field: WireField): void {
    if (++this.#count > MAX_EXTENSIONS) throw invalid(`more than ${MAX_EXTENSIONS}`, 'node.extensions');
    const name = readExtensionName(reader.inside(field));
    if (ASKED.has(name)) this.#checked.add(name);
    if (this.#begin < 0) this.#begin = field.tag;
    else if (this.#end !== field.tag) this.#begin = Number.MAX_SAFE_INTEGER;
    this.#end = field.end;
  }

  /** Undefined for a node without extensions. */
  finish(bytes: Buffer, known: KnownExtensions | undefined): ExtensionList | undefined {
    if (this.#count === 0) return undefined;
    const list = { checked: this.#checked, count: this.#count };
    if (this.#learns) known?.learn(bytes.subarray(this.#begin, this.#end), list);
    return list;
  }
}
