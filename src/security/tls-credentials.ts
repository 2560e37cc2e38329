/**
 * TLS of the secure gRPC address, and the credentials of a call on it. Clients are asked for a certificate but may
 * connect without one (with a token). The authenticators decide whether a certificate is valid, because that depends on
 * its trust domain.
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
  /** PEM: only clients with a certificate of this authority may connect. Undefined: any client may. */
  readonly requiredCa: string | undefined;
}

/**
 * A connection without any byte, and a handshake that has not ended, are closed after this time, ms. Clients on a busy
 * machine take long if thousands of them connect at once. A connection without a stream may stay open for longer.
 */
const HANDSHAKE_TIMEOUT_MS = 30_000;

/**
 * Node's default, with AES-128 before AES-256, which is also Envoy's preference: strong enough for connections of
 * hours, and a third cheaper.
 */
const CIPHERS = `TLS_AES_128_GCM_SHA256:${DEFAULT_CIPHERS}`;

function contextOf({ chain, key, requiredCa }: ServerTls): SecureContextOptions {
  return {
    cert: chain,
    key,
    // An empty list instead of the machine's roots: clients are not sent names of accepted authorities, because some
    // would then present no certificate.
    ca: requiredCa === undefined ? [] : [requiredCa],
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    // No tickets: a ticket contains the client's certificate without its intermediates, and cannot be revoked. Clients
    // resume only sessions that are stored here (under TLS 1.3 tickets are still sent, but name a session that is not
    // stored). One handshake only: HTTP/2 forbids renegotiation (RFC 9113 section 9.2.1), by which a client could
    // change its identity in the middle of a call.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    // OpenSSL does not resume sessions of another context: a client that one authority accepted may not be accepted by
    // the next.
    sessionIdContext: createHash('sha256')
      .update(JSON.stringify([chain, requiredCa]))
      .digest('base64')
      .slice(0, 32),
    sessionTimeout: SESSION_SECONDS,
  };
}

/** Certificates presented, by connection. */
const shown = new WeakMap<object, readonly Uint8Array[]>();

/** Credentials whose certificate can be replaced; existing connections keep theirs. */
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
   * The client of this connection was refused. Its session is deleted: when it reconnects it may have another
   * certificate, which it would not present if it resumed the session.
   */
  refused({ secured }: ConnectionInfo): void {
    if (secured !== undefined) this.#sessions.forget(secured);
  }

  /** Replaces the certificate for new connections. */
  renew(tls: ServerTls): void {
    this.#context = contextOf(tls);
    this.#sessions.forgetAll();
    for (const listener of this.#listeners) listener();
  }
}

const BEARER = /^bearer +(\S+) *$/i;

/** The credentials of a call's caller; undefined when its connection is not encrypted. */
export function credentialsOfCall({ connection, metadata }: CallHead): Credentials | undefined {
  const { secured, peer } = connection;
  if (secured === undefined) return undefined;
  const certificates = shown.get(secured) ?? [];
  const authorization = metadata.get('authorization');
  const bearer = authorization.length === 1 ? BEARER.exec(authorization[0] ?? '')?.[1] : undefined;
  return { certificates, bearer, peer };
}
