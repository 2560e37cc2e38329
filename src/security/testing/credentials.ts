/** Test support: valid and invalid certificates of workloads, and keys and tokens of issuers. */
import { type KeyObject, randomBytes } from 'node:crypto';
import { exportJWK, type JSONWebKeySet, type JWTPayload, SignJWT } from 'jose';
import { bits, boolean, encodeDer, type Node, octets, oid, sequence, smallInteger } from '../../asn1/index.ts';
import { encodePem } from '../../core/tls/pem.ts';
import {
  authorityName,
  EMPTY_NAME,
  hostName,
  signingKey,
  uriName,
  writeCertificate,
} from '../authority/certificate.ts';
import { type Ca, DAY_MS, ecKey, type KeyPair, makeCa, NOW, spki } from '../authority/testing/fixtures.ts';
import type { Certificate } from '../certificate.ts';
import { readRoots } from '../trust.ts';

export { type Ca, DAY_MS, ecKey, type KeyPair, makeCa, NOW };

export const WEB_URI = 'spiffe://cluster.local/ns/shop/sa/web';

export interface LeafOptions {
  readonly issuer: Ca;
  readonly keys?: KeyPair;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly notBefore?: number;
  readonly notAfter?: number;
  /** Extended key usages, as object identifiers. */
  readonly usages?: readonly string[];
  readonly ca?: boolean;
  /** The subject, for certificates that are issuers; default none. */
  readonly name?: string;
  /** The two bytes of a keyUsage's content. */
  readonly keyUsage?: readonly [number, number];
  readonly extra?: readonly Node[];
  /** Signs in the name of the issuer, instead of it. */
  readonly signer?: KeyObject;
}

export const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
export const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

export function extension(id: string, value: Node, critical = false): Node {
  return sequence(oid(id), ...(critical ? [boolean(true)] : []), octets(encodeDer(value)));
}

/** DER. */
export function makeLeaf(options: LeafOptions): Buffer {
  const {
    issuer,
    keys = ecKey('P-256'),
    uris = [WEB_URI],
    dnsNames = [],
    usages = [CLIENT_AUTH, SERVER_AUTH],
  } = options;
  const { keyUsage: [unused, usage] = [7, 0x80], ca = false, extra = [] } = options;
  const names = [...uris.map(uriName), ...dnsNames.map(hostName)];
  const extensions = [
    extension('2.5.29.15', bits(Buffer.of(usage), unused), true),
    extension('2.5.29.19', sequence(...(ca ? [boolean(true)] : [])), true),
    ...(usages.length === 0 ? [] : [extension('2.5.29.37', sequence(...usages.map(oid)))]),
    ...(names.length === 0 ? [] : [extension('2.5.29.17', sequence(...names), true)]),
    ...extra,
  ];
  const fields = {
    serial: randomBytes(16),
    issuer: authorityName('tests', issuer.name),
    subject: options.name === undefined ? EMPTY_NAME : authorityName('tests', options.name),
    notBefore: options.notBefore ?? NOW - DAY_MS,
    notAfter: options.notAfter ?? NOW + DAY_MS,
    publicKey: spki(keys.publicKey),
    extensions: Buffer.concat(extensions.map(encodeDer)),
  };
  return writeCertificate(fields, signingKey(options.signer ?? issuer.keys.privateKey));
}

export function pemOf(...ders: readonly Uint8Array[]): string {
  return ders.map((der) => encodePem('CERTIFICATE', Buffer.from(der))).join('');
}

export function derOf(ca: Ca): Buffer {
  return Buffer.from(ca.certificate.replace(/-----[^-]+-----|\s/g, ''), 'base64');
}

export function rootsOf(...cas: readonly Ca[]): Certificate[] {
  return readRoots(
    'test',
    cas.map(({ certificate }) => certificate),
  );
}

/** An unknown extension. */
export function unknownExtension(critical: boolean): Node {
  return extension('1.3.6.1.4.1.55555.1', sequence(smallInteger(1)), critical);
}

export type Claims = { readonly [K in keyof JWTPayload]: JWTPayload[K] | undefined };

export interface TestIssuer {
  readonly kid: string;
  readonly keys: KeyPair;
  readonly jwks: JSONWebKeySet;
  /** A token of `shop/web` for `mesh-ca` that is valid for an hour; `undefined` leaves a claim out. */
  token(
    changes?: Claims,
    header?: { readonly alg?: string; readonly kid?: string | undefined },
    key?: KeyObject | Uint8Array,
  ): Promise<string>;
}

export const ISSUER = 'https://issuer.example';

export async function testIssuer(kid = 'one', keys: KeyPair = ecKey('P-256'), alg = 'ES256'): Promise<TestIssuer> {
  const jwk = await exportJWK(keys.publicKey);
  return {
    kid,
    keys,
    jwks: { keys: [{ ...jwk, kid, alg, use: 'sig' }] },
    token: (changes = {}, header = {}, key = keys.privateKey) => {
      const claims = {
        iss: ISSUER,
        sub: 'system:serviceaccount:shop:web',
        aud: 'mesh-ca',
        iat: NOW / 1000,
        exp: NOW / 1000 + 3600,
        ...changes,
      };
      return new SignJWT(claims as JWTPayload).setProtectedHeader({ alg, kid, ...header } as { alg: string }).sign(key);
    },
  };
}
