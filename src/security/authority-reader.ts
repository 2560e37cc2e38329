/**
 * Reads the certificates that clients show above their own. Thousands of workloads show the same few, and to read one
 * and its key takes as long as to verify a signature: so those read lately are kept, by their very bytes. What they are
 * worth is not kept: whether one is valid now, may sign, and leads to a root is asked each time.
 */
import { type Certificate, readCertificate } from './certificate.ts';

/** A mesh has an intermediate or two, and twice as many while they are replaced; each takes some 10 kB. */
const MAX_KEPT = 64;

/** Larger ones are read each time: an authority's certificate has one or two kilobytes. */
const MAX_BYTES = 8 * 1024;

/** Reads as `readCertificate` does: throws when the bytes are no certificate, which is not kept. */
export type CertificateReader = (der: Uint8Array) => Certificate;

export function createAuthorityReader(read: CertificateReader = readCertificate): CertificateReader {
  const kept = new Map<string, Certificate>();
  return (der) => {
    if (der.length > MAX_BYTES) return read(der);
    const key = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('latin1');
    const known = kept.get(key);
    if (known !== undefined) {
      // Used last, so let go last: what strangers show does not stay for long among what everybody shows.
      kept.delete(key);
      kept.set(key, known);
      return known;
    }
    const certificate = read(der);
    if (kept.size >= MAX_KEPT) kept.delete(kept.keys().next().value ?? '');
    kept.set(key, certificate);
    return certificate;
  };
}
