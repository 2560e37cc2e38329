/**
 * The certificates that a TLS client has shown, as their bytes. What they are worth is decided by chain.ts; here nothing is judged.
 */
import type { TLSSocket } from 'node:tls';

/** Certificates taken from one handshake; see chain.ts for how many are of use. */
const MAX_SHOWN = 16;

/**
 * The certificates of a handshake, DER: the leaf, whose key the handshake proved, then each the issuer of the one before, as far as
 * the client showed them. Empty when it showed none, or when the connection is closed. About 0.06 ms for each certificate, so to be
 * called once per connection.
 *
 * Not by `getPeerX509Certificate`, which is cheaper: it takes the certificates above the leaf away from the connection
 * without freeing them (Node 24), so every connection would leave some 5 kB for each behind, and a second call would see the leaf alone.
 */
export function certificatesOf(socket: TLSSocket): readonly Uint8Array[] {
  const certificates: Uint8Array[] = [];
  let current: ReturnType<TLSSocket['getPeerCertificate']> | undefined = socket.getPeerCertificate(true);
  while (current?.raw !== undefined && certificates.length < MAX_SHOWN) {
    certificates.push(new Uint8Array(current.raw));
    const issuer: unknown = Reflect.get(current, 'issuerCertificate');
    current = issuer === current ? undefined : (issuer as typeof current | undefined);
  }
  return certificates;
}
