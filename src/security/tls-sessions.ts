/**
 * TLS sessions that clients may resume: a full handshake takes about 1.5 ms of this program, a resumed one less than
 * half, and a thousand proxies that reconnect at once wait for each other.
 *
 * An entry has the certificates that the client presented when its session began, with intermediates, which an OpenSSL
 * session lacks. They count as presented again on the next connection, and are verified as usual, at that time and
 * against the roots of that time. Only sessions of TLS 1.2, which Envoys use upstream by default: those of 1.3 are
 * valid for one connection each. Source: RFC 5246 section 7.3 (session identifiers)
 */
import type { TLSSocket } from 'node:tls';
import { sliceDer, splitDer } from '../asn1/index.ts';
import { type Shown, shownBy } from './peer-certificates.ts';

/**
 * How long a session may be resumed, s: as long as BoringSSL keeps one. The secret of a session decrypts its
 * connections, so it is not kept longer than necessary.
 */
export const SESSION_SECONDS = 7200;

/** Maximum size of all sessions and certificates, enough for about 5,000 proxies. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/**
 * The maximum size of one entry: more than any valid chain needs. It keeps a client with a hundred certificates from
 * displacing others.
 */
const MAX_ENTRY_BYTES = 32 * 1024;

interface Kept {
  readonly session: Buffer;
  readonly certificates: readonly Uint8Array[];
  readonly bytes: number;
  /** When it expires, epoch ms. */
  readonly endsAt: number;
}

/** Position of the identifier in OpenSSL's SSL_SESSION, after its version, that of the protocol, and the cipher. */
const ID_FIELD = 3;

const OCTET_STRING = 0x04;

function idOf(session: Buffer): string | undefined {
  const { tag, content } = splitDer(sliceDer(session, [ID_FIELD]));
  return tag === OCTET_STRING && content.length > 0 ? nameOf(content) : undefined;
}

function nameOf(id: Uint8Array): string {
  return Buffer.from(id).toString('latin1');
}

/** A connection's session under TLS 1.2, and its identifier. */
function sessionOf(socket: TLSSocket): { readonly session: Buffer | undefined; readonly id: string | undefined } {
  const session = socket.getProtocol() === 'TLSv1.2' ? socket.getSession() : undefined;
  return { session, id: session === undefined ? undefined : idOf(session) };
}

export class TlsSessions {
  /** By identifier, the most recently used last. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;
  readonly #maxBytes: number;
  #bytes = 0;

  /** @param now epoch ms */
  constructor(now: () => number, maxBytes = MAX_KEPT_BYTES) {
    this.#now = now;
    this.#maxBytes = maxBytes;
  }

  /** The session with this identifier, for a client that resumes it; undefined: a full handshake is needed. */
  find(id: Uint8Array): Buffer | undefined {
    return this.#find(nameOf(id))?.session;
  }

  /**
   * The certificates that a connection's client presented, now or when its session began; call it once per connection.
   * Undefined when they are no longer known: the connection must be closed then, and the next will be a full handshake.
   */
  certificatesOf(socket: TLSSocket): readonly Uint8Array[] | undefined {
    const { session, id } = sessionOf(socket);
    if (socket.isSessionReused()) return id === undefined ? undefined : this.#find(id)?.certificates;
    const shown = shownBy(socket);
    if (session !== undefined && id !== undefined) this.#keep(id, session, shown);
    return shown.certificates;
  }

  /**
   * Deletes the session of this connection: the client's next connection is a full handshake, in which it presents its
   * current certificates.
   */
  forget(socket: TLSSocket): void {
    this.#forget(sessionOf(socket).id ?? '');
  }

  /**
   * Deletes all sessions, when none can be resumed any more, because their secrets decrypt the connections that used
   * them.
   */
  forgetAll(): void {
    this.#kept.clear();
    this.#bytes = 0;
  }

  #find(id: string): Kept | undefined {
    const kept = this.#forget(id);
    // Written so that a date that cannot be read counts as expired.
    if (kept === undefined || !(this.#now() < kept.endsAt)) return undefined;
    this.#add(id, kept);
    return kept;
  }

  #forget(id: string): Kept | undefined {
    const kept = this.#kept.get(id);
    this.#kept.delete(id);
    this.#bytes -= kept?.bytes ?? 0;
    return kept;
  }

  #add(id: string, kept: Kept): void {
    this.#kept.set(id, kept);
    this.#bytes += kept.bytes;
  }

  /**
   * Stores nothing for clients without certificates, which have nothing to prove: their entries would displace others.
   */
  #keep(id: string, session: Buffer, { certificates, endsAt }: Shown): void {
    const bytes = certificates.reduce((sum, { length }) => sum + length, session.length);
    if (certificates.length === 0 || bytes > MAX_ENTRY_BYTES || this.#kept.has(id)) return;
    this.#add(id, { session, certificates, bytes, endsAt: Math.min(endsAt, this.#now() + SESSION_SECONDS * 1000) });
    for (const oldest of this.#kept.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#forget(oldest);
    }
  }
}
