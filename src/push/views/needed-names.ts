/**
 * Names that proxies need, and of which it is not known yet that they hold them: a proxy waits until something is
 * generated for a name, and holds the name when its stream goes on. In the meantime the name must not be dropped.
 */
import type { Names } from '../types.ts';

export class NeededNames {
  readonly #names = new Map<object, Set<string>>();

  /** @returns the names */
  add(by: object, names: Iterable<string>): ReadonlySet<string> {
    const added = new Set(names);
    if (added.size === 0) return added;
    const known = this.#names.get(by);
    if (known === undefined) this.#names.set(by, new Set(added));
    else for (const name of added) known.add(name);
    return added;
  }

  /** The names of all proxies. */
  all(): ReadonlySet<string> {
    const all = new Set<string>();
    for (const names of this.#names.values()) for (const name of names) all.add(name);
    return all;
  }

  /** @param held what the proxy holds; undefined: everything, or it has gone */
  held(by: object, held: readonly Names[] | undefined): void {
    const needed = this.#names.get(by);
    if (needed === undefined) return;
    for (const { names } of held ?? []) for (const name of names) needed.delete(name);
    if (held === undefined || needed.size === 0) this.#names.delete(by);
  }

  clear(): void {
    this.#names.clear();
  }
}
