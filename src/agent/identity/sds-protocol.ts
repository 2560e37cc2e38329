/**
 * The protocol state of one stream of secrets, without I/O. State of the World and Delta differ in their messages;
 * subscriptions, sent versions, acknowledgements and rejections are tracked alike. Source:
 * https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
 *
 * At most one response is unacknowledged; later changes are merged, and sent after the acknowledgement.
 */
import { CtlError } from '../../core/errors.ts';
import {
  deltaRequest,
  deltaResponse,
  SECRET_TYPE,
  type SecretResource,
  sotwRequest,
  sotwResponse,
} from './messages.ts';

/** The secrets by name. Undefined: there are none yet, and streams wait. */
export type SecretTable = ReadonlyMap<string, SecretResource>;

export interface StreamEvents {
  /** A stream has subscribed to an unknown name. */
  unknown(name: string): void;
  /** The peer has rejected a response, with a message. */
  rejected(names: readonly string[], message: string): void;
}

/** One stream of one protocol variant. */
export interface SecretStream {
  /** Processes a request. Throws CtlError for one that ends the stream. */
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
    return sotwResponse(resources, resources.map(({ version }) => version).join('-'), nonce);
  }

  #receiveSotw(bytes: Uint8Array): void {
    const { typeUrl, names, nonce, error } = sotwRequest(bytes);
    checkType(typeUrl);
    // A request for an older response has an outdated subscription; the one for the latest response follows.
    const isOutdated = nonce !== '' && this.#started && !this.#acknowledge(nonce, error);
    if (isOutdated && this.#outstanding !== undefined) return;
    this.#started = true;
    for (const name of [...this.#wanted]) if (!names.includes(name)) this.#unsubscribe(name);
    for (const name of names) if (!this.#wanted.has(name)) this.#subscribe(name);
  }

  #receiveDelta(bytes: Uint8Array): void {
    const { typeUrl, subscribe, unsubscribe, initialVersions, nonce, error } = deltaRequest(bytes);
    checkType(typeUrl);
    if (nonce !== '') this.#acknowledge(nonce, error);
    for (const name of unsubscribe) this.#unsubscribe(name);
    for (const name of subscribe) {
      this.#subscribe(name);
      // Subscribing again requests the resource again; only the first request may list known versions.
      const known = this.#started ? undefined : initialVersions.get(name);
      if (known === undefined) this.#sent.delete(name);
      else this.#sent.set(name, known);
    }
    this.#started = true;
  }

  /** False when the nonce is not that of the unacknowledged response. */
  #acknowledge(nonce: string, error: string | undefined): boolean {
    if (this.#outstanding === undefined || nonce !== this.#outstanding.nonce) return false;
    if (error !== undefined) this.#events.rejected(this.#outstanding.names, error);
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
