/**
 * Reads the issuers' certificates that clients present with their own, with a cache. Thousands of workloads present the
 * same few, and reading one and its key takes as long as verifying a signature. The cache key is the certificate's
 * bytes. Only the parsed certificate is cached: whether it is valid now, may sign, and leads to a root is checked each
 * time.
 */
import { type Certificate, readCertificate } from './certificate.ts';

/** A mesh has one or two intermediates, and twice as many while they are replaced; each entry takes some 10 kB. */
const MAX_KEPT = 64;

/** Larger certificates are not cached: an authority's certificate has one or two kilobytes. */
const MAX_BYTES = 8 * 1024;

/** Like `readCertificate`: throws when the bytes are not a certificate, and does not cache that. */
export type CertificateReader = (der: Uint8Array) => Certificate;

export function createAuthorityReader(read: CertificateReader = readCertificate): CertificateReader {
  const kept = new Map<string, Certificate>();
  return (der) => {
    if (der.length > MAX_BYTES) return read(der);
    const key = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('latin1');
    const known = kept.get(key);
    if (known !== undefined) {
      // The least recently used entry is evicted first, so that certificates of unknown clients do not displace common
      // ones for long.
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
