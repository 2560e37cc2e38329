/** Test support for the authority: certificate requests, valid and hostile, CAs with any defect, and a fake clock. */

import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
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
  sequence,
  setOf,
  smallInteger,
  utf8,
} from '../../../asn1/index.ts';
import { fakeClock as makeFakeClock } from '../../../core/testing/fake-clock.ts';
import { encodePem } from '../../../core/tls/pem.ts';
import type { WallClock } from '../../../core/wall-clock.ts';
import type { AuthorityState, AuthorityStore } from '../../types.ts';
import { authorityName, keyIdentifier, type SigningKey, signingKey, writeCertificate } from '../certificate.ts';
import { readKeyBits } from '../certificate-facts.ts';

export const DAY_MS = 24 * 3_600_000;

/** A time without milliseconds, which certificates do not have. */
export const NOW = Date.UTC(2026, 5, 1);

export interface KeyPair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export function rsaKey(modulusLength: number, publicExponent = 0x10001): KeyPair {
  return generateKeyPairSync('rsa', { modulusLength, publicExponent });
}

export function ecKey(namedCurve: string): KeyPair {
  return generateKeyPairSync('ec', { namedCurve });
}

export function spki(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' });
}

export interface CsrOptions {
  readonly key: KeyPair;
  /** Default: the key's algorithm. */
  readonly signer?: SigningKey;
  /** Default: that of the key. */
  readonly publicKey?: Buffer;
  readonly subject?: Node;
  readonly attributes?: readonly Node[];
}

export function csrDer({
  key,
  signer = signingKey(key.privateKey),
  publicKey,
  subject,
  attributes = [],
}: CsrOptions): Buffer {
  const info = encodeDer(
    sequence(
      smallInteger(0),
      subject ?? authorityName('attacker', 'somebody else'),
      encoded(publicKey ?? spki(key.publicKey)),
      context(0, ...attributes),
    ),
  );
  return encodeDer(sequence(encoded(info), signer.algorithm, bits(sign(signer.hash, info, signer.key))));
}

export function csr(options: CsrOptions): string {
  return csrPem(csrDer(options));
}

export function csrPem(der: Buffer): string {
  return encodePem('CERTIFICATE REQUEST', der);
}

/** An algorithm by its object identifier, with NULL as its parameters, as RSA has. */
export function algorithm(name: string): Node {
  return sequence(oid(name), nullValue());
}

export interface CaOptions {
  readonly name: string;
  readonly key?: KeyPair;
  readonly issuer?: Ca;
  readonly notBefore?: number;
  readonly notAfter?: number;
  readonly authority?: boolean;
  /** The two bytes of a keyUsage's content; by default the CA may sign certificates. */
  readonly keyUsage?: readonly [number, number];
  readonly pathLength?: number;
}

export interface Ca {
  readonly name: string;
  readonly keys: KeyPair;
  /** PEM. */
  readonly key: string;
  readonly certificate: string;
}

export function makeCa(options: CaOptions): Ca {
  const keys = options.key ?? ecKey('P-256');
  const { issuer, name, authority = true, keyUsage: [unused, usage] = [1, 0x06] } = options;
  const publicKey = spki(keys.publicKey);
  const extension = (id: string, value: Node): Node => sequence(oid(id), boolean(true), octets(encodeDer(value)));
  const limit = options.pathLength === undefined ? [] : [smallInteger(options.pathLength)];
  const fields = {
    serial: randomBytes(16),
    issuer: authorityName('tests', issuer?.name ?? name),
    subject: authorityName('tests', name),
    notBefore: options.notBefore ?? NOW - DAY_MS,
    notAfter: options.notAfter ?? NOW + 100 * DAY_MS,
    publicKey,
    extensions: Buffer.concat(
      [
        extension('2.5.29.15', bits(Buffer.of(usage), unused)),
        extension('2.5.29.19', sequence(...(authority ? [boolean(true), ...limit] : []))),
        sequence(oid('2.5.29.14'), octets(encodeDer(octets(keyIdentifier(readKeyBits(publicKey)))))),
      ].map(encodeDer),
    ),
  };
  const certificate = encodePem('CERTIFICATE', writeCertificate(fields, signingKey((issuer?.keys ?? keys).privateKey)));
  return { name, keys, key: keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(), certificate };
}

/** The attributes of a request for foreign names (RFC 2985 section 5.4.2, extensionRequest). */
export function foreignUris(): readonly Node[] {
  const uri = (name: string): Node => contextBytes(6, Buffer.from(name, 'latin1'));
  const names = sequence(uri('spiffe://cluster.local/ns/kube-system/sa/admin'), uri('spiffe://other/ns/a/sa/b'));
  const extension = sequence(oid('2.5.29.17'), octets(encodeDer(names)));
  return [sequence(oid('1.2.840.113549.1.9.14'), setOf(sequence(extension)))];
}

/** ASN.1 of this nesting depth. */
export function nested(depth: number): Node {
  let node = utf8('deep');
  for (let level = 0; level < depth; level++) node = sequence(node);
  return node;
}

export interface FakeClock {
  readonly clock: WallClock;
  /** Moves time, runs expired timers in order, and waits until `busy` is false. */
  advance(ms: number): Promise<void>;
}

/** A clock that moves only when a test moves it, from the time of the certificates of these tests. */
export function fakeClock(start = NOW, busy: () => boolean = () => false): FakeClock {
  const clock = makeFakeClock({ start, busy });
  return { clock, advance: clock.advance };
}

/** A store in memory. */
export function memoryStore(
  state?: AuthorityState,
): AuthorityStore & { state: AuthorityState | undefined; failure?: Error } {
  const store = {
    state,
    failure: undefined as Error | undefined,
    async load() {
      if (store.failure) throw store.failure;
      return store.state;
    },
    async save(next: AuthorityState) {
      if (store.failure) throw store.failure;
      store.state = next;
    },
  };
  return store as AuthorityStore & { state: AuthorityState | undefined; failure?: Error };
}
