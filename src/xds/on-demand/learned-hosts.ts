/**
 * The virtual hosts that proxies of a scope have asked for. Proxies of one scope run the same workloads, or workloads
 * of one namespace: the next one gets these hosts before it asks, so that only the first one waits.
 *
 * A host is in use as long as a proxy is connected that has asked for it. A proxy that was sent the host without asking
 * does not say whether it uses it. Where nobody has used a host for a day, new proxies are not sent it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Clock, Timer } from '../../core/clock.ts';
import { type NameSet, type NameSets, NO_NAMES } from '../protocol/index.ts';

/** Scopes whose hosts are kept, the last used ones; of one namespace, as many as others leave free. */
export const MAX_SCOPES = 1000;

/** Hosts of one scope: a proxy that got more would hold a large mesh again. */
export const MAX_HOSTS = 500;
/** In a smaller mesh, hosts of one scope are at most this part of all hosts … */
const MAX_PART = 0.1;
/** … but this number in any case. */
const MIN_HOSTS = 20;

/** A host that no proxy has used for so long, ms, is not sent before somebody asks. */
export const FORGET_MS = 24 * 3_600_000;
/** Interval at which hosts are forgotten, ms. */
const CHECK_MS = 60_000;

/** How long learned hosts are collected before connected proxies get them, ms. */
const COLLECT_MS = 1_000;
/** Proxies that are told in one turn of the event loop. */
const TOLD_PER_TURN = 100;

/** A connected proxy of a scope. */
export interface LearningProxy {
  /** The virtual hosts that it has asked for. */
  readonly used: NameSet;
  /** There are more hosts for it. */
  wake(): void;
}

/** A host and how long nobody has used it, ms. */
export interface LearnedHost {
  readonly name: string;
  readonly unusedMs: number;
}

/** The hosts of a scope. */
export interface LearnedScope {
  readonly scope: string;
  readonly hosts: readonly LearnedHost[];
}

interface ScopeHosts {
  names: NameSet;
  /** How many of the hosts are sent. */
  most: number;
  /** When a proxy used a host last, monotonic ms. */
  readonly used: Map<string, number>;
  readonly proxies: Set<LearningProxy>;
  /** When hosts were last forgotten. */
  checkedAt: number;
}

export class LearnedHosts {
  readonly #names: NameSets;
  readonly #clock: Clock;
  /** By scope, the last used one last. */
  readonly #scopes = new Map<string, ScopeHosts>();
  readonly #grown = new Set<ScopeHosts>();
  #timer: Timer | undefined;
  #onChanged: () => void = () => {};

  constructor(names: NameSets, clock: Clock) {
    this.#names = names;
    this.#clock = clock;
  }

  /** Called after hosts were learned or forgotten, and when the first proxy learns. */
  onChanged(changed: () => void): void {
    this.#onChanged = changed;
  }

  /**
   * A proxy of the scope is connected. Returns what is called when it has left.
   */
  follow(scope: string, proxy: LearningProxy): () => void {
    const known = this.#touch(scope);
    known.proxies.add(proxy);
    this.#onChanged();
    return () => {
      known.proxies.delete(proxy);
      const now = this.#clock.now();
      for (const name of proxy.used.names) if (known.used.has(name)) known.used.set(name, now);
    };
  }

  /**
   * Learns that a proxy of the scope has asked for these virtual hosts.
   * @param hosts how many the scope has
   */
  learn(scope: string, names: Iterable<string>, hosts: number): void {
    const known = this.#touch(scope);
    known.most = mostOf(hosts);
    const now = this.#clock.now();
    const before = known.used.size;
    for (const name of names) if (known.used.has(name) || known.used.size < known.most) known.used.set(name, now);
    if (known.used.size > before) this.#changed(known);
  }

  /**
   * What a proxy of the scope gets before it asks; the same object while nothing changes.
   * @param hosts how many the scope has
   */
  of(scope: string, hosts: number): NameSet {
    const known = this.#scopes.get(scope);
    if (known === undefined) return NO_NAMES;
    const most = mostOf(hosts);
    const isOther = known.most !== most && Math.min(known.most, most) < known.used.size;
    known.most = most;
    const isForgetful = this.#clock.now() >= known.checkedAt + CHECK_MS && this.#forget(known);
    if (isOther || isForgetful) known.names = this.#sent(known);
    if (isForgetful) this.#onChanged();
    return known.names;
  }

