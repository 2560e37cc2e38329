/**
 * The one module of node-forge that is loaded, with types for the part in use: the types of the package cover the whole
 * library, whose cryptography is not used (slow RSA, no elliptic curves).
 */
declare module 'node-forge/lib/asn1.js' {
  export interface Node {
    readonly tagClass: number;
    readonly type: number;
    readonly constructed: boolean;
    /** Bytes as a string of chars 0–255, or the children of a constructed element. */
    readonly value: string | Node[];
  }

  interface Bytes {
    getBytes(): string;
  }

  interface Asn1 {
    readonly Class: Readonly<Record<'UNIVERSAL' | 'CONTEXT_SPECIFIC', number>>;
    readonly Type: Readonly<
      Record<
        | 'BOOLEAN'
        | 'INTEGER'
        | 'BITSTRING'
        | 'OCTETSTRING'
        | 'NULL'
        | 'OID'
        | 'UTF8'
        | 'SEQUENCE'
        | 'SET'
        | 'UTCTIME'
        | 'GENERALIZEDTIME',
        number
      >
    >;
    create(tagClass: number, type: number, constructed: boolean, value: string | readonly Node[]): Node;
    fromDer(bytes: string, options: { readonly strict: boolean; readonly decodeBitStrings: boolean }): Node;
    toDer(node: Node): Bytes;
    oidToDer(oid: string): Bytes;
    dateToUtcTime(date: Date): string;
    dateToGeneralizedTime(date: Date): string;
  }

  const asn1: Asn1;

  // biome-ignore lint/style/noDefaultExport: what a CommonJS module exports is its default.
  export default asn1;
}
