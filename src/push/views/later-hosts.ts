/**
 * The virtual hosts of a view that are generated when a proxy asks for them. Which virtual host is for a name is only
 * known among all of them, so that the view keeps the names: each job for a route configuration generates the virtual
 * hosts for its names again, and finds others for them where the mesh has changed.
 */
import { CtlError } from '../../core/errors.ts';
import { laterClusterUnits, MeshReader, mayGenerateHosts, type Unit, type View } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { JobAnswer } from '../protocol.ts';
import type { LaterHosts } from '../types.ts';
import { rejected, Waiters } from './waiters.ts';

/** With more names all virtual hosts are generated: each ask costs the time of the names before it. */
const MAX_NAMES = 1024;
/** Most characters of a host name with a port (RFC 1035, section 2.3.4). */
const MAX_HOST = 253 + ':65535'.length;
/** Names of route configurations are not longer: such a name is one of none. */
const MAX_ROUTES = 512;

/** What a job generates virtual hosts for. */
export interface HostSelection {
  /** The names that are kept; undefined: all virtual hosts. */
  readonly names: readonly string[] | undefined;
  /** Those of them for which nothing was generated before. */
  readonly wanted: ReadonlySet<string>;
  /** The route configurations of which virtual hosts are generated for the first time. */
  readonly units: 'all' | ReadonlySet<Unit>;
}

/** The route configuration of a name. */
export function routesOf(name: string): Unit {
  return name.slice(0, Math.max(0, name.lastIndexOf('/')));
}

/**
 * What is kept for a name: callers choose names, which are kept as long as the view is. No longer host has a virtual
 * host of its own, but one for its last characters may be for it. Undefined: there is none for it.
 */
function keptFor(name: string): string | undefined {
  const routes = routesOf(name);
  const host = name.slice(routes.length + 1);
  if (routes.length > MAX_ROUTES) return undefined;
  return host.length <= MAX_HOST ? name : `${routes}/${host.slice(-MAX_HOST)}`;
}

export class HostsOnAsk implements LaterHosts {
  readonly #onWanted: () => void;
  /** Whether virtual hosts of the view are generated for names. */
  #isOn = false;
  readonly #names = new Set<string>();
  /** Names for which nothing was generated yet. */
  readonly #wanted = new Set<string>();
  #areAllWanted = false;
  /** How many virtual hosts a route configuration has. */
  readonly #sizes = new Map<Unit, number>();
  readonly #waiting = new Waiters();
  /** Why the last job failed, until it is tried again. */
  #failed: { readonly error: unknown } | undefined;

  /** @param onWanted called when there is something to generate */
  constructor(onWanted: () => void) {
    this.#onWanted = onWanted;
  }

  /** Whether virtual hosts are generated for names. */
  get isOn(): boolean {
    return this.#isOn;
  }

  get areWanted(): boolean {
    return this.#areAllWanted || this.#wanted.size > 0;
  }

  get total(): number {
    return this.#sizes.values().reduce((sum, size) => sum + size, 0);
  }

  /** To be called before the first job for all virtual hosts. @param above with at most so many hosts, all are generated */
  begin(view: View, snapshot: Snapshot, above: number): void {
    this.#isOn = mayGenerateHosts(view) && laterClusterUnits(MeshReader.of(snapshot), view).size > above;
  }

  has(name: string): boolean {
    const kept = this.#isOn ? keptFor(name) : undefined;
    return kept !== undefined && this.#lacks(kept);
  }

  #lacks(kept: string): boolean {
    return !this.#names.has(kept) || this.#wanted.has(kept);
  }

  want(names: Iterable<string>): void {
    if (this.#isOn) this.#want(names);
  }

  /** @returns what is kept for those that are to be generated; undefined: all */
  #want(names: Iterable<string>): ReadonlySet<string> | undefined {
    const missing = new Set<string>();
    for (const name of names) {
      const kept = keptFor(name);
      if (kept !== undefined && this.#lacks(kept)) missing.add(kept);
    }
    if (missing.size === 0) return missing;
    if (this.#names.union(missing).size > MAX_NAMES) {
      this.#wantAll();
      return undefined;
    }
    for (const name of missing) {
      this.#names.add(name);
      this.#wanted.add(name);
    }
    this.#onWanted();
    return missing;
  }

  #wantAll(): void {
    this.#areAllWanted = true;
    this.#onWanted();
  }

  need(names: Iterable<string> | undefined): Promise<void> | undefined {
    if (!this.#isOn) return undefined;
    if (names === undefined) this.#wantAll();
    const missing = names && this.#want(names);
    if (missing?.size === 0) return undefined;
    return this.#failed === undefined ? this.#waiting.add(missing) : rejected(this.#failed.error);
  }

  /** The route configurations with virtual hosts that are wanted. */
  get units(): 'all' | ReadonlySet<Unit> {
    return this.#areAllWanted ? 'all' : new Set(Array.from(this.#wanted, routesOf));
  }

  /** What a job with virtual hosts generates. */
  selection(): HostSelection {
    const { units } = this;
    const wanted = new Set(this.#wanted);
    const names = this.#isOn && !this.#areAllWanted ? [...this.#names].sort() : undefined;
    return { names, wanted, units };
  }

  /** The next job is submitted. */
  tryAgain(): void {
    this.#failed = undefined;
  }

  /** A job failed: nobody waits until it is tried again. */
  fail(error: unknown): void {
    if (!this.#isOn) return;
    this.#failed = { error };
    this.#waiting.reject(error);
  }

  /** A job with these was committed. */
  generated({ names, wanted }: HostSelection, { units, failures, complete }: JobAnswer): void {
    if (complete.includes('vhds')) this.#sizes.clear();
    for (const { type, unit, among } of units) if (type === 'vhds' && among !== undefined) this.#sizes.set(unit, among);
    if (!this.#isOn) return;
    const failed = failures.filter(({ type, misfits }) => type === 'vhds' && misfits === undefined);
    const broken = new Map(failed.map(({ unit, message }) => [unit, message]));
    if (names === undefined && complete.includes('vhds')) this.#allGenerated();
    for (const name of wanted) {
      this.#wanted.delete(name);
      // The route configuration keeps its last good version, without the virtual host for this name.
      if (broken.has(routesOf(name))) this.#names.delete(name);
    }
    for (const [unit, message] of broken) {
      const error = new CtlError('unavailable', `virtual hosts of ${unit} could not be generated: ${message}`);
      const isOfUnit = (name: string): boolean => routesOf(name) === unit && wanted.has(name);
      this.#waiting.reject(error, (waiting) => (waiting === undefined ? names === undefined : some(waiting, isOfUnit)));
    }
    this.#waiting.resolve((waiting) =>
      waiting === undefined ? !this.#isOn : !some(waiting, (name) => this.#lacks(name)),
    );
  }

  /**
   * Names do not count any more. A route configuration that could not be generated keeps its last good version, and is
   * generated whole when it changes: proxies that need everything would otherwise ask for it again and again.
   */
  #allGenerated(): void {
    this.#areAllWanted = false;
    this.#isOn = false;
    this.#names.clear();
    this.#wanted.clear();
  }
}

function some(names: ReadonlySet<string>, is: (name: string) => boolean): boolean {
  return names.values().some(is);
}
