/**
 * The subscription of one client of the proxy to one type, and the resources that it has: enough to open a new stream
 * to the control plane as the client itself would. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 */
import { CtlError } from '../../core/errors.ts';
import { XDS, xdsTypeOfUrl } from '../../core/xds-types.ts';
import {
  type DiscoveryRequest,
  type DiscoveryResponse,
  type RequestToWrite,
  type Variant,
  WILDCARD,
} from './messages.ts';

/** A response that the client has neither accepted nor rejected. */
export interface Pending {
  readonly nonce: string;
  /** The stream to the control plane on which it arrived; `FROM_SNAPSHOT` for one of the proxy itself. */
  readonly epoch: number;
  readonly response: DiscoveryResponse;
}

/** The epoch of responses from the snapshot. */
export const FROM_SNAPSHOT = -1;

/** The version of a resource that the control plane has reported as not existing. */
const ABSENT = '';
/** A version that no resource has: the client has the resource in another version than the snapshot. */
const OTHER_VERSION = '-';

/** The control plane accepts this many on one stream. */
const MAX_NAMES = 100_000;
/** The control plane has few unacknowledged responses of a type at once: meshd has one. */
const MAX_PENDING = 64;

/** The resources of a type in the snapshot, as far as a subscription compares them. */
export interface Compared {
  /** State of the World: the version of the type. */
  readonly version: string;
  versionOf(name: string): string | undefined;
}

export class Subscription {
  readonly typeUrl: string;
  readonly #variant: Variant;
  /** False until the client has subscribed: the control plane may send virtual hosts before. */
  subscribed = false;
  wildcard = false;
  names: Set<string> = new Set();
  /** The versions of the resources that the client has. */
  readonly #known = new Map<string, string>();
  /** State of the World: the version that the client has. */
  #version = '';
  /** Whether the client has accepted a response on this stream or has resources of an earlier one. */
  answered = false;
  /** Whether this is the first stream of a client without resources. */
  fresh = false;
  pending: Pending[] = [];
  /** Nonces of the current stream to the control plane, by those that the client was given for them. */
  readonly aliases = new Map<string, string>();
  /** The last nonces that were sent to the client. */
  readonly #used = new Set<string>();
  /** On the current stream to the control plane: whether the subscription was sent, and a response has arrived. */
  requested = false;
  delivered = false;

  constructor(variant: Variant, typeUrl: string) {
    this.#variant = variant;
    this.typeUrl = typeUrl;
  }

  /**
   * Updates the subscription. Returns true when the request can be sent to the control plane as it is, false when it
   * names versions that the control plane must not take into account.
   *
   * @param compared of the first request: the snapshot that the client's versions are compared with
   */
  update(request: DiscoveryRequest, compared: Compared | undefined): boolean {
    const isFirst = !this.subscribed;
    const isBareAck =
      isFirst && request.nonce !== '' && request.names.length === 0 && this.#variant === 'delta' && !this.answered;
    if (isBareAck) return true;
    this.subscribed = true;
    const unchanged =
      this.#variant === 'delta' ? this.#delta(request, isFirst, compared) : this.#sotw(request, isFirst, compared);
    if (this.names.size > MAX_NAMES)
      throw new CtlError('resource_exhausted', `more than ${MAX_NAMES} names of ${this.typeUrl}`);
    return unchanged;
  }

