/**
 * The TLS of the secured address, and what a call on it shows of its caller. Clients are asked for a certificate but
 * may come without one (with a token); whether a certificate is good is decided by the authenticators, because that
 * depends on its trust domain.
 */
import { constants, createHash } from 'node:crypto';
import { DEFAULT_CIPHERS, type SecureContextOptions, type TLSSocket } from 'node:tls';
import type { CallHead, ConnectionInfo, ListenerTls } from '../grpc/index.ts';
import { SESSION_SECONDS, TlsSessions } from './tls-sessions.ts';
import type { Credentials } from './types.ts';

export interface ServerTls {
  /** PEM, leaf first. */
  readonly chain: string;
  /** PEM. */
  readonly key: string;
  /** PEM: only clients with a certificate that it signed may connect at all. Undefined: any client may. */
  readonly requiredCa: string | undefined;
}

/** A client that has not done its part of the handshake by then holds a connection for nothing. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/**
 * Node's own, with AES-128 before AES-256, as Envoys themselves prefer it: strong enough for connections of hours, and
 * a third less to encrypt.
 */
const CIPHERS = `TLS_AES_128_GCM_SHA256:${DEFAULT_CIPHERS}`;

function contextOf({ chain, key, requiredCa }: ServerTls): SecureContextOptions {
  return {
    cert: chain,
    key,
    // An empty list instead of the machine's roots: clients are not told which authorities we like, as some would then
    // show nothing.
    ca: requiredCa === undefined ? [] : [requiredCa],
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    // A ticket holds the client's certificate without its intermediates, and nothing that it holds could be forgotten:
    // clients go on only with sessions that are kept here (under TLS 1.3 tickets are sent all the same, but name a
    // session that nobody has kept). And only one handshake: HTTP/2 forbids renegotiation (RFC 9113 section 9.2.1), in
    // which a client could become another in the middle of a call.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    // OpenSSL passes over sessions of another context: who was let in by one authority may not be by the next.
    sessionIdContext: createHash('sha256')
      .update(JSON.stringify([chain, requiredCa]))
      .digest('base64')
      .slice(0, 32),
    sessionTimeout: SESSION_SECONDS,
  };
}

/** By connection. */
const shown = new WeakMap<object, readonly Uint8Array[]>();

/** Credentials whose certificate can be replaced; connections that stand keep theirs. */
export class MeshServerCredentials implements ListenerTls {
  readonly options: ListenerTls['options'];
  readonly #listeners = new Set<() => void>();
  readonly #sessions: TlsSessions;
  #context: SecureContextOptions;

  /** @param now epoch ms */
  constructor(tls: ServerTls, now: () => number) {
    this.options = {
      requestCert: true,
      rejectUnauthorized: tls.requiredCa !== undefined,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    };
    this.#sessions = new TlsSessions(now);
    this.#context = contextOf(tls);
  }

  resume(id: Buffer): Buffer | undefined {
    return this.#sessions.find(id);
  }

  secured(socket: TLSSocket): boolean {
    const certificates = this.#sessions.certificatesOf(socket);
    if (certificates !== undefined) shown.set(socket, certificates);
    return certificates !== undefined;
  }

  context(): SecureContextOptions {
    return this.#context;
  }

  onRenew(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The client of this connection was refused. It may have another certificate by the time it comes again, which it
   * would not show were it to go on with this session.
   */
  refused({ secured }: ConnectionInfo): void {
    if (secured !== undefined) this.#sessions.forget(secured);
  }

  /** New connections get this certificate. */
  renew(tls: ServerTls): void {
    this.#context = contextOf(tls);
    this.#sessions.forgetAll();
    for (const listener of this.#listeners) listener();
  }
}

const BEARER = /^bearer +(\S+) *$/i;

/** What a call shows of its caller; undefined when its connection is not encrypted. */
export function credentialsOfCall({ connection, metadata }: CallHead): Credentials | undefined {
  const { secured, peer } = connection;
  if (secured === undefined) return undefined;
  const certificates = shown.get(secured) ?? [];
  const authorization = metadata.get('authorization');
  const bearer = authorization.length === 1 ? BEARER.exec(authorization[0] ?? '')?.[1] : undefined;
  return { certificates, bearer, peer };
}
