/** Extracts the certificates that a TLS client presented, as bytes. They are verified in chain.ts. */
import type { TLSSocket } from 'node:tls';

/** The maximum number of certificates read from one handshake; chain.ts has the limit of a valid chain. */
const MAX_SHOWN = 16;

export interface Shown {
  /**
   * DER: the leaf, whose key the handshake proved, then each the issuer of the one before, as far as the client
   * presented them.
   */
  readonly certificates: readonly Uint8Array[];
  /** When the first of them expires, epoch ms; NaN when one has no readable date. */
  readonly endsAt: number;
}

/**
 * The certificates of a handshake; none when the client presented none, or the connection is closed. Takes about 0.06
 * ms per certificate, so call it once per connection.
 *
 * Does not use `getPeerX509Certificate`, which is cheaper: in Node 24 it detaches the certificates above the leaf from
 * the connection without freeing them, so that every connection would leak some 5 kB for each, and a second call would
 * only get the leaf.
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
