/**
 * What is known of the catalogue of one datacenter: services, their instances and the health of these. A state machine
 * without I/O: answers of the registry go in, in any order, and names of services that changed come out.
 *
 * Health comes from two places: from the lists of all critical and of all warning checks of the datacenter, which are
 * followed, and from the checks that are in the answer about a service. All answers have an index of the same log
 * (Raft), so the one with the higher index knows more: a list decides about an instance that was read at a lower or
 * equal index, and the answer about the service decides otherwise.
 *
 * Loss. A registry that restarts without its state, restores an old one, or loses the right to see services, answers as
 * if they had been removed. So after its index went backwards, or when more than half of the services disappear at
 * once, nothing that was read before is removed for a time, and health that is no longer reported stays. What the
 * registry has confirmed since then is removed as always.
 */
import type { BadState, Check, Registration } from './answers.ts';
import {
  bytesOf,
  type Instance,
  instanceKey,
  isEqual,
  type Known,
  nodesOf,
  placeOf,
  type Status,
  statusIn,
} from './known-instances.ts';

/** Everything in a list of checks in one state. */
interface StateList {
  index: number;
  epoch: number;
  /** Nodes with such a check, which concerns all services of the node. */
  nodes: ReadonlySet<string>;
  /** Instances with such a check (`instanceKey`). */
  instances: ReadonlySet<string>;
}

interface Service {
  /** Differs when the tags in the list of services do. */
  tags: string;
  /** Whether the list of services has it; if not, it stays for a time. */
  isListed: boolean;
  isRead: boolean;
  /** The epoch in which it was read last. */
  epoch: number;
  instances: Map<string, Known>;
}

export interface CatalogueOptions {
  readonly holdMs: number;
  readonly maxServices: number;
  readonly maxInstances: number;
  /** Memory of all instances, and of those of one service, bytes. */
  readonly maxBytes: number;
  readonly maxServiceBytes: number;
  /** Monotonic ms. */
  readonly now: () => number;
}

/** The names of services that an answer concerns. */
export interface Consequences {
  /** Services that are to be read. */
  readonly toRead: readonly string[];
  /** Services whose instances or their states changed. */
  readonly changed: readonly string[];
}

/** Why the answer about a service is not taken: all instances, or those of this service, would need too much. */
export type Excess = 'maxInstances' | 'maxBytes' | 'maxServiceBytes';

/** A loss of fewer services than this is plausible, unless it is the loss of all. */
const FEW = 4;
/** The service of Consul's servers, which a registry without its data has as well. */
const OWN_SERVICE = 'consul';

