/**
 * The virtual hosts that proxies of a view have asked for. Proxies of one view run the same workloads, or workloads of
 * one namespace: the next one gets these hosts before it asks, so that only the first one waits.
 */
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';

/** Views whose hosts are kept, the last used ones. */
const MAX_VIEWS = 1000;

/** Hosts of one view: a proxy that got more would hold a large mesh again. */
const MAX_HOSTS = 500;
/** In a smaller mesh, hosts of one view are at most this part of all hosts … */
const MAX_PART = 0.1;
/** … but this number in any case. */
const MIN_HOSTS = 20;

/** A host that no proxy has asked for, for so long, ms, is not sent before somebody asks. */
export const FORGET_MS = 24 * 3_600_000;
/** Interval at which hosts are forgotten, ms. */
const CHECK_MS = 60_000;

interface ViewHosts {
  names: NameSet;
  /** When a proxy asked last, monotonic ms. */
  readonly asked: Map<string, number>;
  /** When hosts were last forgotten. */
  checkedAt: number;
}

export class LearnedHosts {
  readonly #names: NameSets;
  readonly #now: () => number;
  /** By view, the last used one last. */
  readonly #views = new Map<string, ViewHosts>();

  /** @param now monotonic ms */
  constructor(names: NameSets, now: () => number) {
    this.#names = names;
    this.#now = now;
  }

  /**
   * Learns that a proxy of the view has asked for these virtual hosts.
   * @param hosts how many the view has
   */
  learn(view: string, names: Iterable<string>, hosts: number): void {
    const known = this.#views.get(view) ?? {
      names: NO_NAMES,
      asked: new Map<string, number>(),
      checkedAt: this.#now(),
    };
    this.#views.delete(view);
    this.#views.set(view, known);
    const most = Math.max(MIN_HOSTS, Math.min(MAX_HOSTS, Math.floor(hosts * MAX_PART)));
    const now = this.#now();
    for (const name of names) if (known.asked.has(name) || known.asked.size < most) known.asked.set(name, now);
    if (known.asked.size > known.names.size) known.names = this.#names.of(known.asked.keys());
    const [oldest] = this.#views.keys();
    if (this.#views.size > MAX_VIEWS && oldest !== undefined) this.#views.delete(oldest);
  }

  /** What a proxy of the view gets before it asks; the same object while nothing changes. */
  of(view: string): NameSet {
    const known = this.#views.get(view);
    if (known === undefined) return NO_NAMES;
    const now = this.#now();
    if (now < known.checkedAt + CHECK_MS) return known.names;
    known.checkedAt = now;
    const since = now - FORGET_MS;
    const forgotten = [...known.asked].filter(([, at]) => at < since);
    if (forgotten.length > 0) {
      for (const [name] of forgotten) known.asked.delete(name);
      known.names = this.#names.of(known.asked.keys());
    }
    return known.names;
  }
}
