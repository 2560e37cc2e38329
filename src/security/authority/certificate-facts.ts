/**
 * Reads the fields of a CA certificate that the authority needs to sign with its key and to check a plugged-in chain.
 */
import { X509Certificate } from 'node:crypto';
import { childrenOf, isContext, readAsn1, readBits, sliceDer } from '../../asn1/index.ts';
import { readCertificate } from '../certificate.ts';

export interface CertificateFacts {
  readonly x509: X509Certificate;
  /**
   * The subject's DER: the issuer field of the certificates that it signs, byte for byte (RFC 5280 section 4.1.2.4).
   */
  readonly subject: Buffer;
  readonly keyIdentifier: Buffer | undefined;
  /** Whether basicConstraints and keyUsage let it sign certificates. */
  readonly isAuthority: boolean;
  /** The maximum number of authorities below it; Infinity without a limit. */
  readonly pathLength: number;
  /** Epoch milliseconds. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Reads a PEM certificate. Throws an error with a one-line message when it cannot. */
export function certificateFacts(pem: string): CertificateFacts {
  const x509 = new X509Certificate(pem);
  const { ca, keyUsage, keyIdentifier, pathLength, notBefore, notAfter } = readCertificate(x509);
  const der = Buffer.from(x509.raw);
  // Version 1 has no version field before the others.
  const [body] = childrenOf(readAsn1(der));
  const first = isContext(childrenOf(body)[0], 0) ? 1 : 0;
  return {
    x509,
    subject: sliceDer(der, [0, first + 4]),
    keyIdentifier,
    isAuthority: ca && keyUsage?.keyCertSign !== false,
    pathLength,
    notBefore,
    notAfter,
  };
}

/** The bits of a key in its SubjectPublicKeyInfo. */
export function readKeyBits(publicKey: Buffer): Buffer {
  return readBits(childrenOf(readAsn1(publicKey))[1]);
}
