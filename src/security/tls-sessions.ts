/**
 * Sessions that clients may go on with when they connect again: a handshake with keys and certificates takes this
 * program some 1.5 ms, one that goes on with a session less than half, and a thousand proxies that come back at once
 * wait for all of them.
 *
 * Kept is what a client has shown when its session began, intermediates too, which a session of OpenSSL leaves out: on
 * its next connection it has shown the same, and what that is worth is judged as ever, by the clock and the trust of
 * then. Only sessions of TLS 1.2, which is what Envoys speak upstream unless told otherwise: those of 1.3 are good for
 * one connection each. Source: RFC 5246 section 7.3 (session identifiers)
 */
import type { TLSSocket } from 'node:tls';
import { sliceDer, splitDer } from '../asn1/index.ts';
import { type Shown, shownBy } from './peer-certificates.ts';

/**
 * How long a session is good for, s: as long as BoringSSL keeps one. Whoever sees its secret reads what was said under
 * it, hence no longer than it is of use.
 */
export const SESSION_SECONDS = 7200;

/** All that is kept, bytes of sessions and certificates: those of some 5,000 proxies. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/** Nobody's chain needs more; room for many is not for one who shows a hundred. */
const MAX_ENTRY_BYTES = 32 * 1024;

interface Kept {
  readonly session: Buffer;
  readonly certificates: readonly Uint8Array[];
  readonly bytes: number;
  /** No connection goes on with it from then on, epoch ms. */
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

/** What is known of a connection's session under TLS 1.2. */
function sessionOf(socket: TLSSocket): { readonly session: Buffer | undefined; readonly id: string | undefined } {
  const session = socket.getProtocol() === 'TLSv1.2' ? socket.getSession() : undefined;
  return { session, id: session === undefined ? undefined : idOf(session) };
}

export class TlsSessions {
  /** By identifier, those that were used last at the end. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;
  readonly #maxBytes: number;
  #bytes = 0;

  /** @param now epoch ms */
  constructor(now: () => number, maxBytes = MAX_KEPT_BYTES) {
    this.#now = now;
    this.#maxBytes = maxBytes;
  }

  /**
   * The session with this identifier, for a client that wants to go on with it; undefined: it has to shake hands anew.
   */
  find(id: Uint8Array): Buffer | undefined {
    return this.#find(nameOf(id))?.session;
  }

  /**
   * What the client of a connection has shown, now or when its session began; to be called once per connection.
   * Undefined when that is not known any more: then nothing can be said of the client, and its connection is to be
   * closed. The next will be a new handshake.
   */
  certificatesOf(socket: TLSSocket): readonly Uint8Array[] | undefined {
    const { session, id } = sessionOf(socket);
    if (socket.isSessionReused()) return id === undefined ? undefined : this.#find(id)?.certificates;
    const shown = shownBy(socket);
    if (session !== undefined && id !== undefined) this.#keep(id, session, shown);
    return shown.certificates;
  }

  /**
   * The session of this connection: the next of its client is a new handshake, in which it shows what it has by then.
   */
  forget(socket: TLSSocket): void {
    this.#forget(sessionOf(socket).id ?? '');
  }

  /**
   * All sessions, when none can be gone on with any more: whoever sees their secrets reads what was said under them.
   */
  forgetAll(): void {
    this.#kept.clear();
    this.#bytes = 0;
  }

  #find(id: string): Kept | undefined {
    const kept = this.#forget(id);
    // Written so that a date which could not be read is over.
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

  /** As the one that was used last. */
  #add(id: string, kept: Kept): void {
    this.#kept.set(id, kept);
    this.#bytes += kept.bytes;
  }

  /**
   * Of clients that show nothing, so that they have nothing to prove, nothing is kept: sessions of others would make
   * room for it.
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
