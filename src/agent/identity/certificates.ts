/** Checks certificates from the authority or from files before they replace working ones. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { CtlError } from '../../core/errors.ts';
import { pemBlocks } from '../../core/tls/pem.ts';
import type { WorkloadSecrets } from '../types.ts';

/** Larger than any chain or trust bundle. */
const MAX_CERTIFICATES = 1_000;

/** The certificates in a PEM string, each with a line break at its end. */
export function splitPem(text: string): string[] {
  return pemBlocks(text, 'CERTIFICATE');
}

/**
 * Parses the certificates of PEM strings. Throws CtlError invalid_argument (naming `what`) when there is none or one is
 * unreadable.
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

/** The roots as one PEM string without duplicates, in order. Throws CtlError as `readCertificates` does. */
export function rootsText(texts: readonly string[], what: string): string {
  return [...new Set(readCertificates(texts, what).map(pemOf))].join('');
}

/**
 * Combines key, chain and roots into secrets. A self-signed certificate at the chain's end is the root: it is not
 * presented to peers, and it is trusted when no `roots` are given. Throws CtlError invalid_argument when they do not
 * belong together or have expired.
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
  if (expiresAt <= now) throw new CtlError('invalid_argument', `the certificate expired at ${leaf.validTo}`);
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

/** Throws CtlError invalid_argument when the key does not belong to the certificate. */
export function checkKey(leaf: X509Certificate, key: string): void {
  let matches: boolean;
  try {
    matches = leaf.checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw new CtlError('invalid_argument', 'the private key cannot be read', {}, error);
  }
  if (!matches) throw new CtlError('invalid_argument', 'the key does not match the certificate');
}

function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
}

function pemOf(certificate: X509Certificate): string {
  return certificate.toString();
}
