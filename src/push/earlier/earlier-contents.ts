/**
 * Keeps what each proxy should have had at moments of the last minutes, to compare it with what it should have now.
 * Bundles share what did not change, so that a moment costs a table of proxies, and the resources that were replaced or
 * removed since. Those are limited in all. Secrets are not kept.
 */
import { setImmediate } from 'node:timers/promises';
import type { Timer } from '../../core/clock.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { byXdsType, type XdsType } from '../../core/xds-types.ts';
import { keptBundle } from '../bundles/index.ts';
import type { Bundle, Parts } from '../types.ts';

/** Time between moments, ms. */
const INTERVAL_MS = 120_000;
/** The bytes are counted so often between two moments: changes that follow one another quickly replace much. */
const CHECKS = 5;
/** The oldest one is from 10 to 12 minutes old. */
const MOMENTS = 6;
/** The most bytes of resources that only moments still have. */
const MAX_BYTES = 64 * 1024 * 1024;
/** How long proxies are looked at before other work has its turn, ms. */
const SLICE_MS = 4;

/** A proxy, with what it should have. */
export interface ContentHolder {
  readonly node: Pick<ProxyNode, 'id' | 'namespace'>;
  content(): Parts;
}

export interface EarlierOptions {
  /** Unix ms. */
  readonly wall: () => number;
  /** Monotonic ms. */
  readonly now: () => number;
  readonly later: (ms: number, run: () => void) => Timer;
  readonly maxBytes?: number;
}

interface Moment {
  /** Unix ms. */
  readonly at: number;
  readonly contents: ReadonlyMap<string, Parts>;
  /** Bytes of resources that the moment after it does not have. */
  lost: number;
}

const keyOf = ({ namespace, id }: ContentHolder['node']): string => `${namespace} ${id}`;

export class EarlierContents {
  readonly #options: EarlierOptions;
  readonly #maxBytes: number;
  /** The oldest first. */
  #moments: readonly Moment[] = [];
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: EarlierOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes ?? MAX_BYTES;
  }

  /** Looks at the proxies from now on. */
  follow(proxies: () => Iterable<ContentHolder>): void {
    let checks = 0;
    const look = async (): Promise<void> => {
      checks = (checks + 1) % (CHECKS + 1);
      await (checks === 0 ? this.take(proxies()) : this.check(proxies()));
      if (!this.#closed) wait();
    };
    const wait = (): void => {
      this.#timer = this.#options.later(INTERVAL_MS / (CHECKS + 1), () => void look());
    };
    wait();
  }

  /** Unix ms of the moments at which a proxy was connected, the newest first. */
  moments(node: ContentHolder['node']): readonly number[] {
    const key = keyOf(node);
    return this.#moments.flatMap(({ at, contents }) => (contents.has(key) ? [at] : [])).reverse();
  }

  /** What a proxy should have had at a moment. Undefined: the moment is not kept, or the proxy was not connected. */
  parts(node: ContentHolder['node'], at: number, type: XdsType): readonly Bundle[] | undefined {
    return this.#moments.find((moment) => moment.at === at)?.contents.get(keyOf(node))?.[type];
  }

  /** Keeps a moment. */
  async take(proxies: Iterable<ContentHolder>): Promise<void> {
    const at = this.#options.wall();
    const contents = await this.#contents(proxies);
    if (contents !== undefined) this.#keep([...this.#moments, { at, contents, lost: 0 }]);
  }

  /** Counts what was replaced and removed since the last moment; that one too is dropped if it is too much. */
  async check(proxies: Iterable<ContentHolder>): Promise<void> {
    if (this.#moments.length > 0 && (await this.#contents(proxies)) !== undefined) this.#keep(this.#moments);
  }

  /** What the proxies have, and the bytes of the last moment that they do not have. Undefined: closed meanwhile. */
  async #contents(proxies: Iterable<ContentHolder>): Promise<ReadonlyMap<string, Parts> | undefined> {
    const { now } = this.#options;
    const last = this.#moments.at(-1);
    const contents = new Map<string, Parts>();
    const kept = new Keeper();
    const lost = new Lost();
    let begun = now();
    for (const proxy of [...proxies]) {
      const key = keyOf(proxy.node);
      const content = kept.parts(proxy.content());
      contents.set(key, content);
      const before = last?.contents.get(key);
      if (before !== undefined) lost.note(before, content);
      if (now() - begun < SLICE_MS) continue;
      await setImmediate();
      if (this.#closed) return undefined;
      begun = now();
    }
    if (last !== undefined) last.lost = lost.bytesOf(last.contents.values());
    return contents;
  }

  /** Keeps the newest moments, within the limit. */
  #keep(moments: readonly Moment[]): void {
    this.#moments = moments.slice(-MOMENTS);
    let bytes = this.#moments.reduce((sum, moment) => sum + moment.lost, 0);
    for (const moment of this.#moments) {
      if (bytes <= this.#maxBytes) break;
      bytes -= moment.lost;
      this.#moments = this.#moments.slice(1);
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#moments = [];
    return Promise.resolve();
  }
}

/** Copies that many proxies share, as they share what is copied. */
class Keeper {
  readonly #parts = new Map<Parts, Parts>();
  readonly #bundles = new Map<Bundle, Bundle>();

  parts(parts: Parts): Parts {
    const known = this.#parts.get(parts);
    if (known !== undefined) return known;
    const made = byXdsType((type) => (type === 'sds' ? [] : parts[type].map((bundle) => this.#bundle(bundle))));
    this.#parts.set(parts, made);
    return made;
  }

  #bundle(bundle: Bundle): Bundle {
    const known = this.#bundles.get(bundle) ?? keptBundle(bundle);
    this.#bundles.set(bundle, known);
    return known;
  }
}

/** Counts the resources of one moment that the next does not have. */
class Lost {
  /** Bytes by bundle of the earlier moment: the least that any proxy of it lost. */
  readonly #bytes = new Map<Bundle, number>();
  readonly #seen = new Map<Parts, Set<Parts>>();

  note(before: Parts, after: Parts): void {
    const seen = this.#seen.get(before) ?? new Set<Parts>();
    this.#seen.set(before, seen);
    if (seen.has(after)) return;
    seen.add(after);
    for (const [type, bundles] of Object.entries(before) as [XdsType, readonly Bundle[]][])
      for (const [index, bundle] of bundles.entries()) {
        const next = after[type][index];
        if (next?.viewKey !== bundle.viewKey) continue;
        const lost = lostBytes(bundle, next);
        this.#bytes.set(bundle, Math.min(lost, this.#bytes.get(bundle) ?? lost));
      }
  }

  /** The bytes of bundles that no proxy has a successor of are counted as a whole. */
  bytesOf(contents: Iterable<Parts>): number {
    const bundles = new Set<Bundle>();
    for (const parts of new Set(contents))
      for (const each of Object.values(parts)) for (const bundle of each) bundles.add(bundle);
    let sum = 0;
    for (const bundle of bundles)
      sum +=
        this.#bytes.get(bundle) ??
        sizeOf(
          bundle.resources().map(({ name }) => name),
          bundle,
        );
    return sum;
  }
}

function lostBytes(before: Bundle, after: Bundle): number {
  const { changed, removed } = after.diffFrom(before);
  return sizeOf([...changed.map(({ name }) => name), ...removed], before);
}

function sizeOf(names: readonly string[], bundle: Bundle): number {
  return names.reduce((sum, name) => sum + (bundle.get(name)?.fragment.length ?? 0), 0);
}
