/** Writes X.509 certificates (RFC 5280) with the fields and extensions of the mesh's certificates, and signs them. */
import { hash, type KeyObject, sign } from 'node:crypto';
import { isIP } from 'node:net';
import {
  bits,
  boolean,
  context,
  contextBytes,
  encodeDer,
  encoded,
  type Node,
  nullValue,
  octets,
  oid,
  positiveInteger,
  sequence,
  sequenceOfEncoded,
  setOf,
  smallInteger,
  time,
  utf8,
} from '../../asn1/index.ts';
import { CtlError } from '../../core/errors.ts';

export interface SigningKey {
  readonly key: KeyObject;
  readonly hash: string;
  /** AlgorithmIdentifier of its signatures. */
  readonly algorithm: Node;
}

/**
 * The signature algorithm of a key: RSA PKCS #1 with SHA-256, ECDSA with the hash of the curve's size. Throws CtlError
 * invalid_argument for other keys.
 */
export function signingKey(key: KeyObject): SigningKey {
  const { namedCurve } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'rsa')
    return { key, hash: 'sha256', algorithm: sequence(oid('1.2.840.113549.1.1.11'), nullValue()) };
  if (namedCurve === 'prime256v1') return { key, hash: 'sha256', algorithm: sequence(oid('1.2.840.10045.4.3.2')) };
  if (namedCurve === 'secp384r1') return { key, hash: 'sha384', algorithm: sequence(oid('1.2.840.10045.4.3.3')) };
  throw new CtlError('invalid_argument', 'the key is neither RSA nor ECDSA P-256 or P-384');
}

/** The content of a certificate. Times are epoch milliseconds. */
export interface CertificateFields {
  /** 16 random bytes. */
  readonly serial: Buffer;
  readonly issuer: Node;
  readonly subject: Node;
  readonly notBefore: number;
  readonly notAfter: number;
  readonly publicKey: Buffer;
  /** The concatenated DER of the extensions. */
  readonly extensions: Buffer;
}

export function writeCertificate(fields: CertificateFields, signer: SigningKey): Buffer {
  const body = sequence(
    context(0, smallInteger(2)),
    positiveInteger(positiveSerial(fields.serial)),
    signer.algorithm,
    fields.issuer,
    sequence(time(fields.notBefore), time(fields.notAfter)),
    fields.subject,
    encoded(fields.publicKey),
    context(3, sequenceOfEncoded(fields.extensions)),
  );
  const der = encodeDer(body);
  return encodeDer(sequence(encoded(der), signer.algorithm, bits(sign(signer.hash, der, signer.key))));
}

/**
 * RFC 5280 section 4.1.2.2: positive, at most 20 bytes; the first byte from 64 to 127 keeps the number positive and its
 * length fixed.
 */
function positiveSerial(random: Buffer): Buffer {
  const serial = Buffer.from(random);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  return serial;
}

/** Bytes of a key identifier. */
const ID_BYTES = 20;

/** RFC 7093 section 2, method 1: the leftmost 160 bits of the SHA-256 of the key's bits. */
export function keyIdentifier(keyBits: Buffer): Buffer {
  return hash('sha256', keyBits, 'buffer').subarray(0, ID_BYTES);
}

/** An empty name, for certificates with a SAN. */
export const EMPTY_NAME = sequence();

/** Characters that an attribute of a name may have (RFC 5280 appendix A.1, ub-organization-name and ub-common-name). */
const MAX_NAME_CHARS = 64;

/** `O=…, CN=…`. */
export function authorityName(organization: string, commonName: string): Node {
  const part = (type: string, text: string): Node => setOf(sequence(oid(type), utf8(text.slice(0, MAX_NAME_CHARS))));
  return sequence(part('2.5.4.10', organization), part('2.5.4.3', commonName));
}

function extension(name: string, critical: boolean, value: Node): Node {
  const content = octets(encodeDer(value));
  return critical ? sequence(oid(name), boolean(true), content) : sequence(oid(name), content);
}

