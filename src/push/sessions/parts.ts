/** The parts of a proxy, from the bundles of its views. */
import { byXdsType, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Bundle, Parts } from '../types.ts';
import type { Bundles } from '../views/index.ts';

/** Parts, and the bundles of the views that they were built from. */
export interface SharedContent {
  readonly bundles: readonly Bundles[];
  readonly content: Parts;
}

const NO_PARTS: Parts = byXdsType(() => []);

export const NOTHING_SHARED: SharedContent = { bundles: [], content: NO_PARTS };

/** A view, with what it has for a session. */
interface ShownView<S> {
  shownTo(session: S): Bundles;
}

/** The content of one session: the same object while the bundles of its views are the same. */
export class SessionContent<S> {
  readonly #session: S;
  /** The content that a session built last, for the next session with the same views. */
  readonly #host: { shared: SharedContent };
  /** Weak until garbage is collected while the session is idle: it refers to all that the views had then. */
  #last: SharedContent | WeakRef<SharedContent> = NOTHING_SHARED;
  #isOutdated = false;

  constructor(session: S, host: { shared: SharedContent }) {
    this.#session = session;
    this.#host = host;
  }

  /**
   * @param secrets in place of those of the views
   * @param isIdle whether the content may be built again the next time
   */
  of(views: readonly ShownView<S>[], secrets: readonly Bundle[] | undefined, isIdle: boolean): Parts {
    const last = this.#last instanceof WeakRef ? (this.#last.deref() ?? NOTHING_SHARED) : this.#last;
    if (!this.#isOutdated && this.#isOf(last.bundles, views)) return last.content;
    const result = this.#current(last, views, secrets);
    this.#isOutdated = false;
    this.#last = isIdle ? new WeakRef(result) : result;
    return result.content;
  }

  #current(last: SharedContent, views: readonly ShownView<S>[], secrets: readonly Bundle[] | undefined): SharedContent {
    if (secrets !== undefined) return this.#build(last.content, views, secrets);
    if (!this.#isOf(this.#host.shared.bundles, views)) this.#host.shared = this.#build(last.content, views, secrets);
    return this.#host.shared;
  }

  #isOf(bundles: readonly Bundles[], views: readonly ShownView<S>[]): boolean {
    if (bundles.length !== views.length) return false;
    for (let index = 0; index < bundles.length; index++)
      if (bundles[index] !== views[index]?.shownTo(this.#session)) return false;
    return true;
  }

  #build(before: Parts, views: readonly ShownView<S>[], secrets: readonly Bundle[] | undefined): SharedContent {
    const bundles = views.map((view) => view.shownTo(this.#session));
    const content = byXdsType((type) => partsOf(type, bundles, before));
    if (secrets !== undefined) content.sds = secrets;
    return { bundles, content: XDS_TYPES.some((type) => content[type] !== before[type]) ? content : before };
  }

  /** It is built again the next time. */
  outdate(): void {
    this.#isOutdated = true;
  }

  /** The session is idle: the content may be collected as garbage. */
  holdWeakly(): void {
    if (!(this.#last instanceof WeakRef)) this.#last = new WeakRef(this.#last);
  }

  drop(): void {
    this.#last = NOTHING_SHARED;
  }
}

/** Parts of a type: the same array as before while the bundles are the same. */
function partsOf(type: XdsType, seen: readonly Bundles[], before: Parts): readonly Bundle[] {
  const known = before[type];
  let same = known.length === seen.length;
  for (let index = 0; same && index < seen.length; index++) same = known[index] === seen[index]?.[type];
  return same ? known : seen.map((bundles) => bundles[type]);
}