  #delta({ names, unsubscribe, initialVersions }: DiscoveryRequest, isFirst: boolean, compared?: Compared): boolean {
    let unchanged = true;
    if (isFirst) {
      this.wildcard = names.length === 0;
      this.fresh = initialVersions.size === 0;
      this.answered = !this.fresh;
      for (const [name, version] of initialVersions) {
        // What the snapshot lacks is sent again, so that the snapshot is complete.
        const isSame = compared === undefined || compared.versionOf(name) === version;
        unchanged &&= isSame;
        this.#known.set(name, isSame ? version : OTHER_VERSION);
      }
    }
    for (const name of names) {
      if (name === WILDCARD) this.wildcard = true;
      else {
        this.names.add(name);
        // The client subscribes again to resources that it does not have.
        if (!isFirst && (!this.wildcard || this.#known.get(name) === ABSENT)) this.#known.delete(name);
      }
    }
    for (const name of unsubscribe) {
      this.#known.delete(name);
      if (name === WILDCARD) {
        this.wildcard = false;
        for (const known of this.#known.keys()) if (!this.names.has(known)) this.#known.delete(known);
      } else this.names.delete(name);
    }
    return unchanged;
  }

  #sotw({ names, version }: DiscoveryRequest, isFirst: boolean, compared?: Compared): boolean {
    this.names = new Set(names);
    this.wildcard = names.includes(WILDCARD) || (names.length === 0 && (isFirst || this.wildcard));
    this.names.delete(WILDCARD);
    if (!this.wildcard) for (const name of this.#known.keys()) if (!this.names.has(name)) this.#known.delete(name);
    if (!isFirst) return true;
    this.fresh = version === '';
    this.answered = !this.fresh;
    if (this.fresh) return true;
    const isSame = compared === undefined || compared.version === version;
    this.#version = isSame ? version : '';
    for (const name of names) this.#known.set(name, isSame ? version : OTHER_VERSION);
    return isSame;
  }

  /** Starts over for a new stream to the control plane, on which nothing has been requested yet. */
  restart(): void {
    this.requested = false;
    this.delivered = false;
    this.aliases.clear();
  }

  /**
   * The nonce for the client. With State of the World every request has the latest nonce, so a request in flight could
   * be taken for the answer to another response if an older stream had used the same nonce.
   */
  nonceFor(nonce: string, epoch: number): string {
    const given = this.#variant === 'sotw' && this.#used.has(nonce) ? `${nonce}/${epoch}` : nonce;
    this.aliases.set(given, nonce);
    this.#used.add(given);
    for (const oldest of this.#used) {
      if (this.#used.size <= MAX_PENDING) break;
      this.#used.delete(oldest);
      this.aliases.delete(oldest);
    }
    return given;
  }

  /** A response was passed to the client. Throws CtlError when too many are not acknowledged. */
  sent(pending: Pending): void {
    if (pending.nonce === '') return;
    if (this.pending.length >= MAX_PENDING)
      throw new CtlError('resource_exhausted', `${MAX_PENDING} responses of ${this.typeUrl} are not acknowledged`);
    this.pending.push(pending);
  }

  /** Whether a response of another stream than this is not acknowledged. */
  awaitsAckOfOther(epoch: number): boolean {
    return this.pending.some((each) => each.epoch !== epoch);
  }

  /**
   * A request with a nonce. Returns the responses that the client has accepted by it, the oldest first; undefined for a
   * nonce that is not pending.
   */
  settle({
    nonce,
    nack,
  }: DiscoveryRequest): { readonly accepted: readonly Pending[]; readonly last: Pending } | undefined {
    const index = this.pending.findIndex((each) => each.nonce === nonce);
    const last = this.pending[index];
    if (last === undefined) return undefined;
    // With State of the World one request may acknowledge several responses.
    const before = this.#variant === 'sotw' ? this.pending.slice(0, index) : [];
    this.pending = this.pending.slice(index + 1);
    const accepted = nack === undefined ? [...before, last] : before;
    for (const { response } of accepted) this.#accept(response);
    return { accepted, last };
  }

  #accept({ resources, removed, version }: DiscoveryResponse): void {
    this.answered = true;
    if (this.#variant === 'sotw') {
      this.#version = version;
      if (isFullSet(this.typeUrl)) this.#known.clear();
    }
    for (const { name, version: each } of resources)
      if (this.wildcard || this.names.has(name)) this.#known.set(name, each);
    for (const name of removed) {
      if (this.names.has(name)) this.#known.set(name, ABSENT);
      else this.#known.delete(name);
    }
  }

  /** Whether the client has the resource, or knows that it does not exist. */
  knows(name: string): boolean {
    return this.#known.has(name);
  }

  /** Whether the client waits for all resources of the type. */
  get awaitsAll(): boolean {
    return this.wildcard && !this.answered;
  }

  /** The names that the client waits for. */
  missing(): string[] {
    return [...this.names].filter((name) => !this.#known.has(name));
  }

  /** The first request of the type on a new stream; undefined when the client subscribes to nothing. */
  firstRequest(): RequestToWrite | undefined {
    const { typeUrl, names, wildcard } = this;
    if (!this.subscribed || (!wildcard && names.size === 0)) return undefined;
    if (this.#variant === 'sotw') {
      // A control plane may send no response for a known version, so new names would get no answer.
      return { typeUrl, names, version: this.missing().length > 0 ? '' : this.#version };
    }
    return {
      typeUrl,
      // An empty list subscribes to all; a list of names needs the wildcard for that.
      names: wildcard && names.size > 0 ? [WILDCARD, ...names] : names,
      initialVersions: [...this.#known].filter(([, version]) => version !== ABSENT),
    };
  }

  /** State of the World: the subscription as a request that acknowledges nothing. */
  unacknowledging(): RequestToWrite {
    return { typeUrl: this.typeUrl, names: this.names, version: this.#version };
  }
}

/** Whether a response of State of the World has all resources of the type. */
export function isFullSet(typeUrl: string): boolean {
  const type = xdsTypeOfUrl(typeUrl);
  return type !== undefined && XDS[type].fullSet;
}
