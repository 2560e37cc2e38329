/**
 * Reads certificate signing requests (PKCS #10, RFC 2986) of callers whose identity is known by other means: of a request only the
 * public key counts, and the signature as proof of its private half. Subject, extensions and attributes are never looked at. Every
 * refusal is an Error of one line, for the caller to read.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { childrenOf, contentOf, isUniversal, type Node, readAsn1, readBits, readOid } from './asn1.ts';
import type { SubjectKey } from './certificate.ts';
import { sliceDer } from './der.ts';
import { countPemBlocks, readPem } from './pem.ts';

/** Characters of PEM. A request with an RSA key of 4096 bits and a few names has 2,000. */
export const MAX_CSR_CHARS = 16 * 1024;

const LABELS = ['CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST'];

const RSA = '1.2.840.113549.1.1.1';
const EC = '1.2.840.10045.2.1';

/** Bytes of an uncompressed point of each curve that is accepted (SEC 1 section 2.3.3). */
const POINT_BYTES: Readonly<Record<string, number>> = {
  '1.2.840.10045.3.1.7': 65,
  '1.3.132.0.34': 97,
};

/** Signature algorithms that are accepted, by object identifier (RFC 8017 appendix A.2, RFC 5758 section 3.2). */
const SIGNATURES: Readonly<Record<string, { readonly key: string; readonly hash: string }>> = {
  '1.2.840.113549.1.1.11': { key: RSA, hash: 'sha256' },
  '1.2.840.113549.1.1.12': { key: RSA, hash: 'sha384' },
  '1.2.840.113549.1.1.13': { key: RSA, hash: 'sha512' },
  '1.2.840.10045.4.3.2': { key: EC, hash: 'sha256' },
  '1.2.840.10045.4.3.3': { key: EC, hash: 'sha384' },
  '1.2.840.10045.4.3.4': { key: EC, hash: 'sha512' },
};

const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 4096;

/** FIPS 186-5 section 5.4 wants more than 2^16; above 2^32 an exponent only costs whoever verifies. */
const MIN_EXPONENT = 65_537n;
const MAX_EXPONENT = 2n ** 32n;

const ACCEPTED = 'RSA of 2048 to 4096 bits, ECDSA P-256 or P-384';

/** Throws an Error of one line when the request cannot be read, its key is not accepted, or its signature does not hold. */
export function readCsr(pem: string): SubjectKey {
  const der = derOf(pem);
  const [info, algorithm, signature] = childrenOf(readAsn1(der));
  const [version, , keyInfo] = childrenOf(info);
  if (!isUniversal(version, 'INTEGER') || !contentOf(version).equals(Buffer.of(0)))
    throw new Error('the certificate request is of an unknown version');
  const publicKey = sliceDer(der, [0, 2]);
  const key = readKey(keyInfo, publicKey);
  const { key: wanted, hash } = signatureOf(algorithm);
  if (wanted !== key.algorithm)
    throw new Error('the certificate request is signed with another kind of key than its own');
  if (!verify(hash, sliceDer(der, [0]), key.key, readBits(signature)))
    throw new Error('the signature of the certificate request does not hold');
  return { algorithm: key.algorithm === EC ? 'ec' : 'rsa', publicKey, keyBits: key.bits };
}

function derOf(pem: string): Buffer {
  if (pem.length > MAX_CSR_CHARS) throw new Error(`the certificate request is longer than ${MAX_CSR_CHARS} characters`);
  const [der, ...more] = readPem(pem, LABELS);
  if (der === undefined) throw new Error('there is no PEM-encoded certificate request');
  if (more.length > 0 || countPemBlocks(pem) !== 1) throw new Error('there is more than one certificate request');
  return der;
}

function signatureOf(algorithm: Node | undefined): { readonly key: string; readonly hash: string } {
  const [name, parameters] = childrenOf(algorithm);
  const found = SIGNATURES[readOid(name)];
  if (found === undefined) throw new Error('the certificate request is signed by an algorithm that is not accepted');
  if (parameters !== undefined && !isUniversal(parameters, 'NULL'))
    throw new Error('the signature algorithm of the certificate request has parameters');
  return found;
}

interface RequestKey {
  readonly algorithm: string;
  readonly key: KeyObject;
  readonly bits: Buffer;
}

/** The algorithm is checked first: explicit curves and huge numbers are nothing to give to a library. */
function readKey(keyInfo: Node | undefined, der: Buffer): RequestKey {
  const [algorithm, keyNode] = childrenOf(keyInfo);
  const [name, parameters] = childrenOf(algorithm);
  const kind = readOid(name);
  const bits = readBits(keyNode);
  if (kind === EC) {
    if (!isUniversal(parameters, 'OID') || bits.length !== POINT_BYTES[readOid(parameters)] || bits[0] !== 4)
      throw new Error(`the key of the certificate request is not accepted: ${ACCEPTED}`);
    return { algorithm: kind, key: importKey(der), bits };
  }
  if (kind !== RSA || !isUniversal(parameters, 'NULL'))
    throw new Error(`the key of the certificate request is not accepted: ${ACCEPTED}`);
  const key = importKey(der);
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
  if (modulusLength < MIN_RSA_BITS || modulusLength > MAX_RSA_BITS)
    throw new Error(`the key of the certificate request has ${modulusLength} bits: ${ACCEPTED}`);
  if (publicExponent < MIN_EXPONENT || publicExponent > MAX_EXPONENT || publicExponent % 2n === 0n)
    throw new Error('the key of the certificate request has a public exponent that is not accepted');
  return { algorithm: kind, key, bits };
}

function importKey(der: Buffer): KeyObject {
  try {
    return createPublicKey({ key: der, format: 'der', type: 'spki' });
  } catch (error) {
    throw new Error('the key of the certificate request cannot be read', { cause: error });
  }
}
