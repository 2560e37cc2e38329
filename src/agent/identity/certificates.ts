/** Certificates as PEM: what came from the authority or from files is looked at before it replaces what works. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { CtlError } from '../../core/errors.ts';
import { pemBlocks } from '../../core/pem.ts';
import type { WorkloadSecrets } from '../types.ts';

/** More than any chain or bundle of roots has; the texts come from elsewhere. */
const MAX_CERTIFICATES = 1_000;

/** The certificates of a text, each ending with a line break. */
export function splitPem(text: string): string[] {
  return pemBlocks(text, 'CERTIFICATE');
}

/**
 * The certificates of texts, read. Throws CtlError invalid_argument (naming `what`) when there is none or one cannot be
 * read.
 */
export function readCertificates(texts: readonly string[], what: string): X509Certificate[] {
  const pems = texts.flatMap(splitPem);
  if (pems.length === 0) throw new CtlError('invalid_argument', `no certificate in ${what}`);
  if (pems.length > MAX_CERTIFICATES) {
    throw new CtlError('invalid_argument', `${pems.length} certificates in ${what}, more than ${MAX_CERTIFICATES}`);
  }
  return pems.map((pem) => {
    try {
      return new X509Certificate(pem);
    } catch (error) {
      throw new CtlError('invalid_argument', `a certificate in ${what} cannot be read`, {}, error);
    }
  });
}

/** Roots as one text: each once, in order. Throws CtlError as `readCertificates` does. */
export function rootsText(texts: readonly string[], what: string): string {
  return [...new Set(readCertificates(texts, what).map(pemOf))].join('');
}

/**
 * Key, chain and roots as secrets. A self-signed certificate at the chain's end is the root, not part of what is shown
 * to peers; it is what is trusted when no `roots` are given. Throws CtlError invalid_argument when they do not belong
 * together or have ended.
 */
export function secretsOf(
  key: string,
  chainTexts: readonly string[],
  roots: string | undefined,
  now: number,
): WorkloadSecrets {
  const chain = readCertificates(chainTexts, 'the chain');
  const [leaf] = chain;
  if (leaf === undefined) throw new CtlError('invalid_argument', 'no certificate in the chain');
  checkKey(leaf, key);
  const expiresAt = Date.parse(leaf.validTo);
  if (expiresAt <= now) throw new CtlError('invalid_argument', `the certificate has expired at ${leaf.validTo}`);
  chain.slice(1).forEach((issuer, index) => {
    const below = chain[index];
    if (below?.checkIssued(issuer) && below.verify(issuer.publicKey)) return;
    throw new CtlError('invalid_argument', `certificate ${index + 2} of the chain did not sign the one before it`);
  });
  const last = chain.at(-1);
  const shown = chain.length > 1 && last !== undefined && isSelfSigned(last) ? chain.slice(0, -1) : chain;
  return {
    certificate: {
      key,
      chain: shown.map(pemOf).join(''),
      notBefore: Date.parse(leaf.validFrom),
      expiresAt,
    },
    roots: roots ?? pemOf(last ?? leaf),
  };
}

/** The leaf's SPIFFE ID; undefined without one. */
export function spiffeIdOf({ certificate }: WorkloadSecrets): string | undefined {
  return /URI:(spiffe:\/\/[^,\s]+)/.exec(new X509Certificate(certificate.chain).subjectAltName ?? '')?.[1];
}

/** Throws CtlError invalid_argument when a key is not that of a certificate. */
export function checkKey(leaf: X509Certificate, key: string): void {
  let matches: boolean;
  try {
    matches = leaf.checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw new CtlError('invalid_argument', 'the private key cannot be read', {}, error);
  }
  if (!matches) throw new CtlError('invalid_argument', 'the key is not that of the certificate');
}

function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
}

function pemOf(certificate: X509Certificate): string {
  return certificate.toString();
}
