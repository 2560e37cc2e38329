/**
 * The certificate authority of a test's control plane, for its servers and users. Keys are on the curve P-256, because
 * every control plane makes some, and RSA keys cost a tenth of a second each.
 */
import { createPrivateKey, generateKeyPair, generateKeyPairSync, randomBytes } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { promisify } from 'node:util';
import {
  bits,
  boolean,
  contextBytes,
  encodeDer,
  type Node,
  octets,
  oid,
  sequence,
  setOf,
  utf8,
} from '../../../src/asn1/index.ts';
import { encodePem } from '../../../src/core/tls/pem.ts';
import { signingKey, writeCertificate } from '../../../src/security/authority/certificate.ts';

/** PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

const DAY_MS = 86_400_000;

/** Object identifiers of RFC 5280: attributes of names, extensions, and what keys are for. */
const [ORGANIZATION, COMMON_NAME] = ['2.5.4.10', '2.5.4.3'];
const [KEY_USAGE, BASIC_CONSTRAINTS, ALTERNATIVE_NAMES, EXTENDED_USAGE] = [
  '2.5.29.15',
  '2.5.29.19',
  '2.5.29.17',
  '2.5.29.37',
];
const [SERVER_AUTH, CLIENT_AUTH] = ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'];

const nameOf = (...attributes: readonly (readonly [type: string, value: string])[]): Node =>
  sequence(...attributes.map(([type, value]) => setOf(sequence(oid(type), utf8(value)))));

const extension = (id: string, value: Node, critical = false): Node =>
  sequence(oid(id), ...(critical ? [boolean(true)] : []), octets(encodeDer(value)));

const AUTHORITY = nameOf([COMMON_NAME, 'test-kubernetes-ca']);

/** @param issuer absent: the certificate is self-signed */
function issue(subject: Node, extensions: readonly Node[], issuer?: KeyPair): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const fields = {
    serial: randomBytes(16),
    issuer: AUTHORITY,
    subject,
    notBefore: Date.now() - DAY_MS,
    notAfter: Date.now() + DAY_MS,
    publicKey: publicKey.export({ format: 'der', type: 'spki' }),
    extensions: Buffer.concat(extensions.map(encodeDer)),
  };
  const signer = signingKey(issuer === undefined ? privateKey : createPrivateKey(issuer.key));
  return {
    key: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    certificate: encodePem('CERTIFICATE', writeCertificate(fields, signer)),
  };
}

export function createAuthority(): KeyPair {
  return issue(AUTHORITY, [
    extension(BASIC_CONSTRAINTS, sequence(boolean(true)), true),
    // keyCertSign and cRLSign.
    extension(KEY_USAGE, bits(Buffer.of(0x06), 1), true),
  ]);
}

/** A certificate of a server at these IPv4 addresses and at the usual names of an API server. */
export function serverCertificate(issuer: KeyPair, addresses: readonly string[]): KeyPair {
  const names = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'];
  // dNSName is 2 and iPAddress 7: RFC 5280, section 4.2.1.6.
  const alternatives = [
    ...names.map((name) => contextBytes(2, Buffer.from(name, 'latin1'))),
    ...addresses.map((address) => contextBytes(7, addressBytes(address))),
  ];
  const extensions = [
    extension(EXTENDED_USAGE, sequence(oid(SERVER_AUTH))),
    extension(ALTERNATIVE_NAMES, sequence(...alternatives)),
  ];
  return issue(nameOf([COMMON_NAME, 'kube-apiserver']), extensions, issuer);
}

function addressBytes(address: string): Buffer {
  if (!isIPv4(address)) throw new Error(`expected an IPv4 address, not ${address}`);
  return Buffer.from(address.split('.').map(Number));
}

/** A certificate of a user; the API server reads the name from CN and the groups from O. */
export function userCertificate(issuer: KeyPair, name: string, groups: readonly string[]): KeyPair {
  const organizations = groups.map((group) => [ORGANIZATION, group] as const);
  const extensions = [extension(EXTENDED_USAGE, sequence(oid(CLIENT_AUTH)))];
  return issue(nameOf(...organizations, [COMMON_NAME, name]), extensions, issuer);
}

/** A key pair for the tokens of service accounts, PEM: RSA, as clusters have. */
export async function tokenKeys(): Promise<{ readonly publicKey: string; readonly privateKey: string }> {
  const pair = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return {
    publicKey: pair.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    privateKey: pair.privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
  };
}
