/**
 * The types of resources that the agent itself subscribes to, and what it reports: the protocol state of one stream
 * after the other, without I/O. What was received before is not requested again after a reconnect.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { type DiscoveryResponse, type RequestToWrite, resourceValue, type Variant } from './messages.ts';
import { HEALTH_TYPE, type OwnType, type WorkloadHealth } from './types.ts';
import { MAX_RESPONSE_BYTES } from './upstream.ts';

/** Writes a request to the control plane. */
export type SendOwn = (request: RequestToWrite) => void;

/** The use of one stream; it ends when another stream is attached. */
export interface OwnStream {
  /** Processes a response of an own type, and acknowledges or rejects it; ignored once the use has ended. */
  receive(response: DiscoveryResponse): void;
  detach(): void;
}

interface Subscription {
  readonly type: OwnType;
  /** Accepted resources by name, and with which variant they arrived: versions of the two cannot be compared. */
  accepted: ReadonlyMap<string, AcceptedResource>;
  variant: Variant | undefined;
  /** State of the World: the accepted version. */
  version: string;
}

interface AcceptedResource {
  readonly version: string;
  /** Size of the message. */
  readonly bytes: number;
}

/** Limits memory: a name table has a few hundred pieces. */
const MAX_RESOURCES = 10_000;

export class OwnTypes {
  readonly #log: Log;
  readonly #subscriptions = new Map<string, Subscription>();
  #health: WorkloadHealth | undefined;
  #stream: { readonly variant: Variant; readonly send: SendOwn } | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Whether there is anything to subscribe to or to report. */
  get needed(): boolean {
    return this.#subscriptions.size > 0 || this.#health !== undefined;
  }

  /** Throws CtlError already_exists for a type that has a subscriber. */
  subscribe(type: OwnType): void {
    if (this.#subscriptions.has(type.typeUrl))
      throw new CtlError('already_exists', `${type.typeUrl} has a subscriber already`);
    const subscription: Subscription = { type, accepted: new Map(), variant: undefined, version: '' };
    this.#subscriptions.set(type.typeUrl, subscription);
    this.#request(subscription);
  }

  reportHealth(health: WorkloadHealth): void {
    this.#health = health;
    this.#sendHealth();
  }

  /** A new stream: subscribes again and sends the latest report. */
  attach(variant: Variant, send: SendOwn): OwnStream {
    const stream = { variant, send };
    this.#stream = stream;
    for (const subscription of this.#subscriptions.values()) this.#request(subscription);
    this.#sendHealth();
    return {
      receive: (response) => {
        if (this.#stream === stream) this.#receive(response, stream);
      },
      detach: () => {
        if (this.#stream === stream) this.#stream = undefined;
      },
    };
  }

  /** Whether responses of the type are for the agent. */
  has(typeUrl: string): boolean {
    return this.#subscriptions.has(typeUrl);
  }

  #receive(response: DiscoveryResponse, stream: { readonly variant: Variant; readonly send: SendOwn }): void {
    const { typeUrl, nonce, version } = response;
    const subscription = this.#subscriptions.get(typeUrl);
    if (subscription === undefined) return;
    let error: string | undefined;
    try {
      this.#apply(subscription, stream.variant, response);
    } catch (thrown) {
      error = oneLineOf(thrown);
      this.#log.error(`the agent rejects a response of the control plane: ${error}`, { type: typeUrl, version });
    }
    const { type } = subscription;
    const names = stream.variant === 'sotw' ? type.resourceNames : [];
    stream.send({ typeUrl, names, version: subscription.version, nonce, error });
  }

  #apply(subscription: Subscription, variant: Variant, { resources, removed, version }: DiscoveryResponse): void {
    const whole = variant !== 'delta' || subscription.variant !== 'delta';
    const after = new Map(whole ? [] : subscription.accepted);
    for (const name of removed) after.delete(name);
    const set = new Map<string, Uint8Array>();
    for (const [index, resource] of resources.entries()) {
      // A copy, so that the rest of the message can be freed.
      const value = Buffer.from(resourceValue(variant, resource));
      const key = variant === 'delta' ? resource.name : String(index);
      set.set(key, value);
      after.set(key, { version: resource.version, bytes: value.length });
    }
    limit(subscription.type.typeUrl, after);
    subscription.type.receive({ set, removed, whole, version });
    subscription.accepted = after;
    subscription.variant = variant;
    subscription.version = version;
  }

  #request({ type, accepted, variant, version }: Subscription): void {
    const stream = this.#stream;
    if (stream === undefined) return;
    const { typeUrl, resourceNames: names } = type;
    const isComparable = variant === stream.variant;
    stream.send({
      typeUrl,
      names,
      version: isComparable ? version : '',
      initialVersions: isComparable ? [...accepted].map(([name, known]) => [name, known.version] as const) : [],
    });
  }

  #sendHealth(): void {
    const health = this.#health;
    if (health === undefined) return;
    this.#stream?.send({ typeUrl: HEALTH_TYPE, error: health.healthy ? undefined : health.message });
  }
}

/** All resources of a type together are as large as a response may be, however many responses they arrive in. */
function limit(typeUrl: string, accepted: ReadonlyMap<string, AcceptedResource>): void {
  if (accepted.size > MAX_RESOURCES)
    throw new CtlError('resource_exhausted', `more than ${MAX_RESOURCES} resources of ${typeUrl}`);
  const bytes = accepted.values().reduce((sum, resource) => sum + resource.bytes, 0);
  if (bytes > MAX_RESPONSE_BYTES)
    throw new CtlError('resource_exhausted', `resources of ${typeUrl} have more than ${MAX_RESPONSE_BYTES} bytes`);
}
