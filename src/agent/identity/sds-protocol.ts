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

interface State {
  readonly wanted: Set<string>;
  /** Version last sent, by name; '' when the name was answered as not existing. */
  readonly sent: Map<string, string>;
  readonly outstanding: { readonly nonce: string; readonly names: readonly string[] } | undefined;
}

export function createSecretStream(variant: Variant, events: StreamEvents): SecretStream {
  const wanted = new Set<string>();
  const sent = new Map<string, string>();
  let outstanding: State['outstanding'];
  let nonces = 0;
  let started = false;

  const acknowledge = (nonce: string, error: string | undefined): boolean => {
    if (outstanding === undefined || nonce !== outstanding.nonce) return false;
    if (error !== undefined) events.rejected(outstanding.names, error);
    // A rejected version is not sent again; the next rotation creates another.
    outstanding = undefined;
    return true;
  };
  const want = (name: string): void => {
    if (wanted.size >= MAX_NAMES)
      throw new CtlError('resource_exhausted', `more than ${MAX_NAMES} secrets on a stream`);
    if (name === '' || Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw new CtlError('invalid_argument', `the name of a secret has 1 to ${MAX_NAME_BYTES} bytes`);
    wanted.add(name);
  };
  const drop = (name: string): void => {
    wanted.delete(name);
    sent.delete(name);
  };

  const receiveSotw = (bytes: Uint8Array): void => {
    const { typeUrl, names, nonce, error } = sotwRequest(bytes);
    checkType(typeUrl);
    // A request for an older response has an outdated subscription; the one for the latest response follows.
    if (nonce !== '' && started && !acknowledge(nonce, error) && outstanding !== undefined) return;
    started = true;
    for (const name of [...wanted]) if (!names.includes(name)) drop(name);
    for (const name of names) if (!wanted.has(name)) want(name);
  };

  const receiveDelta = (bytes: Uint8Array): void => {
    const { typeUrl, subscribe, unsubscribe, initialVersions, nonce, error } = deltaRequest(bytes);
    checkType(typeUrl);
    if (nonce !== '') acknowledge(nonce, error);
    for (const name of unsubscribe) drop(name);
    for (const name of subscribe) {
      want(name);
      // Subscribing again requests the resource again; only the first request may list known versions.
      const known = started ? undefined : initialVersions.get(name);
      if (known === undefined) sent.delete(name);
      else sent.set(name, known);
    }
    started = true;
  };

  const due = (table: SecretTable): readonly string[] =>
    [...wanted].filter((name) => sent.get(name) !== (table.get(name)?.version ?? ''));

  return {
    receive: variant === 'sotw' ? receiveSotw : receiveDelta,
    started: () => started,
    wants: (name) => wanted.has(name),
    next(table) {
      if (table === undefined || outstanding !== undefined) return undefined;
      const names = due(table);
      for (const name of names) {
        sent.set(name, table.get(name)?.version ?? '');
        if (!table.has(name)) events.unknown(name);
      }
      const resources = names.flatMap((name) => table.get(name) ?? []);
      const removed = variant === 'delta' ? names.filter((name) => !table.has(name)) : [];
      // State of the World cannot report that a secret does not exist: nothing is sent, and the peer keeps waiting.
      if (resources.length + removed.length === 0) return undefined;
      const nonce = String(++nonces);
      outstanding = { nonce, names };
      if (variant === 'delta') return deltaResponse(resources, removed, nonce);
      return sotwResponse(resources, resources.map(({ version }) => version).join('-'), nonce);
    },
  };
}

function checkType(typeUrl: string): void {
  // The service has one type only, so the type may be left out.
  if (typeUrl === SECRET_TYPE || typeUrl === '') return;
  throw new CtlError(
    'invalid_argument',
    `only ${SECRET_TYPE} is served here, not ${JSON.stringify(typeUrl.slice(0, 200))}`,
  );
}
