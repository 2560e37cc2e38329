/** Test support: a key server's certificate. */
import { ecKey, makeCa, makeLeaf, pemOf } from '../../testing/credentials.ts';

/** An authority and a certificate of it for a host, PEM. Valid by the machine's clock. */
export function pki(host: string): { readonly ca: string; readonly cert: string; readonly key: string } {
  const [notBefore, notAfter] = [Date.now() - 60_000, Date.now() + 3_600_000];
  const ca = makeCa({ name: 'key servers', notBefore, notAfter });
  const keys = ecKey('P-256');
  const leaf = makeLeaf({ issuer: ca, keys, uris: [], dnsNames: [host], notBefore, notAfter });
  return {
    ca: ca.certificate,
    cert: pemOf(leaf),
    key: String(keys.privateKey.export({ type: 'pkcs8', format: 'pem' })),
  };
}
