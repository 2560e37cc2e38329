/**
 * Immutable bundles. The next large bundle of a view shares all unchanged entries with the previous one. The cost of
 * the difference of two of them is therefore that of the entries that they do not share, and streams that move between
 * the same two bundles share one difference.
 */
import { InternalError } from '../../core/errors.ts';
import type { XdsType } from '../../core/xds-types.ts';
import type { Bundle, BundleDiff, EncodedResource } from '../types.ts';
import { type Content, type ContentChanges, NO_CONTENT } from './contents.ts';

const NO_DIFF: BundleDiff = { changed: [], removed: [] };

let lastId = 0;

class SharedBundle implements Bundle {
  readonly id = ++lastId;
  readonly type: XdsType;
  readonly viewKey: string;
  readonly sequence: number;
  readonly content: Content;
  /** Differences from it by the newer bundle: most of its time a bundle is the newest, and has none. */
  #diffs: WeakMap<SharedBundle, BundleDiff> | undefined;
  #body: readonly Uint8Array[] | undefined;
  #ref: WeakRef<Bundle> | undefined;

  constructor(type: XdsType, viewKey: string, sequence: number, content: Content) {
    this.type = type;
    this.viewKey = viewKey;
    this.sequence = sequence;
    this.content = content;
  }

  get ref(): WeakRef<Bundle> {
    this.#ref ??= new WeakRef<Bundle>(this);
    return this.#ref;
  }

  get size(): number {
    return this.content.size;
  }

  get(name: string): EncodedResource | undefined {
    return this.content.get(name);
  }

  resources(): readonly EncodedResource[] {
    return this.content.resources();
  }

  diffFrom(previous: Bundle | undefined): BundleDiff {
    if (previous === this) return NO_DIFF;
    if (previous === undefined) return { changed: this.resources(), removed: [] };
    if (!(previous instanceof SharedBundle))
      throw new InternalError('expected a bundle of this module to compare with');
    previous.#diffs ??= new WeakMap();
    let diff = previous.#diffs.get(this);
    if (diff === undefined) {
      diff = this.#compare(previous);
      previous.#diffs.set(this, diff);
    }
    return diff;
  }

  #compare(previous: SharedBundle): BundleDiff {
    const changed: EncodedResource[] = [];
    const removed: string[] = [];
    for (const name of this.content.changedNames(previous.content)) {
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

/** The first bundle of a view: it has no resources. */
export function emptyBundle(type: XdsType, viewKey: string): Bundle {
  return new SharedBundle(type, viewKey, 0, NO_CONTENT);
}

/** The bundle after these changes; the same object if it is unchanged. */
export function nextBundle(bundle: Bundle, changes: ContentChanges): Bundle {
  const content = contentOf(bundle).with(changes);
  return content === contentOf(bundle) ? bundle : following(bundle, content);
}

/**
 * The successor of `bundle` with the content of `other` after `changes`. `other` may be of another view; the two share
 * memory.
 */
export function bundleAfter(bundle: Bundle, other: Bundle, changes: ContentChanges): Bundle {
  return following(bundle, contentOf(other).with(changes));
}

function following({ type, viewKey, sequence }: Bundle, content: Content): Bundle {
  return new SharedBundle(type, viewKey, sequence + 1, content);
}

function contentOf(bundle: Bundle): Content {
  if (!(bundle instanceof SharedBundle)) throw new InternalError('expected a bundle of this module to continue');
  return bundle.content;
}

/** True for the first bundle of a view, which has never had a resource. */
export function isUntouched({ sequence }: Bundle): boolean {
  return sequence === 0;
}

/** The same resources without a joined body, which is as large as they are: to be kept for long. */
export function keptBundle(bundle: Bundle): Bundle {
  const { type, viewKey, sequence } = bundle;
  return new SharedBundle(type, viewKey, sequence, contentOf(bundle));
}
