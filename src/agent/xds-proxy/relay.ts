/**
 * The protocol state of one client of the proxy, without I/O: passes its messages to the control plane and back, as
 * bytes. The client's stream stays open while the control plane is gone. On the next stream to the control plane the
 * relay subscribes as the client itself would, with the versions that the client has accepted.
 *
 * A nonce is valid on one stream to the control plane. A type is requested on a new stream only when the client has
 * answered all responses of older streams, so that no answer is taken for that to another response.
 */
import { CtlError } from '../../core/errors.ts';
import { XDS } from '../../core/xds-types.ts';
import { AskedHosts, isHost, namesAnsweredBy } from './asked-hosts.ts';
import {
  type DiscoveryRequest,
  type LocatedResource,
  type RequestToWrite,
  readNode,
  readRequest,
  readResponse,
  type Variant,
  withNode,
  withNonce,
  withRemoved,
  withResponseNonce,
  writeRequest,
  writeResponse,
} from './messages.ts';
import type { OwnStream, OwnTypes } from './own-types.ts';
import type { Snapshot } from './snapshot.ts';
import { FROM_SNAPSHOT, Subscription } from './subscription.ts';

export interface RelayOutput {
  toClient(bytes: Buffer): void;
  toUpstream(bytes: Buffer): void;
  /** The client has sent its node. Returns its snapshot, if it may use one. */
  identified(node: { readonly id: string; readonly userAgent: string }): Snapshot | undefined;
  /** The client has rejected a response. */
  rejected(typeUrl: string, message: string): void;
  /** The client is sent resources of the snapshot. */
  servedFromSnapshot(typeUrl: string, resources: number): void;
  /** The client is told that these hosts are not available. */
  unavailable(names: readonly string[]): void;
}

/** A client uses about ten types. */
const MAX_TYPES = 64;

export class Relay {
  readonly variant: Variant;
  readonly #out: RelayOutput;
  readonly #types = new Map<string, Subscription>();
  readonly #noncePrefix: string;
  #nonces = 0;
  #node: Buffer | undefined;
  #snapshot: Snapshot | undefined;
  #epoch = 0;
  #attached = false;
  #nodeSent = false;
  #offline = false;
  /** The hosts that the client waits for. */
  readonly #asked = new AskedHosts();
  #own: OwnTypes | undefined;
  #ownStream: OwnStream | undefined;

  /** @param noncePrefix of responses from the snapshot; one that no control plane uses */
  constructor(variant: Variant, noncePrefix: string, out: RelayOutput) {
    this.variant = variant;
    this.#noncePrefix = noncePrefix;
    this.#out = out;
  }

  /** Whether the client has sent its first request. */
  get started(): boolean {
    return this.#node !== undefined;
  }

  /** The snapshot and the agent's own types are another client's from now on. */
  release(): void {
    this.#snapshot = undefined;
    this.#ownStream?.detach();
  }

  /** Whether the control plane owes a response without which the client does not start. */
  get awaitsAnswer(): boolean {
    return (
      this.#attached && [...this.#types.values()].some((each) => each.requested && !each.delivered && each.awaitsAll)
    );
  }

  /** Since when the client has waited for a host, ms. */
  get waitsSince(): number | undefined {
    return this.#asked.oldest;
  }

