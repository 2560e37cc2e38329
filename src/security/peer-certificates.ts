/**
 * The certificates that a TLS client has shown, as their bytes. What they are worth is decided by chain.ts; here
 * nothing is judged.
 */
import type { TLSSocket } from 'node:tls';

/** Certificates taken from one handshake; see chain.ts for how many are of use. */
const MAX_SHOWN = 16;

export interface Shown {
  /**
   * DER: the leaf, whose key the handshake proved, then each the issuer of the one before, as far as the client showed
   * them.
   */
  readonly certificates: readonly Uint8Array[];
  /** When the first of them ends, epoch ms; NaN when one does not say it. */
  readonly endsAt: number;
}

/**
 * The certificates of a handshake: none when the client showed none, or when the connection is closed. About 0.06 ms
 * for each certificate, so to be called once per connection.
 *
 * Not by `getPeerX509Certificate`, which is cheaper: it takes the certificates above the leaf away from the connection
 * without freeing them (Node 24), so every connection would leave some 5 kB for each behind, and a second call would
 * see the leaf alone.
 */
export function shownBy(socket: TLSSocket): Shown {
  const certificates: Uint8Array[] = [];
  let endsAt = Number.POSITIVE_INFINITY;
  let current: ReturnType<TLSSocket['getPeerCertificate']> | undefined = socket.getPeerCertificate(true);
  while (current?.raw !== undefined && certificates.length < MAX_SHOWN) {
    certificates.push(new Uint8Array(current.raw));
    endsAt = Math.min(endsAt, Date.parse(current.valid_to));
    const issuer: unknown = Reflect.get(current, 'issuerCertificate');
    current = issuer === current ? undefined : (issuer as typeof current | undefined);
  }
  return { certificates, endsAt };
}