  /** All scopes, the last used one last. */
  *scopes(): Generator<LearnedScope> {
    const now = this.#clock.now();
    for (const [scope, known] of this.#scopes) {
      const inUse = new Set([...distinct(known.proxies)].flatMap(({ names }) => [...names]));
      const hosts = [...known.used]
        .map(([name, at]) => ({ name, unusedMs: inUse.has(name) ? 0 : now - at }))
        .filter(({ unusedMs }) => unusedMs < FORGET_MS);
      if (hosts.length > 0) yield { scope, hosts };
    }
  }

  /** Adds what was learned elsewhere. */
  add(scopes: Iterable<LearnedScope>): void {
    const now = this.#clock.now();
    for (const { scope, hosts } of scopes) {
      const recent = hosts.filter(({ unusedMs }) => unusedMs < FORGET_MS);
      if (recent.length === 0) continue;
      const known = this.#scopes.get(scope) ?? this.#touch(scope);
      const before = known.used.size;
      for (const { name, unusedMs } of recent) {
        const at = known.used.get(name) ?? Number.NEGATIVE_INFINITY;
        if (known.used.has(name) || known.used.size < MAX_HOSTS) known.used.set(name, Math.max(at, now - unusedMs));
      }
      if (known.used.size > before) this.#changed(known);
    }
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#grown.clear();
  }

  #touch(scope: string): ScopeHosts {
    const known = this.#scopes.get(scope) ?? {
      names: NO_NAMES,
      most: MAX_HOSTS,
      used: new Map<string, number>(),
      proxies: new Set<LearningProxy>(),
      checkedAt: this.#clock.now(),
    };
    this.#scopes.delete(scope);
    this.#scopes.set(scope, known);
    if (this.#scopes.size > MAX_SCOPES) this.#scopes.delete(this.#leastUsed());
    return known;
  }

  /**
   * Of the namespace with most scopes, because a namespace can have any number of Sidecars: a scope without connected
   * proxies, if there is one. It may be the one that has just come.
   */
  #leastUsed(): string {
    const counts = new Map<string, number>();
    for (const scope of this.#scopes.keys()) counts.set(namespaceOf(scope), (counts.get(namespaceOf(scope)) ?? 0) + 1);
    const most = Math.max(...counts.values());
    let oldest: string | undefined;
    for (const [scope, { proxies }] of this.#scopes) {
      if (counts.get(namespaceOf(scope)) !== most) continue;
      if (proxies.size === 0) return scope;
      oldest ??= scope;
    }
    return oldest ?? '';
  }

  #sent({ used, most }: ScopeHosts): NameSet {
    return this.#names.of([...used.keys()].slice(0, most));
  }

  #changed(known: ScopeHosts): void {
    known.names = this.#sent(known);
    this.#onChanged();
    this.#grown.add(known);
    this.#timer ??= this.#clock.setTimer(COLLECT_MS, () => {
      this.#timer = undefined;
      const grown = [...this.#grown];
      this.#grown.clear();
      void tell(grown);
    });
  }

  /** True if hosts were forgotten. */
  #forget(known: ScopeHosts): boolean {
    const now = this.#clock.now();
    known.checkedAt = now;
    const unused = new Set([...known.used].flatMap(([name, at]) => (at < now - FORGET_MS ? [name] : [])));
    if (unused.size === 0) return false;
    for (const used of distinct(known.proxies))
      for (const name of unused)
        if (used.has(name)) {
          known.used.set(name, now);
          unused.delete(name);
        }
    for (const name of unused) known.used.delete(name);
    return unused.size > 0;
  }
}

/** The namespace of the proxies of a scope. */
export function namespaceOf(scope: string): string {
  return scope.slice(0, Math.max(0, scope.indexOf('/')));
}

/** Equal sets are one object, and the proxies of a workload use the same. */
function distinct(proxies: Iterable<LearningProxy>): ReadonlySet<NameSet> {
  return new Set(Array.from(proxies, ({ used }) => used));
}

function mostOf(hosts: number): number {
  return Math.max(MIN_HOSTS, Math.min(MAX_HOSTS, Math.floor(hosts * MAX_PART)));
}

/** Connected proxies get the hosts as with any push; others are served meanwhile. */
async function tell(scopes: readonly ScopeHosts[]): Promise<void> {
  let told = 0;
  for (const { proxies } of scopes)
    for (const proxy of [...proxies]) {
      if (++told % TOLD_PER_TURN === 0) await setImmediate();
      if (proxies.has(proxy)) proxy.wake();
    }
}
