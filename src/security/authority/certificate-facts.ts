/**
 * What the authority has to know of a CA certificate: for signing beneath it, and for checking a chain of plugged ones.
 */
import { X509Certificate } from 'node:crypto';
import { sliceDer } from '../der.ts';
import { childrenOf, contentOf, isContext, isUniversal, type Node, readAsn1, readBits, readOid } from './asn1.ts';

export interface CertificateFacts {
  readonly x509: X509Certificate;
  /** The subject's DER: the issuer of what it signs, byte by byte (RFC 5280 section 4.1.2.4). */
  readonly subject: Buffer;
  readonly keyIdentifier: Buffer | undefined;
  /** Whether basicConstraints and keyUsage let it sign certificates. */
  readonly isAuthority: boolean;
  /** How many authorities may stand beneath it; Infinity without a limit. */
  readonly pathLength: number;
  /** Epoch milliseconds. */
  readonly notBefore: number;
  readonly notAfter: number;
}

const SUBJECT_KEY_IDENTIFIER = '2.5.29.14';
const KEY_USAGE = '2.5.29.15';
const BASIC_CONSTRAINTS = '2.5.29.19';

/** keyCertSign, bit 5. */
const CERT_SIGN = 0x04;

/** Reads a PEM certificate; throws an Error of one line when it cannot. */
export function certificateFacts(pem: string): CertificateFacts {
  const x509 = new X509Certificate(pem);
  const der = Buffer.from(x509.raw);
  const [body] = childrenOf(readAsn1(der));
  const fields = childrenOf(body);
  const first = isContext(fields[0], 0) ? 1 : 0;
  const extensions = extensionsOf(fields);
  const keyId = extensions.get(SUBJECT_KEY_IDENTIFIER);
  const usage = extensions.get(KEY_USAGE);
  return {
    x509,
    subject: sliceDer(der, [0, first + 4]),
    keyIdentifier: keyId && contentOf(keyId),
    isAuthority: x509.ca && (usage === undefined || maySign(usage)),
    pathLength: pathLength(extensions.get(BASIC_CONSTRAINTS)),
    notBefore: x509.validFromDate.getTime(),
    notAfter: x509.validToDate.getTime(),
  };
}

/** Values of the extensions by object identifier. */
function extensionsOf(fields: readonly Node[]): ReadonlyMap<string, Node> {
  const holder = fields.find((field) => isContext(field, 3));
  if (holder === undefined) return new Map();
  const [list] = childrenOf(holder);
  return new Map(
    childrenOf(list).map((each) => {
      const parts = childrenOf(each);
      return [readOid(parts[0]), readAsn1(contentOf(parts.at(-1)))];
    }),
  );
}

/** A BIT STRING of named bits may end within a byte: the first bits stand where they stand all the same. */
function maySign(usage: Node): boolean {
  const content = contentOf(usage);
  return ((content[1] ?? 0) & CERT_SIGN) !== 0;
}

function pathLength(constraints: Node | undefined): number {
  const last = constraints && childrenOf(constraints).at(-1);
  if (!isUniversal(last, 'INTEGER')) return Number.POSITIVE_INFINITY;
  return contentOf(last).readUIntBE(0, Math.min(contentOf(last).length, 6));
}

/** The bits of a key in its SubjectPublicKeyInfo. */
export function keyBitsOf(publicKey: Buffer): Buffer {
  return readBits(childrenOf(readAsn1(publicKey))[1]);
}
