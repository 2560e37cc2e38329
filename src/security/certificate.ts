/**
 * Reads the fields of a certificate that decide about trust, from its DER. node:crypto verifies signatures and reads
 * dates, but returns names as strings that would have to be parsed, and neither key usage nor path length. Sources: RFC
 * 5280 section 4.2; https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md
 */
import { X509Certificate } from 'node:crypto';
import {
  childrenOf,
  contentOf,
  elementsOf,
  isContext,
  isUniversal,
  type Node,
  readAsn1,
  readOid,
} from '../asn1/index.ts';
import { CtlError } from '../core/errors.ts';
import { readPem } from '../core/tls/pem.ts';

export interface Certificate {
  readonly x509: X509Certificate;
  readonly ca: boolean;
  /** The maximum number of intermediates below this CA. */
  readonly pathLength: number;
  /** Undefined when the certificate does not restrict it. */
  readonly keyUsage: { readonly digitalSignature: boolean; readonly keyCertSign: boolean } | undefined;
  readonly clientAuth: boolean;
  /** URIs of the subject alternative name. */
  readonly uris: readonly string[];
  /** The subject key identifier. */
  readonly keyIdentifier: Buffer | undefined;
  /** True when it has a critical extension that is not understood: it must be rejected then (RFC 5280 section 4.2). */
  readonly restricted: boolean;
  /** Epoch ms. */
  readonly notBefore: number;
  readonly notAfter: number;
}

const OID = {
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  certificatePolicies: '2.5.29.32',
  extendedKeyUsage: '2.5.29.37',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const;

/** Context tag of TBSCertificate: its extensions. */
const EXTENSIONS = 3;
/** Context tag of GeneralName: a URI. */
const NAME_URI = 6;

/** Bits of the first byte of a key usage: bit 0 is the highest. */
const DIGITAL_SIGNATURE = 0x80;
const KEY_CERT_SIGN = 0x04;

type Mutable = { -readonly [K in keyof Certificate]: Certificate[K] };

/** Whether a BOOLEAN is true. Throws CtlError invalid_argument for one that is not of one byte. */
function isTrue(node: Node): boolean {
  const content = contentOf(node);
  if (content.length !== 1) throw new CtlError('invalid_argument', 'the certificate has a malformed BOOLEAN');
  return content[0] !== 0;
}

function readBasicConstraints(into: Mutable, value: Node): void {
  for (const node of elementsOf(value)) {
    const content = contentOf(node);
    if (isUniversal(node, 'BOOLEAN')) into.ca = isTrue(node);
    else if (isUniversal(node, 'INTEGER')) into.pathLength = content.length === 1 ? (content[0] ?? 0) : 255;
  }
}

/** A BIT STRING of named bits may end within a byte; its first byte says how many bits are unused. */
function readKeyUsage(into: Mutable, value: Node): void {
  const first = isUniversal(value, 'BITSTRING') ? (contentOf(value)[1] ?? 0) : 0;
  into.keyUsage = {
    digitalSignature: (first & DIGITAL_SIGNATURE) !== 0,
    keyCertSign: (first & KEY_CERT_SIGN) !== 0,
  };
}

function readExtension(into: Mutable, id: string, parts: readonly Node[]): void {
  const critical = parts.length === 3 && isUniversal(parts[1], 'BOOLEAN') && isTrue(parts[1]);
  const value = (): Node => readAsn1(contentOf(parts.at(-1)));
  if (id === OID.basicConstraints) readBasicConstraints(into, value());
  else if (id === OID.keyUsage) readKeyUsage(into, value());
  else if (id === OID.subjectKeyIdentifier) into.keyIdentifier = contentOf(value());
  else if (id === OID.extendedKeyUsage) {
    into.clientAuth = elementsOf(value()).some((usage) => readOid(usage) === OID.clientAuth);
  } else if (id === OID.subjectAltName) {
    const names = elementsOf(value()).filter((name) => isContext(name, NAME_URI));
    into.uris = [...into.uris, ...names.map((name) => contentOf(name).toString('latin1'))];
  } else if (id === OID.nameConstraints) into.restricted = true;
  // Certificate policies only restrict verifiers that require one, which this one does not.
  else if (critical && id !== OID.certificatePolicies) into.restricted = true;
}

/** RFC 5280 section 4.2 allows one extension of each kind; a second one would also add to the cost of a certificate. */
function readExtensions(into: Mutable, extensions: readonly Node[]): void {
  const seen = new Set<string>();
  for (const extension of extensions) {
    const parts = elementsOf(extension);
    const id = readOid(parts[0]);
    if (seen.has(id)) throw new CtlError('invalid_argument', `the certificate has the extension ${id} twice`);
    seen.add(id);
    readExtension(into, id, parts);
  }
}

/** Reads a certificate. Throws CtlError invalid_argument if it is not a certificate. */
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
      keyIdentifier: undefined,
      restricted: false,
      notBefore: x509.validFromDate.getTime(),
      notAfter: x509.validToDate.getTime(),
    };
    const [body] = childrenOf(readAsn1(Buffer.from(x509.raw)));
    const extensions = childrenOf(body).find((field) => isContext(field, EXTENSIONS));
    if (extensions === undefined) return certificate;
    const [list] = childrenOf(extensions);
    readExtensions(certificate, elementsOf(list));
    return certificate;
  } catch (error) {
    throw new CtlError('invalid_argument', 'not a certificate', {}, error);
  }
}

/**
 * The certificates of a PEM string. Throws CtlError invalid_argument when there is none, or one that cannot be read.
 */
export function readPemCertificates(pem: string): Certificate[] {
  const blocks = readPem(pem, 'CERTIFICATE');
  if (blocks.length === 0) throw new CtlError('invalid_argument', 'holds no certificate in PEM form');
  return blocks.map(readCertificate);
}
