/**
 * Records what is read of a mesh while something is made of it. Reads are facts (see `facts.ts`): names, added to the
 * current recording. A memo keeps the facts of a result beside it and adds them again with it, so that nobody can tell
 * by the facts whether the result was made or remembered.
 */
import type { Fact } from './facts.ts';

export type Facts = readonly Fact[];

/** A result and what was read for it. */
export interface Recorded<T> {
  readonly value: T;
  readonly facts: Facts;
}

const NONE: Facts = [];

/** Generation is synchronous: there is one recording at a time, and those that it lies within. */
let current: Set<Fact> | undefined;

/** Tells that a fact was read. */
export function note(fact: Fact): void {
  current?.add(fact);
}

/** Tells that facts were read, those of a remembered result. */
export function noteAll(facts: Facts): void {
  if (current !== undefined) for (const fact of facts) current.add(fact);
}

/** Runs something and says what it read; an outer recording gets the facts, too, even when this throws. */
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

/** Runs something whose reads decide nothing of what is being made. */
export function unrecorded<T>(run: () => T): T {
  const outer = current;
  current = undefined;
  try {
    return run();
  } finally {
    current = outer;
  }
}
