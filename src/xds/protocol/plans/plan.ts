/**
 * Plans: the resources to send and the names to remove to update a proxy from some bundles to others. Usually thousands
 * of proxies in the same state take the same step, one after the other: they share one plan, and one object for the
 * state after it.
 */
import type { Bundle } from '../../../push/index.ts';
import {
  type ClientState,
  exceptions,
  findResource,
  knownResource,
  NO_EXCEPTIONS,
  sameBundles,
} from '../client-state.ts';
import type { Interest } from '../interest.ts';
import type { Mode } from '../responses.ts';
import { chunked, ResourceLists, type Selection, type Selections } from '../selection.ts';
import type { RemovalPolicy } from './removal-policy.ts';

export interface Plan {
  readonly changed: ResourceLists;
  readonly removed: readonly string[];
  readonly next: ClientState;
  /** When set, `changed` is the concatenation of these, so that their joined bodies can be sent. */
  readonly shared: readonly Selection[] | undefined;
  /** The removed names that the proxy subscribed to and that never had a resource. */
  readonly missing?: readonly string[];
  /** It has only a part of the resources that are suspected to be rejected. */
  readonly ofSearch?: boolean;
}

/** The changed resources as fields of this protocol's message. */
export function bodyOf({ changed, shared }: Plan, mode: Mode): readonly Uint8Array[] {
  if (shared === undefined) return chunked(changed.flat(), mode);
  const [only] = shared;
  return shared.length === 1 && only !== undefined ? only.body(mode) : shared.flatMap((each) => each.body(mode));
}

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

  /** @param remember false: every step is computed again */
  constructor(selections: Selections, remember: boolean) {
    this.#selections = selections;
    this.#remember = remember;
  }

  /**
   * The plan of {@link whole} for the usual case: the proxy has resources, one part has changed, and nothing was
   * removed.
   * @returns undefined in any other case
   */
  step({ bases }: ClientState, interest: Interest, parts: readonly Bundle[]): Plan | undefined {
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
      shared: [only],
    };
    if (this.#remember) this.#last = { bases, parts, interest, plan };
    return plan;
  }

  /**
   * The plan for a proxy that has exactly some bundles of the same views, or no resources: all proxies with those
   * bundles share the difference.
   */
  whole(
    state: ClientState,
    interest: Interest,
    parts: readonly Bundle[],
    removes: RemovalPolicy,
    fresh: boolean,
  ): Plan {
    const selections = parts.map((bundle, index) =>
      this.#selections.select(bundle, fresh ? undefined : state.bases[index], interest),
    );
    const changed = new ResourceLists(selections.map((selection) => selection.changed));
    // A name that was removed from one part may have moved to another.
    const removedNames = selections.flatMap((s) => s.removed.filter((name) => findResource(parts, name) === undefined));
    const kept = removedNames.filter((name) => !removes(name));
    const removed = kept.length === 0 ? removedNames : removedNames.filter(removes);
    const overlay = exceptions(kept.map((name) => [name, knownResource(state, name)] as const));
    return { changed, removed, next: { bases: parts, overlay }, shared: selections };
  }
}