  /**
   * Processes a request of the client. Throws CtlError for one that ends its stream.
   * @param now ms
   */
  fromClient(bytes: Buffer, now: number): void {
    const read = readRequest(this.variant, bytes);
    const request = { ...read, initialVersions: this.#asked.reported(read.initialVersions) };
    if (request.typeUrl === '')
      throw new CtlError('invalid_argument', 'a request needs a type_url', { field: 'type_url' });
    if (request.node !== undefined || this.#node === undefined) this.#identify(request);
    const type = this.#typeOf(request.typeUrl);
    const isFirst = !type.subscribed;
    const settled = request.nonce === '' ? undefined : this.#settle(type, request);
    const snapshot = this.#snapshot;
    const compared = snapshot === undefined ? undefined : (snapshot.get(type.typeUrl) ?? NOTHING);
    const isSame = request.initialVersions.size === read.initialVersions.size;
    const unchanged = type.update(request, compared) && isSame;
    if (this.variant === 'delta' && snapshot !== undefined) this.#ask(read, now);
    if (!isFirst) this.#forget(type, request);
    else if (this.variant === 'delta' && !type.fresh)
      snapshot?.retain(type.typeUrl, (name) => compared?.versionOf(name) === request.initialVersions.get(name));
    if (this.#attached) this.#forward(type, bytes, request, isFirst && unchanged, settled);
    else if (this.#offline) this.#serve(type);
  }

  /** A client that reconnects also lists the names whose answers it has. */
  #ask({ typeUrl, names, initialVersions }: DiscoveryRequest, now: number): void {
    const answered = namesAnsweredBy(initialVersions.keys());
    this.#asked.ask(
      names.filter((name) => isHost(typeUrl, name) && !answered.has(name)),
      now,
    );
  }

  #identify({ node }: DiscoveryRequest): void {
    if (node === undefined) throw new CtlError('invalid_argument', 'the first request needs a node', { field: 'node' });
    const isFirst = this.#node === undefined;
    // A copy, so that the rest of the message can be freed.
    this.#node = Buffer.from(node);
    if (isFirst) this.#snapshot = this.#out.identified(readNode(node));
  }

  #typeOf(typeUrl: string): Subscription {
    const known = this.#types.get(typeUrl);
    if (known !== undefined) return known;
    if (this.#types.size >= MAX_TYPES) throw new CtlError('resource_exhausted', `more than ${MAX_TYPES} types`);
    const made = new Subscription(this.variant, typeUrl);
    this.#types.set(typeUrl, made);
    return made;
  }

  /** Whether the request answers a response of the current stream, of another one, or none that is pending. */
  #settle(type: Subscription, request: DiscoveryRequest): 'current' | 'other' | undefined {
    const settled = type.settle(request);
    if (settled === undefined) return undefined;
    if (request.nack !== undefined) this.#out.rejected(type.typeUrl, request.nack);
    for (const { epoch, response } of settled.accepted) {
      const wanted = (name: string): boolean => type.wildcard || type.names.has(name);
      if (epoch !== FROM_SNAPSHOT) this.#snapshot?.accept(response, type.fresh, wanted);
      type.fresh = false;
      if (epoch === FROM_SNAPSHOT) this.#follow(type);
    }
    return settled.last.epoch === this.#epoch ? 'current' : 'other';
  }

  /** While the control plane is connected, the snapshot has exactly what the client has. */
  #follow(type: Subscription): void {
    if (!this.#attached || type.fresh || type.pending.length > 0) return;
    this.#snapshot?.retain(type.typeUrl, (name) => type.knows(name));
  }