/** digitalSignature and keyEncipherment (RFC 5280 section 4.2.1.3: bits 0 and 2). */
const RSA_KEY_USAGE = encodeDer(extension('2.5.29.15', true, bits(Buffer.of(0xa0), 5)));
/** digitalSignature alone: an elliptic curve encrypts nothing (RFC 8813 section 3). */
const EC_KEY_USAGE = encodeDer(extension('2.5.29.15', true, bits(Buffer.of(0x80), 7)));
/** keyCertSign and cRLSign: bits 5 and 6. */
const CA_KEY_USAGE = encodeDer(extension('2.5.29.15', true, bits(Buffer.of(0x06), 1)));
const SERVER_AND_CLIENT = encodeDer(
  extension('2.5.29.37', false, sequence(oid('1.3.6.1.5.5.7.3.1'), oid('1.3.6.1.5.5.7.3.2'))),
);
/** cA is FALSE by default, and DER leaves defaults out. */
const NO_CA = encodeDer(extension('2.5.29.19', true, sequence()));
/** A root signs workloads' certificates itself: no intermediates are allowed. */
const ROOT_CA = encodeDer(extension('2.5.29.19', true, sequence(boolean(true), smallInteger(0))));

/** The extension without its last part, the identifier, which has a fixed length. */
const SUBJECT_KEY_IDENTIFIER = encodeDer(extension('2.5.29.14', false, octets(Buffer.alloc(ID_BYTES)))).subarray(
  0,
  -ID_BYTES,
);

/** The extension, DER. It is equal in all certificates of one issuer. */
export function authorityKeyIdentifier(id: Buffer): Buffer {
  return encodeDer(extension('2.5.29.35', false, sequence(contextBytes(0, id))));
}

/** Critical, because the subject is empty (RFC 5280 section 4.2.1.6). */
function subjectAltName(names: readonly Node[]): Buffer {
  return encodeDer(extension('2.5.29.17', true, sequence(...names)));
}

/** A URI of a SAN; must be ASCII, as URIs of spiffeUri are. */
export function uriName(uri: string): Node {
  return contextBytes(6, Buffer.from(uri, 'latin1'));
}

/** A name of a SAN: an IP address if `host` is one, else a DNS name. */
export function hostName(host: string): Node {
  if (isIP(host) === 0) return contextBytes(2, Buffer.from(host, 'latin1'));
  return contextBytes(7, ipBytes(host));
}

function ipBytes(host: string): Buffer {
  if (isIP(host) === 4) return Buffer.from(host.split('.').map(Number));
  // The URL parser writes an IPv6 address in its canonical form: hexadecimal groups and at most one `::`.
  const [head = '', tail] = new URL(`http://[${host}]`).hostname.slice(1, -1).split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [left, right] = [groups(head), groups(tail ?? '')];
  const all = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
  return Buffer.from(all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]));
}

/** The key to be certified. */
export interface SubjectKey {
  readonly algorithm: 'rsa' | 'ec';
  readonly publicKey: Buffer;
  /** The key's bits, for its identifier. */
  readonly keyBits: Buffer;
}

/** The common part of one issuer's certificates, encoded once. */
export interface LeafTemplate {
  readonly rsa: Buffer;
  readonly ec: Buffer;
}

/** @param issuerKey the issuer's key identifier; a plugged-in CA may have none */
export function leafTemplate(issuerKey: Buffer | undefined): LeafTemplate {
  const common = [SERVER_AND_CLIENT, NO_CA, ...(issuerKey === undefined ? [] : [authorityKeyIdentifier(issuerKey)])];
  return {
    rsa: Buffer.concat([RSA_KEY_USAGE, ...common, SUBJECT_KEY_IDENTIFIER]),
    ec: Buffer.concat([EC_KEY_USAGE, ...common, SUBJECT_KEY_IDENTIFIER]),
  };
}

/** Extensions of a workload's or server's certificate. */
export function leafExtensions(
  names: readonly Node[],
  { algorithm, keyBits }: SubjectKey,
  template: LeafTemplate,
): Buffer {
  return Buffer.concat([template[algorithm], keyIdentifier(keyBits), subjectAltName(names)]);
}

/** Extensions of a self-signed root. */
export function rootExtensions(keyBits: Buffer): Buffer {
  const id = keyIdentifier(keyBits);
  return Buffer.concat([CA_KEY_USAGE, ROOT_CA, SUBJECT_KEY_IDENTIFIER, id, authorityKeyIdentifier(id)]);
}
