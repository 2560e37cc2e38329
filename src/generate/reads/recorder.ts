/**
 * Records what is read of a mesh during a computation. Reads are facts (see `facts.ts`): names, added to the current
 * recording. A memo stores the facts of a result with it and adds them again on each hit, so that the facts are the
 * same whether the result was computed or cached.
 */
import type { Fact } from './facts.ts';

export type Facts = readonly Fact[];

/** A result and the facts that were read for it. */
export interface Recorded<T> {
  readonly value: T;
  readonly facts: Facts;
}

const NONE: Facts = [];

/** Generation is synchronous: there is one current recording, possibly nested in others. */
let current: Set<Fact> | undefined;

export function note(fact: Fact): void {
  current?.add(fact);
}

/** Records the facts of a remembered result. */
export function noteAll(facts: Facts): void {
  if (current !== undefined) for (const fact of facts) current.add(fact);
}

/** Runs a computation and returns the facts it read; an outer recording gets them, too, even when this throws. */
export function recorded<T>(run: () => T): Recorded<T> {
  const outer = current;
  const own = new Set<Fact>();
  current = own;
  try {
    const value = run();
    return { value, facts: own.size === 0 ? NONE : [...own] };
  } finally {
    current = outer;
    if (outer !== undefined) for (const fact of own) outer.add(fact);
  }
}

/** Runs a computation whose reads do not affect the result of the current recording. */
export function unrecorded<T>(run: () => T): T {
  const outer = current;
  current = undefined;
  try {
    return run();
  } finally {
    current = outer;
  }
}
