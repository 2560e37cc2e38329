/**
 * Determines which resources a proxy rejected with a NACK, and quarantines those versions while the rest is served.
 *
 * Envoy names clusters and listeners that it could not add, and quotes messages that fail validation. For other errors
 * (an Any that cannot be parsed, some routes), it only reports the reason. Then the changed resources are sent in
 * halves, until the rejected ones are isolated. The message formats are those of Envoy 1.40.
 *
 * A proxy that rejects nearly everything costs no more than one that accepts everything: the search and the quarantine
 * are limited. Beyond these limits the proxy is overwhelmed: rejected resources count as delivered, so that they are
 * not sent again before they change. When the proxy accepts something again, everything is sent once more.
 */
import type { EncodedResource } from '../../../push/index.ts';
import { namedInNack } from './nack-message.ts';

/**
 * Maximum number of responses of one search. Halving finds one rejected resource among 16,000 with 2 x 14 responses. A
 * proxy for which more are needed rejects everything.
 */
export const MAX_SEARCH_RESPONSES = 64;

/** Maximum number of rejected resources of a type that are withheld individually. */
export const MAX_QUARANTINED = 256;

/** Maximum number of consecutive NACKs that name rejected resources: after each, all others are sent again. */
export const MAX_NAMED_IN_A_ROW = 8;

/** An overwhelmed proxy is sent everything again after this many ACKs, then after growing numbers of ACKs. */
const FIRST_RETRY_ACKS = 1;
const RETRY_FACTOR = 8;
const MAX_RETRY_ACKS = 4096;

/** Suspected resources: a part of a list that many streams may share. */
interface Group {
  readonly resources: readonly EncodedResource[];
  readonly from: number;
  readonly to: number;
}

/** The meaning of a NACK. */
export interface Rejection {
  /** Names that are withheld from now on, as many as are known. */
  readonly quarantined: readonly string[];
  /** The whole response is withheld, and all that is still suspected. */
  readonly everything: boolean;
}

/** The quarantined resources of one type of one proxy, and the search for them. */
export class Rejections {
  /** Name → version that the proxy rejected; of an overwhelmed proxy some of them. */
  readonly quarantined = new Map<string, string>();
  /** Groups of suspected resources; the first is being tried, the others wait. */
  #groups: Group[] = [];
  #responses = 0;
  #namedInARow = 0;
  /** Number of resources in the largest response that was rejected as a whole; 0: the proxy is not overwhelmed. */
  #refused = 0;
  #retrying = false;
  #acks = 0;
  #retryAfter = FIRST_RETRY_ACKS;

  /** True during a search: there is more to send after the ACK. */
  get searching(): boolean {
    return this.#groups.length > 0;
  }

  /** Whether the proxy rejects more resources than can be withheld individually. */
  get overwhelmed(): boolean {
    return this.#refused > 0;
  }

  /** An overwhelmed proxy is being sent everything again. */
  get retrying(): boolean {
    return this.#retrying;
  }

  get empty(): boolean {
    return this.quarantined.size === 0 && this.#groups.length === 0 && !this.overwhelmed;
  }

  /** The number of resources that the proxy is known to have rejected. */
  get count(): number {
    return Math.max(this.#refused, this.quarantined.size);
  }

  /** True when this version must not be sent. */
  isHeldBack(name: string, version: string): boolean {
    return !this.overwhelmed && this.quarantined.get(name) === version;
  }

  /** The resources that the next response of the search tries. */
  suspects(): readonly EncodedResource[] {
    const [group] = this.#groups;
    return group === undefined ? [] : group.resources.slice(group.from, group.to);
  }

  /** The current group was accepted, or none of its resources exists any more: continues with the next one. */
  next(): void {
    this.#groups.shift();
    if (this.#groups.length === 0) this.#responses = 0;
  }

  /**
   * The proxy has accepted a response with so many changed resources. Returns true when an overwhelmed proxy should be
   * sent everything again.
   */
  acknowledged(changed: number): boolean {
    this.next();
    this.#namedInARow = 0;
    if (!this.overwhelmed || changed === 0) return false;
    if (this.#retrying) {
      this.#recovered();
      return false;
    }
    if (++this.#acks < this.#retryAfter) return false;
    this.#acks = 0;
    this.#retryAfter = Math.min(MAX_RETRY_ACKS, this.#retryAfter * RETRY_FACTOR);
    this.#retrying = true;
    return true;
  }

  #recovered(): void {
    this.#refused = 0;
    this.#retrying = false;
    this.#retryAfter = FIRST_RETRY_ACKS;
    this.quarantined.clear();
  }

  /** Processes a NACK of a response in which `changed` was new to the proxy. */
  rejected(message: string, changed: readonly EncodedResource[]): Rejection {
    if (this.overwhelmed) return this.#giveUp(changed);
    const named = namedInNack(message, changed);
    if (named.length > 0) {
      const tooMany = ++this.#namedInARow >= MAX_NAMED_IN_A_ROW || !this.#hasRoom(named.length);
      return tooMany ? this.#giveUp(changed) : this.#quarantine(named);
    }
    this.#groups.shift();
    if (++this.#responses >= MAX_SEARCH_RESPONSES) return this.#giveUp(changed);
    if (changed.length > 1) {
      // The order in a response is that in which the first of the proxies named them.
      const resources = sorted(changed);
      const middle = resources.length >> 1;
      this.#groups.unshift({ resources, from: 0, to: middle }, { resources, from: middle, to: resources.length });
      return { quarantined: [], everything: false };
    }
    if (this.#groups.length === 0) this.#responses = 0;
    return this.#hasRoom(changed.length) ? this.#quarantine(changed) : this.#giveUp(changed);
  }

  #hasRoom(count: number): boolean {
    return this.quarantined.size + count <= MAX_QUARANTINED;
  }

  #giveUp(changed: readonly EncodedResource[]): Rejection {
    const waiting = this.#groups.reduce((sum, { from, to }) => sum + to - from, 0);
    this.#refused = Math.max(this.#refused, changed.length + waiting + this.quarantined.size);
    this.#groups = [];
    this.#responses = 0;
    this.#namedInARow = 0;
    this.#retrying = false;
    const room = Math.max(0, MAX_QUARANTINED - this.quarantined.size);
    return { ...this.#quarantine(changed.slice(0, room)), everything: true };
  }

  /** Ends the quarantine of versions that are no longer current. */
  prune(current: (name: string) => EncodedResource | undefined): void {
    if (this.overwhelmed) return;
    for (const [name, version] of this.quarantined)
      if (current(name)?.version !== version) this.quarantined.delete(name);
  }

  #quarantine(resources: readonly EncodedResource[]): Rejection {
    for (const { name, version } of resources) this.quarantined.set(name, version);
    return { quarantined: resources.map(({ name }) => name), everything: false };
  }
}

/** What is read of rejections. */
export type KnownRejections = Pick<
  Rejections,
  'quarantined' | 'searching' | 'overwhelmed' | 'retrying' | 'empty' | 'count' | 'isHeldBack' | 'suspects'
>;

/** Those of a proxy that has rejected nothing. */
export const NO_REJECTIONS: KnownRejections = new Rejections();

/** The same list if it is already in order, as the lists of bundles are. */
function sorted(resources: readonly EncodedResource[]): readonly EncodedResource[] {
  const isSorted = resources.every(({ name }, index) => index === 0 || (resources[index - 1]?.name ?? '') <= name);
  return isSorted ? resources : resources.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
