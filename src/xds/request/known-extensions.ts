/**
 * The lists of extensions that nodes have sent. An Envoy names its 516 extensions in its first request, 55 of 60 kB,
 * and all Envoys of one build name the same ones. A known list is neither kept while its stream waits for admission nor
 * read again: reading it takes 0.3 ms.
 */
import { FieldScanner } from '../../protobuf/wire/index.ts';
import type { ExtensionList } from '../protocol/index.ts';

/** `envoy.config.core.v3.Node.extensions`. */
export const EXTENSIONS_FIELD = 9;

/** Lists that are kept: one for each build of Envoy that has connected recently. */
export const MAX_LISTS = 8;

/** Shorter lists are read each time. */
export const MIN_LEARNED_BYTES = 4096;

/** Longer lists are not kept: Envoy's have 55 kB. */
export const MAX_LEARNED_BYTES = 256 * 1024;

interface Known {
  /** The encoded fields. */
  readonly bytes: Buffer;
  readonly list: ExtensionList;
}

/** An encoded node without a list of extensions that is known. */
interface Shortened {
  readonly node: Buffer;
  readonly extensions: ExtensionList;
}

const scan = new FieldScanner();

/** Where the extensions of a node begin; undefined for a node without extensions, or with other fields than Envoy's. */
function beginOf(bytes: Buffer, start: number, end: number): number | undefined {
  for (let at = start; at < end && scan.read(bytes, at, end); at = scan.end)
    if (scan.number === EXTENSIONS_FIELD) return at;
  return undefined;
}

/** The lists that one server has read. Comparisons are exact. */
export class KnownExtensions {
  readonly #enabled: boolean;
  /** The list that was used last is the first. */
  #known: readonly Known[] = [];

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  /**
   * A copy of the node between the two offsets without the known list that its extensions begin with; undefined where
   * they begin with none.
   */
  leaveOut(bytes: Buffer, start: number, end: number): Shortened | undefined {
    if (end - start < MIN_LEARNED_BYTES || this.#known.length === 0) return undefined;
    const begin = beginOf(bytes, start, end);
    if (begin === undefined) return undefined;
    const found = this.#known.find(
      (known) =>
        begin + known.bytes.length <= end && known.bytes.compare(bytes, begin, begin + known.bytes.length) === 0,
    );
    if (found === undefined) return undefined;
    this.#first(found);
    const rest = bytes.subarray(begin + found.bytes.length, end);
    return { node: Buffer.concat([bytes.subarray(start, begin), rest]), extensions: found.list };
  }

  /** Keeps a list that was read from consecutive fields. */
  learn(bytes: Buffer, list: ExtensionList): void {
    if (!this.#enabled || bytes.length < MIN_LEARNED_BYTES || bytes.length > MAX_LEARNED_BYTES) return;
    if (this.#known.some((known) => known.bytes.equals(bytes))) return;
    this.#first({ bytes: Buffer.from(bytes), list });
  }

  #first(known: Known): void {
    if (this.#known[0] === known) return;
    this.#known = [known, ...this.#known.filter((other) => other !== known)].slice(0, MAX_LISTS);
  }
}
