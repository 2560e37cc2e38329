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
  #content: Parts = NO_PARTS;
  /** The bundles that it was built from; empty when it has to be built again. */
  #of: readonly Bundles[] = [];

  constructor(session: S, host: { shared: SharedContent }) {
    this.#session = session;
    this.#host = host;
  }

  /**
   * @param secrets in place of those of the views
   * @param keep whether the content is kept: it keeps all that the views have now in memory
   */
  of(views: readonly ShownView<S>[], secrets: readonly Bundle[] | undefined, keep: boolean): Parts {
    if (this.#isOf(this.#of, views)) return this.#content;
    const { shared } = this.#host;
    const result = secrets === undefined && this.#isOf(shared.bundles, views) ? shared : this.#build(views, secrets);
    if (secrets === undefined) this.#host.shared = result;
    if (keep) [this.#of, this.#content] = [result.bundles, result.content];
    return result.content;
  }

  #isOf(bundles: readonly Bundles[], views: readonly ShownView<S>[]): boolean {
    if (bundles.length !== views.length) return false;
    for (let index = 0; index < bundles.length; index++)
      if (bundles[index] !== views[index]?.shownTo(this.#session)) return false;
    return true;
  }

  #build(views: readonly ShownView<S>[], secrets: readonly Bundle[] | undefined): SharedContent {
    const before = this.#content;
    const bundles = views.map((view) => view.shownTo(this.#session));
    const content = byXdsType((type) => partsOf(type, bundles, before));
    if (secrets !== undefined) content.sds = secrets;
    return { bundles, content: XDS_TYPES.some((type) => content[type] !== before[type]) ? content : before };
  }

  /** It is built again the next time. */
  outdate(): void {
    this.#of = [];
  }

  drop(): void {
    this.#of = [];
    this.#content = NO_PARTS;
  }
}

/** Parts of a type: the same array as before while the bundles are the same. */
function partsOf(type: XdsType, seen: readonly Bundles[], before: Parts): readonly Bundle[] {
  const known = before[type];
  let same = known.length === seen.length;
  for (let index = 0; same && index < seen.length; index++) same = known[index] === seen[index]?.[type];
  return same ? known : seen.map((bundles) => bundles[type]);
}
