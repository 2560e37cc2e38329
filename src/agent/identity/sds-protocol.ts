/**
 * The protocol state of one stream of secrets, without I/O. State of the World and Delta differ in their messages;
 * subscriptions, sent versions, acknowledgements and rejections are tracked alike. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 *
 * At most one response is unacknowledged; later changes are merged, and sent after the acknowledgement.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { XDS } from '../../core/xds-types.ts';
import { envoy } from '../../protobuf/agent/index.ts';

const { DiscoveryRequest, DiscoveryResponse, DeltaDiscoveryRequest, DeltaDiscoveryResponse } =
  envoy.service.discovery.v3;

export const SECRET_TYPE = XDS.sds.url;

/** An encoded Secret; equal versions mean equal content. */
export interface SecretResource {
  readonly name: string;
  readonly version: string;
  readonly bytes: Uint8Array;
}

/** The secrets by name. While undefined, there are no secrets yet, and streams wait. */
export type SecretTable = ReadonlyMap<string, SecretResource>;

export interface StreamEvents {
  /** A stream has subscribed to an unknown name. */
  unknown(name: string): void;
  /** The peer has rejected a response, with a message. */
  rejected(names: readonly string[], message: string): void;
}

/** The state of one stream, in one variant of the protocol. */
export interface SecretStream {
  /** Processes a request. Throws CtlError for a request that ends the stream. */
  receive(bytes: Uint8Array): void;
  /** The next response, if there is one; it then counts as sent and unacknowledged. */
  next(table: SecretTable | undefined): Uint8Array | undefined;
  /** False until the first request. */
  started(): boolean;
  /** Whether the peer is subscribed to a name. */
  wants(name: string): boolean;
}

export type Variant = 'sotw' | 'delta';

/** Envoy subscribes to two names, gateways to one more per credential. */
const MAX_NAMES = 100;
const MAX_NAME_BYTES = 1024;

export function createSecretStream(variant: Variant, events: StreamEvents): SecretStream {
  return new SubscribedStream(variant, events);
}

class SubscribedStream implements SecretStream {
  readonly #variant: Variant;
  readonly #events: StreamEvents;
  readonly #wanted = new Set<string>();
  /** Version last sent, by name; '' when the name was answered as not existing. */
  readonly #sent = new Map<string, string>();
  #outstanding: { readonly nonce: string; readonly names: readonly string[] } | undefined;
  #nonces = 0;
  #started = false;

  constructor(variant: Variant, events: StreamEvents) {
    this.#variant = variant;
    this.#events = events;
  }

  receive(bytes: Uint8Array): void {
    if (this.#variant === 'sotw') this.#receiveSotw(bytes);
    else this.#receiveDelta(bytes);
  }

  started(): boolean {
    return this.#started;
  }

  wants(name: string): boolean {
    return this.#wanted.has(name);
  }

  next(table: SecretTable | undefined): Uint8Array | undefined {
    if (table === undefined || this.#outstanding !== undefined) return undefined;
    const names = [...this.#wanted].filter((name) => this.#sent.get(name) !== (table.get(name)?.version ?? ''));
    for (const name of names) {
      this.#sent.set(name, table.get(name)?.version ?? '');
      if (!table.has(name)) this.#events.unknown(name);
    }
    const resources = names.flatMap((name) => table.get(name) ?? []);
    const removed = this.#variant === 'delta' ? names.filter((name) => !table.has(name)) : [];
    // State of the World cannot report that a secret does not exist: nothing is sent, and the peer keeps waiting.
    if (resources.length + removed.length === 0) return undefined;
    const nonce = String(++this.#nonces);
    this.#outstanding = { nonce, names };
    if (this.#variant === 'delta') return deltaResponse(resources, removed, nonce);
    return sotwResponse(resources, nonce);
  }

  #receiveSotw(bytes: Uint8Array): void {
    const request = decoded(() => DiscoveryRequest.decode(bytes));
    const { typeUrl, resourceNames: names, responseNonce: nonce, errorDetail } = request;
    checkType(typeUrl);
    // A request that answers an older response has an outdated subscription; the request that answers the latest
    // response follows.
    const isOutdated = nonce !== '' && this.#started && !this.#acknowledge(nonce, errorDetail);
    if (isOutdated && this.#outstanding !== undefined) return;
    this.#started = true;
    for (const name of [...this.#wanted]) if (!names.includes(name)) this.#unsubscribe(name);
    for (const name of names) if (!this.#wanted.has(name)) this.#subscribe(name);
  }

  #receiveDelta(bytes: Uint8Array): void {
    const request = decoded(() => DeltaDiscoveryRequest.decode(bytes));
    const { typeUrl, responseNonce: nonce, errorDetail, initialResourceVersions: initialVersions } = request;
    checkType(typeUrl);
    if (nonce !== '') this.#acknowledge(nonce, errorDetail);
    for (const name of request.resourceNamesUnsubscribe) this.#unsubscribe(name);
    for (const name of request.resourceNamesSubscribe) {
      this.#subscribe(name);
      // Subscribing again requests the resource again; only the first request may list known versions.
      const known = this.#started || !Object.hasOwn(initialVersions, name) ? undefined : initialVersions[name];
      if (known === undefined) this.#sent.delete(name);
      else this.#sent.set(name, known);
    }
    this.#started = true;
  }

  /** False when the nonce is not that of the unacknowledged response. */
  #acknowledge(nonce: string, error: { readonly message: string } | null): boolean {
    if (this.#outstanding === undefined || nonce !== this.#outstanding.nonce) return false;
    if (error !== null) this.#events.rejected(this.#outstanding.names, error.message);
    // A rejected version is not sent again; the next rotation creates another.
    this.#outstanding = undefined;
    return true;
  }

  #subscribe(name: string): void {
    if (this.#wanted.size >= MAX_NAMES)
      throw new CtlError('resource_exhausted', `more than ${MAX_NAMES} secrets on a stream`);
    if (name === '' || Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw new CtlError('invalid_argument', `the name of a secret has 1 to ${MAX_NAME_BYTES} bytes`);
    this.#wanted.add(name);
  }

  #unsubscribe(name: string): void {
    this.#wanted.delete(name);
    this.#sent.delete(name);
  }
}

function checkType(typeUrl: string): void {
  // The service has one type only, so the type may be left out.
  if (typeUrl === SECRET_TYPE || typeUrl === '') return;
  throw new CtlError(
    'invalid_argument',
    `only ${SECRET_TYPE} is served here, not ${JSON.stringify(typeUrl.slice(0, 200))}`,
  );
}

function decoded<M>(decode: () => M): M {
  try {
    return decode();
  } catch (error) {
    throw new CtlError('invalid_argument', `not a discovery request: ${oneLineOf(error)}`, {}, error);
  }
}

const anyOf = ({ bytes: value }: SecretResource) => ({ typeUrl: SECRET_TYPE, value });

function sotwResponse(resources: readonly SecretResource[], nonce: string): Uint8Array {
  const versionInfo = resources.map(({ version }) => version).join('-');
  const response = { versionInfo, resources: resources.map(anyOf), typeUrl: SECRET_TYPE, nonce };
  return DiscoveryResponse.encode(response).finish();
}

function deltaResponse(resources: readonly SecretResource[], removed: readonly string[], nonce: string): Uint8Array {
  return DeltaDiscoveryResponse.encode({
    resources: resources.map((each) => ({ name: each.name, version: each.version, resource: anyOf(each) })),
    typeUrl: SECRET_TYPE,
    nonce,
    removedResources: [...removed],
  }).finish();
}
