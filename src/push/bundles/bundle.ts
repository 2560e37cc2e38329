/**
 * Immutable bundles over a persistent map: the next bundle of a view shares all that did not change, so that the
 * difference of two bundles is found by comparing what they do not share, and two streams at the same pair of bundles
 * share the answer.
 */
import { PMap, type PMapChanges } from '../../core/pmap.ts';
import type { XdsType } from '../../generate/types.ts';
import type { Bundle, BundleDiff, EncodedResource } from '../types.ts';

const NO_DIFF: BundleDiff = { changed: [], removed: [] };

class SharedBundle implements Bundle {
  readonly type: XdsType;
  readonly viewKey: string;
  readonly sequence: number;
  readonly content: PMap<EncodedResource>;
  /** Keyed by the older bundle: freed with it. */
  readonly #diffs = new WeakMap<SharedBundle, BundleDiff>();
  #all: readonly EncodedResource[] | undefined;
  #body: readonly Uint8Array[] | undefined;

  constructor(type: XdsType, viewKey: string, sequence: number, content: PMap<EncodedResource>) {
    this.type = type;
    this.viewKey = viewKey;
    this.sequence = sequence;
    this.content = content;
  }

  get size(): number {
    return this.content.size;
  }

  get(name: string): EncodedResource | undefined {
    return this.content.get(name);
  }

  resources(): readonly EncodedResource[] {
    this.#all ??= this.content.sorted().map(([, resource]) => resource);
    return this.#all;
  }

  diffFrom(previous: Bundle | undefined): BundleDiff {
    if (previous === this) return NO_DIFF;
    if (previous === undefined) return { changed: this.resources(), removed: [] };
    if (!(previous instanceof SharedBundle)) throw new TypeError('a bundle made elsewhere cannot be compared');
    let diff = this.#diffs.get(previous);
    if (diff === undefined) {
      diff = this.#compare(previous);
      this.#diffs.set(previous, diff);
    }
    return diff;
  }

  #compare(previous: SharedBundle): BundleDiff {
    const changed: EncodedResource[] = [];
    const removed: string[] = [];
    for (const name of this.content.changedKeys(previous.content).sort()) {
      const now = this.content.get(name);
      if (now === undefined) removed.push(name);
      else if (now.version !== previous.content.get(name)?.version) changed.push(now);
    }
    return { changed, removed };
  }

  sotwBody(): readonly Uint8Array[] {
    this.#body ??= [Buffer.concat(this.resources().map((r) => r.fragment.subarray(r.anyOffset)))];
    return this.#body;
  }
}

/** A bundle without resources: where a view begins. */
export function emptyBundle(type: XdsType, viewKey: string): Bundle {
  return new SharedBundle(type, viewKey, 0, PMap.empty());
}

/** The next bundle of the view; the same object when `changes` change nothing. */
export function nextBundle(bundle: Bundle, changes: PMapChanges<EncodedResource>): Bundle {
  const content = contentOf(bundle).with(changes);
  return content === contentOf(bundle) ? bundle : following(bundle, content);
}

/**
 * The bundle of a view that follows `bundle` and has what `other`, of whatever view, has after `changes`: it shares
 * memory with that.
 */
export function bundleAfter(bundle: Bundle, other: Bundle, changes: PMapChanges<EncodedResource>): Bundle {
  return following(bundle, contentOf(other).with(changes));
}

function following({ type, viewKey, sequence }: Bundle, content: PMap<EncodedResource>): Bundle {
  return new SharedBundle(type, viewKey, sequence + 1, content);
}

function contentOf(bundle: Bundle): PMap<EncodedResource> {
  if (!(bundle instanceof SharedBundle)) throw new TypeError('a bundle made elsewhere cannot be continued');
  return bundle.content;
}

/** True for a bundle that its view has begun with and that has never had a resource. */
export function isUntouched({ sequence }: Bundle): boolean {
  return sequence === 0;
}
