/**
 * The virtual hosts of a view that are generated when a proxy asks for them. Which virtual host is for a name is only
 * known among all of them, so that the view keeps the names that its proxies hold: each job for a route configuration
 * that has changed looks all of its names up again, and finds other virtual hosts for them where the mesh has changed.
 */
import { CtlError } from '../../core/errors.ts';
import { laterClusterUnits, MeshReader, mayGenerateHosts, type Unit, type View } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { JobAnswer } from '../protocol.ts';
import type { LaterHosts, Names } from '../types.ts';
import { NeededNames } from './needed-names.ts';
import { rejected, Waiters } from './waiters.ts';

/** With more virtual hosts for names, all are generated: an ask costs the time of those before it. */
const MAX_HOSTS = 1024;
/**
 * Most names of a view: to look up more takes as long as to generate all virtual hosts. One proxy has at most 1,024 of
 * them, for which there may be no virtual host.
 */
const MAX_NAMES = 16 * MAX_HOSTS;
/** Most characters of a host name with a port (RFC 1035, section 2.3.4). */
const MAX_HOST = 253 + ':65535'.length;
/** Names of route configurations are not longer: such a name is one of none. */
const MAX_ROUTES = 512;

/**
 * What is known of the virtual host for a name. `wanted`: nothing, the next job looks it up. `decisive`: it is
 * generated for this name. `spare`: there is none, or it is generated for other names. `failed`: its route
 * configuration could not be generated with it. It is tried again for a request, and when the route configuration has
 * changed.
 */
type NameState = 'wanted' | 'decisive' | 'spare' | 'failed';

/** What a job generates virtual hosts for. */
export interface HostSelection {
  /** What is looked up; undefined: all virtual hosts. */
  readonly names: readonly string[] | undefined;
  /** The names for which these are looked up. */
  readonly of: readonly string[];
  /** Those of them that were not looked up before. */
  readonly wanted: ReadonlySet<string>;
  /** The route configurations of which virtual hosts are generated for the first time. */
  readonly units: 'all' | ReadonlySet<Unit>;
  /** Those of which all names are looked up. */
  readonly whole: ReadonlySet<Unit>;
  /** See `HostsOnAsk.#drops`. */
  readonly drops: number;
}

/** The state of a view when it takes a job with virtual hosts. */
interface TakenHosts {
  readonly of: 'all' | ReadonlySet<Unit>;
  /** The job is only for what no proxy has yet. */
  readonly isStep: boolean;
}

/** The route configuration of a name. */
export function routesOf(name: string): Unit {
  return name.slice(0, Math.max(0, name.lastIndexOf('/')));
}

/**
 * What is looked up for a name: callers choose names. No longer host has a virtual host of its own, but one for its
 * last characters may be for it. Undefined: there is none for it.
 */
function lookedUpFor(name: string): string | undefined {
  const routes = routesOf(name);
  const host = name.slice(routes.length + 1);
  if (routes.length > MAX_ROUTES) return undefined;
  return host.length <= MAX_HOST ? name : `${routes}/${host.slice(-MAX_HOST)}`;
}

type Units = 'all' | ReadonlySet<Unit>;

const isUnitOf = (units: Units, unit: Unit): boolean => units === 'all' || units.has(unit);
const isOf = (units: Units, name: string): boolean => isUnitOf(units, routesOf(name));

