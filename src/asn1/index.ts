/**
 * Entry point of ASN.1: reading and writing DER with node-forge, under limits, because callers without a proven
 * identity send it.
 */
export {
  bits,
  boolean,
  childrenOf,
  contentOf,
  context,
  contextBytes,
  elementsOf,
  encodeDer,
  encoded,
  isContext,
  isUniversal,
  type Node,
  nullValue,
  octets,
  oid,
  positiveInteger,
  readAsn1,
  readBits,
  readOid,
  sequence,
  sequenceOfEncoded,
  setOf,
  smallInteger,
  time,
  utf8,
} from './asn1.ts';
export { sliceDer, splitDer } from './der.ts';
