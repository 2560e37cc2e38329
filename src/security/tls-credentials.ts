/**
 * The TLS of the secured address, and what a call on it shows of its caller. Clients are asked for a certificate but may come
 * without one (with a token); whether a certificate is good is decided by the authenticators, because that depends on its trust domain.
 * grpc-js can only ask for certificates that its own TLS layer has verified, hence credentials of our own.
 */
import { constants } from 'node:crypto';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { type Metadata, ServerCredentials } from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
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

function contextOf({ chain, key, requiredCa }: ServerTls): SecureContextOptions {
  return {
    cert: chain,
    key,
    // An empty list instead of the machine's roots: clients are not told which authorities we like, as some would then show nothing.
    ca: requiredCa === undefined ? [] : [requiredCa],
    minVersion: 'TLSv1.2',
    // A resumed session has the client's certificate without its intermediates. Without tickets, and with no store of sessions,
    // each connection makes a full handshake. And only one: HTTP/2 forbids renegotiation (RFC 9113 section 9.2.1), in which a client
    // could become another in the middle of a call.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
  };
}

/** Credentials whose certificate can be replaced; connections that stand keep theirs. */
export class MeshServerCredentials extends ServerCredentials {
  constructor(tls: ServerTls) {
    super(
      { requestCert: true, rejectUnauthorized: tls.requiredCa !== undefined, handshakeTimeout: HANDSHAKE_TIMEOUT_MS },
      contextOf(tls),
    );
  }

  /** New connections get this certificate. */
  renew(tls: ServerTls): void {
    this.updateSecureContextOptions(contextOf(tls));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

/** What of a grpc-js call is looked at. */
export interface AnyCall {
  readonly metadata: Metadata;
  getPeer(): string;
}

/** Certificates taken from one handshake; see chain.ts for how many are of use. */
const MAX_SHOWN = 16;

const shown = new WeakMap<object, readonly Uint8Array[]>();

/** The certificates of a handshake, DER, in the order in which each is the issuer of the one before. */
function certificatesOf(socket: TLSSocket): readonly Uint8Array[] {
  const certificates: Uint8Array[] = [];
  let current: ReturnType<TLSSocket['getPeerCertificate']> | undefined = socket.getPeerCertificate(true);
  while (current?.raw !== undefined && certificates.length < MAX_SHOWN) {
    certificates.push(new Uint8Array(current.raw));
    const issuer: unknown = Reflect.get(current, 'issuerCertificate');
    current = issuer === current ? undefined : (issuer as typeof current | undefined);
  }
  return certificates;
}

function inside(object: unknown, member: string): unknown {
  return typeof object === 'object' && object !== null ? Reflect.get(object, member) : undefined;
}

const BEARER = /^bearer +(\S+) *$/i;

/**
 * What a call shows of its caller; undefined when its connection is not encrypted. The socket is reached over private members of
 * grpc-js (the version is pinned); when they are not as expected this throws, so that nothing passes unseen.
 */
export function credentialsOfCall(call: AnyCall): Credentials | undefined {
  const session = inside(inside(inside(call, 'call'), 'stream'), 'session');
  const socket = inside(session, 'socket');
  if (typeof session !== 'object' || session === null || typeof socket !== 'object' || socket === null) {
    throw new CtlError('unavailable', 'the connection is closed');
  }
  if (inside(socket, 'encrypted') !== true) return undefined;
  let certificates = shown.get(session);
  if (certificates === undefined) {
    certificates = certificatesOf(socket as TLSSocket);
    shown.set(session, certificates);
  }
  const authorization = call.metadata.get('authorization');
  const bearer = authorization.length === 1 ? BEARER.exec(String(authorization[0]))?.[1] : undefined;
  return { certificates, bearer, peer: call.getPeer() };
}
