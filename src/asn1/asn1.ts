/** Reads and writes ASN.1 elements with node-forge, which has bytes in strings; this file converts them to Buffers. */
import asn1, { type Node } from 'node-forge/lib/asn1.js';
import { CtlError } from '../core/errors.ts';
import { checkDer, splitDer } from './der.ts';

export type { Node };

const { Class, Type } = asn1;

/** The whole first byte of a SEQUENCE: constructed, 16. */
const SEQUENCE_TAG = 0x30;

/** Parses DER under limits of depth and size; does not parse inside bit strings. Throws CtlError invalid_argument. */
export function readAsn1(der: Buffer): Node {
  checkDer(der);
  return asn1.fromDer(der.toString('latin1'), { strict: true, decodeBitStrings: false });
}

/** The DER of an element. */
export function encodeDer(node: Node): Buffer {
  return Buffer.from(asn1.toDer(node).getBytes(), 'latin1');
}

/** Children of a SEQUENCE, SET or context tag. Throws CtlError invalid_argument for a primitive element. */
export function childrenOf(node: Node | undefined): readonly Node[] {
  if (node === undefined || typeof node.value === 'string')
    throw new CtlError('invalid_argument', 'the ASN.1 has an unexpected structure');
  return node.value;
}

/** Elements of a SEQUENCE. Throws CtlError invalid_argument for anything else. */
export function elementsOf(node: Node | undefined): readonly Node[] {
  if (!isUniversal(node, 'SEQUENCE')) throw new CtlError('invalid_argument', 'the ASN.1 has an unexpected structure');
  return childrenOf(node);
}

/** Content of a primitive element. Throws CtlError invalid_argument for a constructed one. */
export function contentOf(node: Node | undefined): Buffer {
  if (node === undefined || typeof node.value !== 'string')
    throw new CtlError('invalid_argument', 'the ASN.1 has an unexpected structure');
  return Buffer.from(node.value, 'latin1');
}

export function isUniversal(node: Node | undefined, type: keyof typeof Type): node is Node {
  return node !== undefined && node.tagClass === Class.UNIVERSAL && node.type === Type[type];
}

export function isContext(node: Node | undefined, tag: number): node is Node {
  return node !== undefined && node.tagClass === Class.CONTEXT_SPECIFIC && node.type === tag;
}

/** Longer than any object identifier in use; it bounds the cost of large numbers. */
const MAX_OID_BYTES = 128;

/**
 * The dotted name of an OBJECT IDENTIFIER. Throws CtlError invalid_argument for anything else. node-forge accepts what
 * X.690 section 8.19 forbids, padding and a truncated last number, so two encodings would have the same name. It also
 * refuses numbers of more than 53 bits, which names derived from UUIDs have (`2.25.…`).
 */
export function readOid(node: Node | undefined): string {
  if (!isUniversal(node, 'OID')) throw new CtlError('invalid_argument', 'the ASN.1 lacks an object identifier');
  const content = contentOf(node);
  if (content.length === 0 || content.length > MAX_OID_BYTES) throw malformedOid();
  const numbers: bigint[] = [];
  let value = 0n;
  let begins = true;
  for (const byte of content) {
    if (begins && byte === 0x80) throw malformedOid();
    value = (value << 7n) | BigInt(byte & 0x7f);
    begins = byte < 0x80;
    if (!begins) continue;
    numbers.push(value);
    value = 0n;
  }
  if (!begins) throw malformedOid();
  const [first = 0n, ...others] = numbers;
  // The first two numbers share one: 40 times the first, which is at most 2, and the second.
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - 40n * root, ...others].join('.');
}

function malformedOid(): CtlError {
  return new CtlError('invalid_argument', 'the ASN.1 has a malformed object identifier');
}

/** The bits of a BIT STRING of whole bytes. Throws CtlError invalid_argument for anything else. */
export function readBits(node: Node | undefined): Buffer {
  if (!isUniversal(node, 'BITSTRING')) throw new CtlError('invalid_argument', 'the ASN.1 lacks a bit string');
  const content = contentOf(node);
  if (content[0] !== 0) throw new CtlError('invalid_argument', 'the ASN.1 has a bit string that is not of whole bytes');
  return content.subarray(1);
}

function primitive(type: keyof typeof Type, content: string): Node {
  return asn1.create(Class.UNIVERSAL, Type[type], false, content);
}

export function sequence(...children: readonly Node[]): Node {
  return asn1.create(Class.UNIVERSAL, Type.SEQUENCE, true, children);
}

export function setOf(...children: readonly Node[]): Node {
  return asn1.create(Class.UNIVERSAL, Type.SET, true, children);
}

export function oid(name: string): Node {
  return primitive('OID', asn1.oidToDer(name).getBytes());
}

export function boolean(value: boolean): Node {
  return primitive('BOOLEAN', value ? '\xff' : '\0');
}

/** A whole number below 128, as versions and path lengths are. */
export function smallInteger(value: number): Node {
  return primitive('INTEGER', String.fromCharCode(value));
}

/** A positive number of big-endian bytes, the first of them from 1 to 127. */
export function positiveInteger(bytes: Buffer): Node {
  return primitive('INTEGER', bytes.toString('latin1'));
}

export function nullValue(): Node {
  return primitive('NULL', '');
}

export function utf8(text: string): Node {
  return primitive('UTF8', Buffer.from(text, 'utf8').toString('latin1'));
}

export function octets(bytes: Buffer): Node {
  return primitive('OCTETSTRING', bytes.toString('latin1'));
}

/** A BIT STRING whose last `unused` bits are not used. */
export function bits(bytes: Buffer, unused = 0): Node {
  return primitive('BITSTRING', String.fromCharCode(unused) + bytes.toString('latin1'));
}

/** `[tag] EXPLICIT`, also for IMPLICIT constructed types. */
export function context(tag: number, ...children: readonly Node[]): Node {
  return asn1.create(Class.CONTEXT_SPECIFIC, tag, true, children);
}

/** `[tag] IMPLICIT` of a primitive type. */
export function contextBytes(tag: number, bytes: Buffer): Node {
  return asn1.create(Class.CONTEXT_SPECIFIC, tag, false, bytes.toString('latin1'));
}

/** An element that is encoded already: node-forge writes its tag byte as the type, its content as a primitive's. */
export function encoded(der: Buffer): Node {
  const { tag, content } = splitDer(der);
  return asn1.create(Class.UNIVERSAL, tag, false, content.toString('latin1'));
}

/** A SEQUENCE of elements that are encoded already, one after the other. */
export function sequenceOfEncoded(content: Buffer): Node {
  return asn1.create(Class.UNIVERSAL, SEQUENCE_TAG, false, content.toString('latin1'));
}

/** The first time for which RFC 5280 section 4.1.2.5 requires GeneralizedTime. */
const GENERALIZED_FROM = Date.UTC(2050, 0, 1);

/** Epoch milliseconds as a certificate's time, rounded down to seconds. */
export function time(epochMs: number): Node {
  const date = new Date(Math.floor(epochMs / 1000) * 1000);
  return epochMs < GENERALIZED_FROM
    ? primitive('UTCTIME', asn1.dateToUtcTime(date))
    : primitive('GENERALIZEDTIME', asn1.dateToGeneralizedTime(date));
}
