/** Creates a self-signed root: an RSA key and its certificate. */
import { createPrivateKey, generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import { encodePem } from '../../core/tls/pem.ts';
import { authorityName, keyIdentifier, rootExtensions, signingKey, writeCertificate } from './certificate.ts';
import { readKeyBits } from './certificate-facts.ts';
import { BACKDATE_MS } from './signer.ts';

export interface NewRootOptions {
  readonly trustDomain: string;
  readonly rsaBits: number;
  /** May be Infinity. */
  readonly lifetimeSeconds: number;
  /** Epoch ms. */
  readonly now: number;
  readonly randomBytes: (size: number) => Buffer;
}

/** PEM. */
export interface Root {
  readonly key: string;
  readonly certificate: string;
}

/** The end of a certificate that never expires (RFC 5280 section 4.1.2.5). */
const END_OF_TIME = Date.UTC(9999, 11, 31, 23, 59, 59);

/** Creates the key outside of the main thread (in libuv's threads): RSA of 4096 bits takes seconds. */
export async function createRoot({
  trustDomain,
  rsaBits,
  lifetimeSeconds,
  now,
  randomBytes,
}: NewRootOptions): Promise<Root> {
  const { publicKey, privateKey: key } = await promisify(generateKeyPair)('rsa', {
    modulusLength: rsaBits,
    publicKeyEncoding: { format: 'der', type: 'spki' },
    privateKeyEncoding: { format: 'pem', type: 'pkcs8' },
  });
  const keyBits = readKeyBits(publicKey);
  // There are two roots during a rotation: different names keep a verifier from trying the wrong one.
  const name = authorityName(trustDomain, `mesh root ${keyIdentifier(keyBits).toString('hex', 0, 4)}`);
  const fields = {
    serial: randomBytes(16),
    issuer: name,
    subject: name,
    notBefore: now - BACKDATE_MS,
    notAfter: Math.min(now + lifetimeSeconds * 1000, END_OF_TIME),
    publicKey,
    extensions: rootExtensions(keyBits),
  };
  const der = writeCertificate(fields, signingKey(createPrivateKey(key)));
  return { key, certificate: encodePem('CERTIFICATE', der) };
}
