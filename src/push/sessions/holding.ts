/**
 * What a session holds of the views that its proxy uses in part: by it, these views find the sessions that a change
 * concerns.
 */
import type { View } from '../../generate/index.ts';
import type { Names } from '../types.ts';

/** A view of a session, as far as it finds that. */
interface HeldView<S> {
  readonly view: { readonly view: View };
  hold(session: S, names: readonly Names[] | undefined): void;
  wait(session: S, waits: boolean): void;
}

interface Holder<S> {
  readonly allViews: readonly HeldView<S>[];
}

export class Holding<S extends Holder<S>> {
  readonly #session: S;
  /** Undefined: everything. */
  #names: readonly Names[] | undefined;
  /** Its views find it for each commit. */
  #waits = false;

  constructor(session: S) {
    this.#session = session;
  }

  /** Whether the session holds only some of what its views have. */
  get isOfSome(): boolean {
    return this.#names !== undefined;
  }

  /** False when nothing has changed. */
  set(names: readonly Names[] | undefined): boolean {
    const before = this.#names;
    const isSame = names?.length === before?.length && names?.every((each, at) => each === before?.[at]) !== false;
    if (isSame) return false;
    this.#names = names;
    for (const view of this.#session.allViews.filter(isOnDemand)) view.hold(this.#session, names);
    return true;
  }

  /** The session has entered these views. */
  enter(views: readonly HeldView<S>[]): void {
    if (this.#names === undefined) return;
    for (const view of views.filter(isOnDemand)) {
      view.hold(this.#session, this.#names);
      view.wait(this.#session, this.#waits);
    }
  }

  /**
   * A session that holds some resources only is not found for commits that do not concern these, unless it waits for
   * what they may complete.
   */
  wait(waits: boolean): void {
    if (this.#names === undefined || waits === this.#waits) return;
    this.#waits = waits;
    for (const view of this.#session.allViews.filter(isOnDemand)) view.wait(this.#session, waits);
  }
}

/** Whether the proxy asks for the virtual hosts of the view that it uses. */
function isOnDemand<S>({ view: { view } }: HeldView<S>): boolean {
  return view.part === 'outbound' && view.capabilities.onDemand !== undefined;
}
