/**
 * Which sessions of a view a change concerns, if these have only some resources of the view: found by the names that
 * they hold, not by asking each session. Sessions with equal names share one set.
 */
import { Multimap } from '../../core/multimap.ts';
import type { Names } from '../types.ts';
import { patternOf } from './name-patterns.ts';

export class Holders<S extends object> {
  /** The sets that contain a name. */
  readonly #sets = new Multimap<string, Names>();
  readonly #sessions = new Multimap<Names, S>();
  readonly #held = new Map<S, readonly Names[]>();
  /** Sessions that have everything, as far as is known. */
  readonly #others: Set<S>;
  /** Sessions that wait for something of each commit. */
  readonly #waiting = new Set<S>();

  constructor(sessions: Iterable<S>) {
    this.#others = new Set(sessions);
  }

  enter(session: S): void {
    if (!this.#held.has(session)) this.#others.add(session);
  }

  leave(session: S): void {
    this.set(session, undefined);
    this.#others.delete(session);
    this.#waiting.delete(session);
  }

  /** @param held undefined: everything */
  set(session: S, held: readonly Names[] | undefined): void {
    const before = this.#held.get(session) ?? [];
    for (const names of held ?? []) if (!before.includes(names)) this.#add(names, session);
    for (const names of before) if (held?.includes(names) !== true) this.#remove(names, session);
    if (held === undefined) {
      this.#held.delete(session);
      this.#others.add(session);
    } else {
      this.#held.set(session, held);
      this.#others.delete(session);
    }
  }

  isHeld(name: string): boolean {
    return this.#sets.has(name);
  }

  /** Whether it is to be found for each commit of the view. */
  wait(session: S, waits: boolean): void {
    if (waits) this.#waiting.add(session);
    else this.#waiting.delete(session);
  }

  /**
   * Those that hold any of these names (see `name-patterns.ts`), or everything.
   * @param isCommit also those that wait for commits
   */
  of(changed: Iterable<string>, isCommit: boolean): ReadonlySet<S> {
    const found = new Set(this.#others);
    if (isCommit) for (const session of this.#waiting) found.add(session);
    const sets = new Set<Names>();
    const patterns: ((name: string) => boolean)[] = [];
    for (const name of changed) {
      for (const names of this.#sets.get(name)) sets.add(names);
      const isMatch = patternOf(name);
      if (isMatch !== undefined) patterns.push(isMatch);
    }
    if (patterns.length > 0)
      for (const name of this.#sets.keys())
        if (patterns.some((isMatch) => isMatch(name))) for (const names of this.#sets.get(name)) sets.add(names);
    for (const names of sets) for (const session of this.#sessions.get(names)) found.add(session);
    return found;
  }

  #add(names: Names, session: S): void {
    if (this.#sessions.add(names, session)) for (const name of names.names) this.#sets.add(name, names);
  }

  #remove(names: Names, session: S): void {
    if (this.#sessions.delete(names, session)) for (const name of names.names) this.#sets.delete(name, names);
  }
}