  /** Removes from the snapshot what the client has unsubscribed from. */
  #forget(type: Subscription, { unsubscribe }: DiscoveryRequest): void {
    if (type.wildcard || type.fresh || (this.variant === 'delta' && unsubscribe.length === 0)) return;
    this.#snapshot?.retain(type.typeUrl, (name) => type.names.has(name));
  }

  /** @param asItIs whether a first request may be passed with the versions in it */
  #forward(
    type: Subscription,
    bytes: Buffer,
    { nonce, node, names, unsubscribe }: DiscoveryRequest,
    asItIs: boolean,
    settled: 'current' | 'other' | undefined,
  ): void {
    const isOfOther = settled === 'other' && type.requested && this.variant === 'delta';
    if (isOfOther && names.length + unsubscribe.length === 0) return;
    // The stream does not know the nonce.
    const alias = isOfOther ? '' : type.aliases.get(nonce);
    const request = alias === undefined || alias === nonce ? bytes : withNonce(this.variant, bytes, alias);
    if (!type.requested) {
      if (asItIs && (nonce === '' || settled === 'current')) {
        type.requested = true;
        this.#pass(request, node);
      } else this.#request(type);
      return;
    }
    // With State of the World every request has the latest nonce: here one that the new stream does not know.
    if (this.variant === 'delta' || nonce === '' || alias !== undefined) this.#pass(request, node);
    else this.#write(type.unacknowledging());
  }

  /** Subscribes to a type on the current stream, unless responses of older ones are not answered. */
  #request(type: Subscription): void {
    if (type.requested || type.awaitsAckOfOther(this.#epoch)) return;
    const request = type.firstRequest();
    if (request === undefined) return;
    type.requested = true;
    this.#write(request);
  }

  /** The first request of a stream contains the node. */
  #write(request: RequestToWrite): void {
    const node = this.#nodeSent ? undefined : this.#node;
    this.#nodeSent = true;
    this.#out.toUpstream(writeRequest(this.variant, { ...request, node }));
  }

  #pass(bytes: Buffer, node: Buffer | undefined): void {
    const missing = this.#nodeSent || node !== undefined ? undefined : this.#node;
    this.#nodeSent = true;
    this.#out.toUpstream(missing === undefined ? bytes : withNode(this.variant, bytes, missing));
  }

  /** There is a new stream to the control plane. The agent's own types are requested on it as well, if given. */
  attach(own?: OwnTypes): void {
    this.#epoch++;
    this.#attached = true;
    this.#nodeSent = false;
    this.#offline = false;
    for (const type of this.#types.values()) {
      type.restart();
      this.#follow(type);
      this.#request(type);
    }
    if (own !== undefined) this.carry(own);
  }

  /** The agent's own types use this client's stream, from now or from the next one on. */
  carry(own: OwnTypes): void {
    this.#own = own;
    if (this.#attached) this.#ownStream = own.attach(this.variant, (request) => this.#write(request));
  }

  /** The stream to the control plane has ended. */
  detach(): void {
    if (!this.#attached) return;
    this.#attached = false;
    this.#ownStream?.detach();
  }

  /** The control plane cannot be reached: what the client waits for is answered from the snapshot. */
  goOffline(): void {
    this.#offline = true;
    if (this.#attached) return;
    for (const type of this.#types.values()) this.#serve(type);
  }

  /** Processes a response. Throws CtlError for one that ends the stream to the control plane. */
  fromUpstream(bytes: Buffer): void {
    const response = readResponse(this.variant, bytes);
    const { typeUrl, nonce } = response;
    if (this.#own?.has(typeUrl) === true && !this.#types.has(typeUrl)) {
      this.#ownStream?.receive(response);
      return;
    }
    const type = this.#typeOf(typeUrl);
    const given = type.nonceFor(nonce, this.#epoch);
    type.sent({ nonce: given, epoch: this.#epoch, response });
    type.delivered = true;
    const sent = given === nonce ? bytes : withResponseNonce(bytes, given);
    const gone = typeUrl === XDS.vhds.url ? this.#asked.answered(response.resources) : [];
    this.#out.toClient(gone.length === 0 ? sent : withRemoved(sent, gone));
  }

  /** The control plane has not answered: hosts that the client has waited for since `since` are unavailable. */
  stopWaiting(since: number): void {
    const names = this.#asked.overdue(since);
    if (names.length === 0) return;
    const typeUrl = XDS.vhds.url;
    const type = this.#typeOf(typeUrl);
    const present = this.#snapshot?.get(typeUrl)?.resources.values() ?? [];
    const nonce = `${this.#noncePrefix}${++this.#nonces}`;
    // Neither the control plane nor the snapshot learns of what is made here.
    type.sent({ nonce, epoch: FROM_SNAPSHOT, response: { typeUrl, nonce, version: '', resources: [], removed: [] } });
    const { resources, refused } = this.#asked.unavailable(names, present);
    // Envoy asks for them again with the next request. The control plane need not know all that were ever asked for.
    for (const name of refused) type.names.delete(name);
    this.#out.unavailable(names);
    this.#out.toClient(writeResponse({ typeUrl, nonce, version: '', resources }));
  }

  /**
   * Sends what the client waits for, as far as the snapshot has it. At most one response of each type is unanswered.
   */
  #serve(type: Subscription): void {
    const found = this.#snapshot?.get(type.typeUrl);
    if (found === undefined || type.pending.length > 0) return;
    const resources: LocatedResource[] = [];
    const removed: string[] = [];
    if (type.awaitsAll) resources.push(...found.resources.values());
    else
      for (const name of type.missing()) {
        const resource = found.resources.get(name);
        if (resource !== undefined) resources.push(resource);
        // The removal of a host would not end the wait for it.
        else if (this.variant === 'delta' && !isHost(type.typeUrl, name)) removed.push(name);
      }
    if (resources.length + removed.length === 0 && !type.awaitsAll) return;
    const { typeUrl } = type;
    const nonce = `${this.#noncePrefix}${++this.#nonces}`;
    const response = { typeUrl, nonce, version: found.version, resources, removed };
    type.sent({ nonce, epoch: FROM_SNAPSHOT, response });
    this.#out.servedFromSnapshot(typeUrl, resources.length);
    this.#out.toClient(writeResponse({ ...response, resources: resources.map(({ bytes }) => bytes) }));
  }
}

const NOTHING = { version: '', versionOf: () => undefined };
