/**
 * What a certificate says, read from its DER: node:crypto verifies signatures and reads dates, but shows names as text
 * that has to be taken apart again, and neither key usage nor path length. Sources: RFC 5280 section 4.2;
 * https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md
 */
import { X509Certificate } from 'node:crypto';
import { CtlError } from '../core/errors.ts';
import { derInside, derValues, TAG, type Tlv } from './der.ts';

export interface Certificate {
  readonly x509: X509Certificate;
  readonly ca: boolean;
  /** How many intermediates may follow below this CA. */
  readonly pathLength: number;
  /** Undefined: not restricted. */
  readonly keyUsage: { readonly digitalSignature: boolean; readonly keyCertSign: boolean } | undefined;
  readonly clientAuth: boolean;
  /** URIs of the subject alternative name. */
  readonly uris: readonly string[];
  /**
   * True when it has a restriction that is not understood here: then it may not be relied upon (RFC 5280 section 4.2).
   */
  readonly restricted: boolean;
  /** Epoch ms. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Content bytes of object identifiers, in hex. */
const OID = {
  keyUsage: '551d0f',
  subjectAltName: '551d11',
  basicConstraints: '551d13',
  nameConstraints: '551d1e',
  certificatePolicies: '551d20',
  extendedKeyUsage: '551d25',
  clientAuth: '2b06010505070302',
} as const;

/** Context tag [3] of TBSCertificate: its extensions. */
const EXTENSIONS = 0xa3;
/** Context tag [6] of GeneralName: a URI. */
const NAME_URI = 0x86;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

type Mutable = { -readonly [K in keyof Certificate]: Certificate[K] };

function readBasicConstraints(into: Mutable, value: Uint8Array): void {
  for (const { tag, content } of derInside(value, TAG.sequence)) {
    if (tag === TAG.boolean) into.ca = content[0] !== 0;
    else if (tag === TAG.integer) into.pathLength = content.length === 1 ? (content[0] ?? 0) : 255;
  }
}

/** BIT STRING: unused bits, then bits from the highest on; 0 is digitalSignature, 5 keyCertSign. */
function readKeyUsage(into: Mutable, value: Uint8Array): void {
  const [bits] = derValues(value);
  const first = bits?.tag === TAG.bitString ? (bits.content[1] ?? 0) : 0;
  into.keyUsage = { digitalSignature: (first & 0x80) !== 0, keyCertSign: (first & 0x04) !== 0 };
}

function readExtension(into: Mutable, parts: readonly Tlv[]): void {
  const id = parts[0]?.tag === TAG.oid ? hex(parts[0].content) : '';
  const critical = parts.length === 3 && parts[1]?.tag === TAG.boolean && parts[1].content[0] !== 0;
  const value = parts.at(-1)?.content ?? new Uint8Array();
  if (id === OID.basicConstraints) readBasicConstraints(into, value);
  else if (id === OID.keyUsage) readKeyUsage(into, value);
  else if (id === OID.extendedKeyUsage) {
    into.clientAuth = derInside(value, TAG.sequence).some(({ content }) => hex(content) === OID.clientAuth);
  } else if (id === OID.subjectAltName) {
    const names = derInside(value, TAG.sequence).filter(({ tag }) => tag === NAME_URI);
    into.uris = [...into.uris, ...names.map(({ content }) => Buffer.from(content).toString('latin1'))];
  } else if (id === OID.nameConstraints) into.restricted = true;
  // Policies restrict only who asks for one, and nobody here does.
  else if (critical && id !== OID.certificatePolicies) into.restricted = true;
}

/** Reads a certificate. Throws CtlError invalid_argument for what is none. */
export function readCertificate(source: Uint8Array | X509Certificate): Certificate {
  try {
    const x509 = source instanceof X509Certificate ? source : new X509Certificate(source);
    const certificate: Mutable = {
      x509,
      ca: false,
      pathLength: Number.POSITIVE_INFINITY,
      keyUsage: undefined,
      clientAuth: false,
      uris: [],
      restricted: false,
      notBefore: x509.validFromDate.getTime(),
      notAfter: x509.validToDate.getTime(),
    };
    const tbs = derInside(x509.raw, TAG.sequence)[0];
    const extensions = derValues(tbs?.content ?? new Uint8Array()).find(({ tag }) => tag === EXTENSIONS);
    if (extensions === undefined) return certificate;
    for (const { content } of derInside(extensions.content, TAG.sequence))
      readExtension(certificate, derValues(content));
    return certificate;
  } catch (error) {
    throw new CtlError('invalid_argument', 'not a certificate', {}, error);
  }
}

const PEM = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** The certificates of a PEM text. Throws CtlError invalid_argument when there is none, or one that cannot be read. */
export function readPemCertificates(pem: string): Certificate[] {
  const blocks = pem.match(PEM) ?? [];
  if (blocks.length === 0) throw new CtlError('invalid_argument', 'holds no certificate in PEM form');
  return blocks.map((block) => readCertificate(Buffer.from(block)));
}
