/**
 * What to send to bring a proxy from some bundles to others. Nearly always thousands of proxies that have the same take
 * the same step, one after the other: then they have one plan, and what they have after it is one object.
 */
import type { Bundle } from '../../push/types.ts';
import { findIn, type Have, type Held, heldOf, NO_EXCEPTIONS, sameBundles } from './client-state.ts';
import type { Interest } from './interest.ts';
import type { RemovalPolicy } from './removal-policy.ts';
import type { Mode } from './responses.ts';
import { chunked, ResourceLists, type Selection, type Selections } from './selection.ts';

export interface Plan {
  readonly changed: ResourceLists;
  readonly removed: readonly string[];
  readonly next: Have;
  /** Owed names that have to wait for the next response: they are in doubt after a NACK. */
  readonly kept: ReadonlySet<string>;
  /** When set: `changed` is exactly what these hold, so that their joined bodies can be sent. */
  readonly shared: readonly Selection[] | undefined;
}

/** The changed resources as fields of this protocol's message. */
export function bodyOf({ changed, shared }: Plan, mode: Mode): readonly Uint8Array[] {
  if (shared === undefined) return chunked(changed.flat(), mode);
  const [only] = shared;
  return shared.length === 1 && only !== undefined ? only.body(mode) : shared.flatMap((each) => each.body(mode));
}

export const NONE_KEPT: ReadonlySet<string> = new Set();

interface Step {
  readonly bases: readonly Bundle[];
  readonly parts: readonly Bundle[];
  readonly interest: Interest;
  readonly plan: Plan;
}

function isSame(
  step: Step,
  bases: readonly Bundle[],
  parts: readonly Bundle[],
  { wildcard, names }: Interest,
): boolean {
  return (
    step.interest.names === names &&
    step.interest.wildcard === wildcard &&
    sameBundles(step.parts, parts) &&
    sameBundles(step.bases, bases)
  );
}

/** The plans of one server. */
export class Plans {
  readonly #selections: Selections;
  readonly #remember: boolean;
  #last: Step | undefined;

  /** @param remember whether the last step is */
  constructor(selections: Selections, remember: boolean) {
    this.#selections = selections;
    this.#remember = remember;
  }

  /**
   * The plan of {@link whole} for a proxy that has something, where one part alone is another and takes nothing away.
   */
  step({ bases }: Have, interest: Interest, parts: readonly Bundle[]): Plan | undefined {
    const last = this.#last;
    if (last !== undefined && isSame(last, bases, parts, interest)) return last.plan;
    let only: Selection | undefined;
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index];
      const base = bases[index];
      if (part === undefined || part === base) continue;
      if (only !== undefined) return undefined;
      only = this.#selections.select(part, base, interest);
      if (only.removed.length > 0) return undefined;
    }
    if (only === undefined) return undefined;
    const plan: Plan = {
      changed: new ResourceLists([only.changed]),
      removed: [],
      next: { bases: parts, overlay: NO_EXCEPTIONS },
      kept: NONE_KEPT,
      shared: [only],
    };
    if (this.#remember) this.#last = { bases, parts, interest, plan };
    return plan;
  }

  /**
   * The proxy has exactly some bundles of the same views, or nothing, so that the difference is shared by all who are
   * at them.
   */
  whole(have: Have, interest: Interest, parts: readonly Bundle[], removes: RemovalPolicy, fresh: boolean): Plan {
    const selections = parts.map((bundle, index) =>
      this.#selections.select(bundle, fresh ? undefined : have.bases[index], interest),
    );
    const changed = new ResourceLists(selections.map((selection) => selection.changed));
    // What one part dropped may have moved to another.
    const gone = selections.flatMap((s) => s.removed.filter((name) => findIn(parts, name) === undefined));
    const overlay = new Map<string, Held | undefined>();
    const removed: string[] = [];
    for (const name of gone)
      if (removes(name)) removed.push(name);
      else overlay.set(name, heldOf(have, name));
    if (fresh && (interest.wildcard || changed.length < interest.names.size))
      for (const name of interest.names.names) if (findIn(parts, name) === undefined) removed.push(name);
    return { changed, removed, next: { bases: parts, overlay }, kept: NONE_KEPT, shared: selections };
  }
}