export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #services = new Map<string, Service>();
  /** Node → names of the services with instances there. */
  readonly #byNode = new Map<string, Set<string>>();
  /** Key of an instance → name of its service. */
  readonly #serviceOf = new Map<string, string>();
  readonly #lists: Record<BadState, StateList> = { critical: emptyList(), warning: emptyList() };
  /** Services with instances that were read at a higher index than that of a list, with the highest. */
  readonly #ahead: Record<BadState, Map<string, number>> = { critical: new Map(), warning: new Map() };
  /** Raised when the registry's index started again: lower indexes are newer then. */
  #epoch = 0;
  /** Until then nothing is removed that was read before the last loss, monotonic ms. */
  #heldUntil: number | undefined;
  /** How often the registry seemed to have lost its data. */
  #losses = 0;
  /** The epoch of the last list of services. */
  #namesEpoch = 0;
  #beyondServices = 0;
  #instances = 0;
  #bytes = 0;

  constructor(options: CatalogueOptions) {
    this.#options = options;
  }

  /** Number of services that are not read, because there are too many. */
  get beyondServices(): number {
    return this.#beyondServices;
  }

  /** Until when nothing is removed, monotonic ms; undefined: what is missing is removed at once. */
  get heldUntil(): number | undefined {
    return this.#heldUntil;
  }

  /** Number of services that stay although the registry no longer has them or some of their instances. */
  get held(): number {
    let count = 0;
    for (const service of this.#services.values()) if (isIncomplete(service)) count++;
    return count;
  }

  /** The names of the services in the last list that were never read. */
  *unread(): Generator<string> {
    for (const [name, { isListed, isRead }] of this.#services) if (isListed && !isRead) yield name;
  }

  has(name: string): boolean {
    return this.#services.get(name)?.isListed === true;
  }

  /** The instances of a service in a stable order. Empty for an unknown service. */
  instancesOf(name: string): readonly Instance[] {
    const instances = this.#services.get(name)?.instances ?? new Map<string, Known>();
    return [...instances.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, { registration, status }]) => ({ ...registration, status }));
  }

  /** Takes the list of all services. @param listed name → signature (`tagsSignature`) */
  takeNames(listed: ReadonlyMap<string, string>): Consequences {
    this.#namesEpoch = this.#epoch;
    const lost = [...this.#services.keys()].filter((name) => !listed.has(name) && this.#services.get(name)?.isListed);
    if (this.#isImplausible(lost.length)) this.#hold();
    const changed = lost.flatMap((name) => this.#unlist(name));
    const toRead: string[] = [];
    this.#beyondServices = 0;
    for (const [name, tags] of listed) {
      const known = this.#services.get(name);
      if (known === undefined && this.#services.size >= this.#options.maxServices) this.#beyondServices++;
      else if (known === undefined) {
        this.#services.set(name, { tags, isListed: true, isRead: false, epoch: -1, instances: new Map() });
        toRead.push(name);
      } else {
        if (known.tags !== tags || !known.isListed) toRead.push(name);
        Object.assign(known, { tags, isListed: true });
      }
    }
    return { toRead, changed };
  }

  /** Takes the list of all checks in a state. */
  takeStates(state: BadState, checks: readonly Check[], index: number): Consequences {
    const list = this.#lists[state];
    const nodes = new Set(checks.flatMap(({ node, serviceId }) => (serviceId === '' ? [node] : [])));
    const instances = new Set(
      checks.flatMap(({ node, serviceId }) => (serviceId === '' ? [] : [instanceKey(node, serviceId)])),
    );
    const affected = new Set<string>();
    for (const [name, at] of this.#ahead[state]) if (at <= index) affected.add(name);
    for (const node of nodes.symmetricDifference(list.nodes)) {
      for (const name of this.#byNode.get(node) ?? []) affected.add(name);
    }
    for (const key of instances.symmetricDifference(list.instances)) {
      const name = this.#serviceOf.get(key);
      if (name !== undefined) affected.add(name);
    }
    Object.assign(list, { index, epoch: this.#epoch, nodes, instances });
    const restated = [...affected].map((name) => ({ name, ...this.#restate(name, 'only worse') }));
    return {
      toRead: restated.flatMap(({ name, isBetter }) => (isBetter ? [name] : [])),
      changed: restated.flatMap(({ name, isChanged }) => (isChanged ? [name] : [])),
    };
  }

  /**
   * Takes the answer about a service. An empty one changes nothing while the list of services has the service: the
   * answers contradict each other, and the list decides.
   */
  takeService(name: string, registrations: readonly Registration[], index: number): Consequences | Excess {
    const service = this.#services.get(name);
    if (service === undefined) return { toRead: [], changed: [] };
    const isFirst = !service.isRead;
    service.isRead = true;
    const before = new Map(service.instances);
    if (registrations.length === 0 && before.size > 0) return { toRead: [], changed: [] };
    service.epoch = this.#epoch;
    const after = this.#afterAnswer(before, registrations, index);
    const excess = this.#excessOf(before, after);
    if (excess !== undefined) return excess;
    service.instances = after;
    this.#reindex(name, before, after);
    this.#restate(name, 'all');
    return { toRead: [], changed: isFirst || !isEqual(before, after) ? [name] : [] };
  }

  /** The instances of a service after an answer about it, with those that it may have lost. */
  #afterAnswer(before: ReadonlyMap<string, Known>, registrations: readonly Registration[], index: number) {
    const after = new Map<string, Known>();
    for (const registration of registrations) {
      const read = { index, epoch: this.#epoch, losses: this.#losses, isMissing: false };
      const [status, bytes] = [statusIn(registration), bytesOf(registration)];
      after.set(instanceKey(registration.node, registration.id), { registration, ...read, status, bytes });
    }
    if (this.#heldUntil === undefined) return after;
    const places = new Set(registrations.map(placeOf));
    for (const [key, known] of before) {
      const isReplaced = after.has(key) || places.has(placeOf(known.registration));
      if (!isReplaced && !this.#isConfirmed(known)) after.set(key, { ...known, isMissing: true });
    }
    return after;
  }

  #excessOf(before: ReadonlyMap<string, Known>, after: ReadonlyMap<string, Known>): Excess | undefined {
    const { maxInstances, maxBytes, maxServiceBytes } = this.#options;
    const bytes = sumOf(after);
    if (this.#instances - before.size + after.size > maxInstances) return 'maxInstances';
    if (bytes > maxServiceBytes) return 'maxServiceBytes';
    return this.#bytes - sumOf(before) + bytes > maxBytes ? 'maxBytes' : undefined;
  }

  /** The service cannot be read; what was read before stays. */
  skip(name: string): void {
    const service = this.#services.get(name);
    if (service !== undefined) Object.assign(service, { isRead: true, epoch: this.#epoch });
  }

  /** The registry's index started again: all services have to be read again, and until then nothing is removed. */
  reset(): Consequences {
    this.#epoch++;
    this.#hold();
    return { toRead: [...this.#services.keys()].filter((name) => this.has(name)), changed: [] };
  }

  /** Ends the time in which nothing is removed: because it is over, or because nothing is missing. */
  settle(): Consequences {
    const isOver = this.#heldUntil !== undefined && this.#options.now() >= this.#heldUntil;
    if (this.#heldUntil === undefined || (!isOver && !this.#isComplete())) return { toRead: [], changed: [] };
    this.#heldUntil = undefined;
    const changed: string[] = [];
    for (const [name, service] of [...this.#services]) {
      if (!service.isListed) changed.push(...this.#remove(name));
      else if (isIncomplete(service)) {
        const before = new Map(service.instances);
        for (const [key, { isMissing }] of before) if (isMissing) service.instances.delete(key);
        this.#reindex(name, before, service.instances);
        changed.push(name);
      }
    }
    return { toRead: [], changed };
  }

  /** Whether the registry has everything, and it is known of everything whether it has it. */
  #isComplete(): boolean {
    if (this.#namesEpoch !== this.#epoch) return false;
    for (const service of this.#services.values()) {
      if (service.epoch !== this.#epoch || isIncomplete(service)) return false;
    }
    return true;
  }

  #isImplausible(lost: number): boolean {
    if (lost === 0 || this.#options.holdMs === 0) return false;
    let listed = 0;
    for (const [name, { isListed }] of this.#services) if (isListed && name !== OWN_SERVICE) listed++;
    return lost >= listed || (lost > FEW && lost > listed / 2);
  }

  #hold(): void {
    const { now, holdMs } = this.#options;
    this.#losses++;
    if (holdMs > 0) this.#heldUntil ??= now() + holdMs;
  }

  /** Whether the registry has had it since its last loss. */
  #isConfirmed({ losses }: Known): boolean {
    return losses === this.#losses;
  }

  /** Removes a service that is no longer listed, except for instances that the registry may have lost. */
  #unlist(name: string): readonly string[] {
    const service = this.#services.get(name);
    if (service === undefined) return [];
    service.isListed = false;
    const before = new Map(service.instances);
    const isHeld = this.#heldUntil !== undefined;
    if (isHeld && before.size === 0) return [];
    for (const [key, known] of before) if (!isHeld || this.#isConfirmed(known)) service.instances.delete(key);
    this.#reindex(name, before, service.instances);
    if (service.instances.size === 0) return this.#remove(name);
    return service.instances.size === before.size ? [] : [name];
  }

  #remove(name: string): readonly string[] {
    const service = this.#services.get(name);
    if (service === undefined) return [];
    this.#services.delete(name);
    for (const state of STATES) this.#ahead[state].delete(name);
    this.#reindex(name, service.instances, new Map());
    return [name];
  }

  #reindex(name: string, before: ReadonlyMap<string, Known>, after: ReadonlyMap<string, Known>): void {
    this.#instances += after.size - before.size;
    this.#bytes += sumOf(after) - sumOf(before);
    const nodesBefore = nodesOf(before);
    const nodesAfter = nodesOf(after);
    for (const node of nodesBefore.difference(nodesAfter)) {
      const names = this.#byNode.get(node);
      names?.delete(name);
      if (names?.size === 0) this.#byNode.delete(node);
    }
    for (const node of nodesAfter.difference(nodesBefore)) {
      const names = this.#byNode.get(node);
      if (names === undefined) this.#byNode.set(node, new Set([name]));
      else names.add(name);
    }
    for (const key of before.keys()) if (this.#serviceOf.get(key) === name) this.#serviceOf.delete(key);
    for (const key of after.keys()) this.#serviceOf.set(key, name);
  }

  /**
   * Computes the states of a service's instances. A check disappears from a list when it passes, and also when the
   * instance is removed, so a list alone does not make a state better: the service is read for that.
   */
  #restate(name: string, allowed: 'all' | 'only worse'): { readonly isChanged: boolean; readonly isBetter: boolean } {
    let [isChanged, isBetter] = [false, false];
    const ahead: Record<BadState, number> = { critical: 0, warning: 0 };
    for (const [key, known] of this.#services.get(name)?.instances ?? []) {
      // The answers of the new epoch say nothing about what was read before it.
      if (known.isMissing || known.epoch !== this.#epoch) continue;
      const status = this.#statusOf(key, known, ahead);
      if (status === known.status) continue;
      if (allowed === 'only worse' && RANKS[status] < RANKS[known.status]) isBetter = true;
      else {
        known.status = status;
        isChanged = true;
      }
    }
    for (const state of STATES) {
      if (ahead[state] > 0) this.#ahead[state].set(name, ahead[state]);
      else this.#ahead[state].delete(name);
    }
    return { isChanged, isBetter };
  }

  /** @param ahead for each list, the highest index of instances that it knows too little about; raised here */
  #statusOf(key: string, { registration, index }: Known, ahead: Record<BadState, number>): Status {
    const found = STATES.filter((state) => {
      const list = this.#lists[state];
      if (list.epoch === this.#epoch && list.index >= index) {
        return list.nodes.has(registration.node) || list.instances.has(key);
      }
      ahead[state] = Math.max(ahead[state], index);
      return registration[state];
    });
    return found[0] ?? 'passing';
  }
}

/** The worst first. */
const STATES: readonly BadState[] = ['critical', 'warning'];
const RANKS: Readonly<Record<Status, number>> = { passing: 0, warning: 1, critical: 2 };

function emptyList(): StateList {
  return { index: 0, epoch: 0, nodes: new Set(), instances: new Set() };
}

function isIncomplete({ isListed, instances }: Service): boolean {
  return !isListed || [...instances.values()].some(({ isMissing }) => isMissing);
}

function sumOf(instances: ReadonlyMap<string, Known>): number {
  let bytes = 0;
  for (const known of instances.values()) bytes += known.bytes;
  return bytes;
}
