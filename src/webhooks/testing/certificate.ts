/** Certificates of servers for tests. */
import { DAY_MS, ecKey, makeCa, makeLeaf, pemOf } from '../../security/testing/credentials.ts';

const validity = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
const ca = makeCa({ name: 'ca', ...validity });

export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
  /** The CA by which clients verify it, PEM. */
  readonly ca: string;
}

export function testCertificate(dnsName: string): TestCertificate {
  const keys = ecKey('P-256');
  const key = keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return { key, cert: pemOf(makeLeaf({ issuer: ca, keys, dnsNames: [dnsName], ...validity })), ca: ca.certificate };
}