export class HostsOnAsk implements LaterHosts {
  readonly #onWanted: () => void;
  readonly #isHeld: (name: string) => boolean;
  /** Whether virtual hosts of the view are generated for names. */
  #isOn = false;
  readonly #names = new Map<string, NameState>();
  /** The names by their states: most are spare, and are looked at when the mesh changes. */
  readonly #of: Readonly<Record<NameState, Set<string>>> = {
    wanted: new Set(),
    decisive: new Set(),
    spare: new Set(),
    failed: new Set(),
  };
  /** A proxy has left since names were dropped. */
  #mayDrop = false;
  readonly #needed = new NeededNames();
  /** Route configurations of which steps look up decisive and wanted names only. */
  readonly #known = new Set<Unit>();
  /** How often decisive names were dropped: others may be decisive then. */
  #drops = 0;
  #areAllWanted = false;
  /** How many virtual hosts a route configuration has. */
  readonly #sizes = new Map<Unit, number>();
  readonly #waiting = new Waiters();
  /** Why the last job failed, until it is tried again. */
  #failed: { readonly error: unknown } | undefined;

  /**
   * @param onWanted called when there is something to generate
   * @param isHeld whether a proxy holds a name, or waits for it
   */
  constructor(onWanted: () => void, isHeld: (name: string) => boolean) {
    this.#onWanted = onWanted;
    this.#isHeld = isHeld;
  }

  /** Whether virtual hosts are generated for names. */
  get isOn(): boolean {
    return this.#isOn;
  }

  get areWanted(): boolean {
    return this.#areAllWanted || this.#of.wanted.size > 0;
  }

  get total(): number {
    return this.#sizes.values().reduce((sum, size) => sum + size, 0);
  }

  /** To be called before the first job for all virtual hosts. @param above with at most so many hosts, all are generated */
  begin(view: View, snapshot: Snapshot, above: number): void {
    this.#isOn = mayGenerateHosts(view) && laterClusterUnits(MeshReader.of(snapshot), view).size > above;
    // The mesh may have become smaller since such a job was taken that failed.
    if (!this.#isOn) this.#forget();
  }

  has(name: string): boolean {
    return this.#isOn && (this.#lacks(name) || this.#names.get(name) === 'failed');
  }

  #lacks(name: string): boolean {
    const state = this.#names.get(name);
    return state === undefined ? lookedUpFor(name) !== undefined : state === 'wanted';
  }

  want(names: Iterable<string>): void {
    if (this.#isOn) this.#want(names);
  }

  /**
   * @param again whether those are tried again that failed
   * @returns those that are to be generated; undefined: all
   */
  #want(names: Iterable<string>, again = false): ReadonlySet<string> | undefined {
    const missing = new Set<string>();
    for (const name of names) if (this.#lacks(name) || (again && this.#names.get(name) === 'failed')) missing.add(name);
    if (missing.size === 0) return missing;
    if (!this.#hasRoomFor(missing)) {
      this.#wantAll();
      return undefined;
    }
    for (const name of missing) this.#set(name, 'wanted');
    this.#onWanted();
    return missing;
  }

  #set(name: string, state: NameState): void {
    this.#delete(name);
    this.#names.set(name, state);
    this.#of[state].add(name);
  }

  #delete(name: string): void {
    const state = this.#names.get(name);
    if (state === undefined) return;
    this.#names.delete(name);
    this.#of[state].delete(name);
  }

  #hasRoomFor(missing: ReadonlySet<string>): boolean {
    const isMet = (): boolean =>
      this.#names.size + missing.size - this.#of.wanted.intersection(missing).size <= MAX_NAMES;
    if (isMet()) return true;
    this.#dropNames();
    return isMet();
  }

  #wantAll(): void {
    this.#areAllWanted = true;
    this.#onWanted();
  }

  need(names: Iterable<string> | undefined, by: object): Promise<void> | undefined {
    if (!this.#isOn) return undefined;
    if (names === undefined) this.#wantAll();
    const missing = names && this.#want(this.#needed.add(by, names), true);
    if (missing?.size === 0) return undefined;
    return this.#failed === undefined ? this.#waiting.add(missing, by) : rejected(this.#failed.error);
  }

  /** A proxy holds these, whatever it needed. @param names undefined: everything */
  held(by: object, names: readonly Names[] | undefined): void {
    if (names === undefined) this.#mayDrop = true;
    this.#needed.held(by, names);
  }

  /** A proxy has left the view. */
  left(by: object): void {
    this.held(by, undefined);
    this.#waiting.left(by);
  }

  /** Those who wait go on: they have moved to another view, where they may have to wait, or have gone. */
  release(): void {
    this.#waiting.resolve(() => true);
  }

  /** The route configurations with virtual hosts that are wanted. */
  get units(): 'all' | ReadonlySet<Unit> {
    return this.#areAllWanted ? 'all' : new Set(Array.from(this.#of.wanted, routesOf));
  }

  /** What a job with virtual hosts generates. */
  selection({ of, isStep }: TakenHosts): HostSelection {
    const { units } = this;
    const wanted = new Set(this.#of.wanted);
    if (!this.#isOn || this.#areAllWanted)
      return { names: undefined, of: [], wanted, units, whole: new Set(), drops: 0 };
    if (this.#mayDrop) this.#dropNames();
    const isWhole = (unit: Unit): boolean => !isStep || !this.#known.has(unit);
    const chosen = [...this.#of.decisive, ...this.#of.wanted].filter((name) => isOf(of, name));
    const whole = new Set(
      [...chosen, ...this.#of.failed].map(routesOf).filter((unit) => isUnitOf(of, unit) && isWhole(unit)),
    );
    if (of === 'all' || [...of].some(isWhole))
      for (const name of this.#of.spare) {
        const unit = routesOf(name);
        if (!isUnitOf(of, unit) || !isWhole(unit)) continue;
        whole.add(unit);
        chosen.push(name);
      }
    const names = new Set(chosen.flatMap((name) => lookedUpFor(name) ?? []));
    return { names: [...names].sort(), of: chosen, wanted, units, whole, drops: this.#drops };
  }

  /** Drops names whose last proxy has gone. */
  #dropNames(): void {
    this.#mayDrop = false;
    const needed = this.#needed.all();
    const before = this.#names.size;
    for (const [name, state] of this.#names) {
      if (state === 'wanted' || needed.has(name) || this.#isHeld(name)) continue;
      this.#delete(name);
      if (state !== 'decisive') continue;
      this.#known.delete(routesOf(name));
      this.#drops++;
    }
    if (this.#names.size < before) this.#dropUnits();
  }

  /** Drops route configurations of which there are no names: proxies also name some that do not exist. */
  #dropUnits(): void {
    const named = new Set(Array.from(this.#names.keys(), routesOf));
    for (const unit of this.#known) if (!named.has(unit)) this.#known.delete(unit);
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
  generated(selection: HostSelection, answer: JobAnswer): void {
    const { units, failures, complete } = answer;
    if (complete.includes('vhds')) this.#sizes.clear();
    for (const { type, unit, part } of units)
      if (type === 'vhds' && part !== undefined) this.#sizes.set(unit, part.among);
    if (!this.#isOn) {
      this.#waiting.resolve(() => true);
      return;
    }
    const { names, wanted } = selection;
    const failed = failures.filter(({ type, misfits }) => type === 'vhds' && misfits === undefined);
    const broken = new Map(failed.map(({ unit, message }) => [unit, message]));
    if (names === undefined && complete.includes('vhds')) this.#allGenerated();
    else if (names !== undefined) this.#note(selection, answer, broken);
    for (const [unit, message] of broken) {
      const error = new CtlError('unavailable', `virtual hosts of ${unit} could not be generated: ${message}`);
      const isOfUnit = (name: string): boolean => routesOf(name) === unit && wanted.has(name);
      this.#waiting.reject(error, (waiting) => (waiting === undefined ? names === undefined : some(waiting, isOfUnit)));
    }
    this.#waiting.resolve(
      (waiting) => !this.#isOn || (waiting !== undefined && !some(waiting, (name) => this.#lacks(name))),
    );
  }

  /** Notes what was found for names. @param broken route configurations that could not be generated */
  #note({ of, wanted, whole, drops }: HostSelection, { units }: JobAnswer, broken: ReadonlyMap<Unit, string>): void {
    const parts = new Map(units.flatMap(({ type, unit, part }) => (type === 'vhds' && part ? [[unit, part]] : [])));
    const spare = new Set([...parts].flatMap(([unit, part]) => part.spare.map((host) => `${unit}/${host}`)));
    for (const name of of) {
      const unit = routesOf(name);
      // It was dropped in the meantime.
      if (!this.#names.has(name)) continue;
      // Without a part there is no such route configuration.
      if (!broken.has(unit))
        this.#set(name, parts.has(unit) && !spare.has(lookedUpFor(name) ?? '') ? 'decisive' : 'spare');
      // The route configuration keeps its last good version, without the virtual host for this name.
      else if (wanted.has(name)) this.#set(name, 'failed');
    }
    for (const unit of whole) if (!broken.has(unit) && drops === this.#drops) this.#known.add(unit);
    for (const name of [...this.#of.failed]) {
      const unit = routesOf(name);
      if (whole.has(unit) && !broken.has(unit) && !wanted.has(name)) this.#set(name, 'wanted');
    }
    if (this.#of.decisive.size > MAX_HOSTS) this.#wantAll();
  }

  /**
   * Names do not count any more. A route configuration that could not be generated keeps its last good version, and is
   * generated whole when it changes: proxies that need everything would otherwise ask for it again and again.
   */
  #allGenerated(): void {
    this.#isOn = false;
    this.#forget();
  }

  #forget(): void {
    this.#areAllWanted = false;
    this.#names.clear();
    for (const names of Object.values(this.#of)) names.clear();
    this.#known.clear();
    this.#needed.clear();
  }
}

function some(names: ReadonlySet<string>, is: (name: string) => boolean): boolean {
  return names.values().some(is);
}
