/**
 * Reads certificate signing requests (PKCS #10, RFC 2986) of callers that are already authenticated. Only the public
 * key of a request is used, and its signature as proof of the private key. Subject, extensions and attributes are
 * ignored. The message of a refusal is one line for the caller.
 */
import { verify } from 'node:crypto';
import {
  childrenOf,
  contentOf,
  isUniversal,
  type Node,
  readAsn1,
  readBits,
  readOid,
  sliceDer,
} from '../../asn1/index.ts';
import { CtlError } from '../../core/errors.ts';
import { countPemBlocks, readPem } from '../../core/tls/pem.ts';
import type { SubjectKey } from './certificate.ts';

/** The maximum length of the PEM data. A request with an RSA key of 4096 bits and a few names has 2,000 characters. */
export const MAX_CSR_CHARS = 16 * 1024;

const LABELS = ['CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST'] as const;

const RSA = '1.2.840.113549.1.1.1';
const EC = '1.2.840.10045.2.1';

/** Length of an uncompressed point of each accepted curve (SEC 1 section 2.3.3). */
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

/** FIPS 186-5 section 5.4 requires more than 2^16; an exponent above 2^32 only makes verification slow. */
const MIN_EXPONENT = 65_537;
const MAX_EXPONENT = 2 ** 32;

const ACCEPTED = 'RSA of 2048 to 4096 bits, ECDSA P-256 or P-384';

function refused(message: string, cause?: unknown): CtlError {
  return new CtlError('invalid_argument', message, {}, cause);
}

/**
 * Throws CtlError invalid_argument when the request cannot be read, its key is not accepted, or its signature is not
 * valid.
 */
export function readCsr(pem: string): SubjectKey {
  const der = decodePem(pem);
  const [info, algorithm, signature] = childrenOf(readAsn1(der));
  const [version, , keyInfo] = childrenOf(info);
  if (!isUniversal(version, 'INTEGER') || !contentOf(version).equals(Buffer.of(0)))
    throw refused('the certificate request is of an unknown version');
  const { kind, bits } = readKey(keyInfo);
  const { key: wanted, hash } = parseSignatureAlgorithm(algorithm);
  if (wanted !== kind)
    throw refused('the certificate request is signed with a different kind of key than the one it contains');
  const publicKey = sliceDer(der, [0, 2]);
  if (!signatureHolds(hash, sliceDer(der, [0]), publicKey, readBits(signature)))
    throw refused('the signature of the certificate request is not valid');
  return { algorithm: kind === EC ? 'ec' : 'rsa', publicKey, keyBits: bits };
}

/** The key is passed as DER: creating a KeyObject first takes a third longer. */
function signatureHolds(hash: string, data: Buffer, publicKey: Buffer, signature: Buffer): boolean {
  try {
    return verify(hash, data, { key: publicKey, format: 'der', type: 'spki' }, signature);
  } catch (error) {
    throw refused('the key of the certificate request cannot be read', error);
  }
}

function decodePem(pem: string): Buffer {
  if (pem.length > MAX_CSR_CHARS) throw refused(`the certificate request is longer than ${MAX_CSR_CHARS} characters`);
  const [der, ...more] = readPem(pem, ...LABELS);
  if (der === undefined) throw refused('there is no PEM-encoded certificate request');
  if (more.length > 0 || countPemBlocks(pem) !== 1) throw refused('there is more than one certificate request');
  return der;
}

function parseSignatureAlgorithm(algorithm: Node | undefined): { readonly key: string; readonly hash: string } {
  const [name, parameters] = childrenOf(algorithm);
  const found = SIGNATURES[readOid(name)];
  if (found === undefined) throw refused('the certificate request is signed by an algorithm that is not accepted');
  if (parameters !== undefined && !isUniversal(parameters, 'NULL'))
    throw refused('the signature algorithm of the certificate request has parameters');
  return found;
}

interface RequestKey {
  readonly kind: string;
  readonly bits: Buffer;
}

/** Checks the key before any library parses it: explicit curves and huge numbers must not reach one. */
function readKey(keyInfo: Node | undefined): RequestKey {
  const [algorithm, keyNode] = childrenOf(keyInfo);
  const [name, parameters] = childrenOf(algorithm);
  const kind = readOid(name);
  const bits = readBits(keyNode);
  if (kind === EC && isUniversal(parameters, 'OID')) {
    // 4 marks an uncompressed point.
    if (bits.length === POINT_BYTES[readOid(parameters)] && bits[0] === 4) return { kind, bits };
  } else if (kind === RSA && isUniversal(parameters, 'NULL')) {
    checkRsa(bits);
    return { kind, bits };
  }
  throw refused(`the key of the certificate request is not accepted: ${ACCEPTED}`);
}

/** RFC 8017 appendix A.1.1: a sequence of modulus and public exponent. */
function checkRsa(bits: Buffer): void {
  const [modulus, exponent] = childrenOf(readAsn1(bits)).map(positive);
  const size = bitLength(modulus);
  if (size < MIN_RSA_BITS || size > MAX_RSA_BITS)
    throw refused(`the key of the certificate request has ${size} bits: ${ACCEPTED}`);
  const value = exponent !== undefined && exponent.length <= 5 ? exponent.readUIntBE(0, exponent.length) : 0;
  if (value < MIN_EXPONENT || value > MAX_EXPONENT || value % 2 === 0)
    throw refused('the key of the certificate request has a public exponent that is not accepted');
}

/** The bytes of a positive INTEGER without the leading zero of its sign. */
function positive(node: Node): Buffer {
  const content = contentOf(node);
  const first = content[0] ?? 0x80;
  if (!isUniversal(node, 'INTEGER') || first >= 0x80)
    throw refused('the RSA key of the certificate request has a modulus or exponent that is not a positive integer');
  return first === 0 && content.length > 1 ? content.subarray(1) : content;
}

function bitLength(bytes: Buffer | undefined): number {
  const [first = 0] = bytes ?? [];
  return bytes === undefined ? 0 : bytes.length * 8 - Math.clz32(first) + 24;
}
