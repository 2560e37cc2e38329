/**
 * Certificates for tests: a small authority that writes X.509 (RFC 5280) by hand, so that lives can be seconds and keys
 * of any kind.
 */
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import forge from 'node-forge';
import { der, oid, sequence } from '../der.ts';

const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));

export interface TestRoot {
  readonly pem: string;
  /** Signs a certificate for a public key; gives PEM. */
  issue(publicKey: KeyObject, names: readonly string[], lifeMs: number, now?: number): string;
}

/** A root of the test's own, good for a year. */
export function testRoot(name: string): TestRoot {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const subject = distinguishedName(name);
  const make = (to: Buffer, key: KeyObject, from: number, until: number, extensions: Buffer[]): string => {
    const tbs = sequence(
      der(0xa0, der(0x02, Buffer.from([2]))),
      der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
      ECDSA_WITH_SHA256,
      subject,
      sequence(time(from), time(until)),
      to,
      key.export({ type: 'spki', format: 'der' }),
      der(0xa3, sequence(...extensions)),
    );
    const signature = der(0x03, Buffer.from([0]), sign('sha256', tbs, privateKey));
    return pem('CERTIFICATE', sequence(tbs, ECDSA_WITH_SHA256, signature));
  };
  const year = 365 * 86_400_000;
  const isAuthority = extension('2.5.29.19', sequence(der(0x01, Buffer.from([0xff]))), true);
  return {
    pem: make(subject, publicKey, Date.now() - 60_000, Date.now() + year, [isAuthority]),
    issue(key, names, lifeMs, now = Date.now()) {
      const general = names.map((each) => der(each.includes('://') ? 0x86 : 0x82, Buffer.from(each)));
      // Both ends of a connection have one of these: servers and clients (RFC 5280 section 4.2.1.12).
      const usage = sequence(oid('1.3.6.1.5.5.7.3.1'), oid('1.3.6.1.5.5.7.3.2'));
      const extensions = [extension('2.5.29.37', usage, false), extension('2.5.29.17', sequence(...general), true)];
      return make(sequence(), key, now - 60_000, now + lifeMs, extensions);
    },
  };
}

/** The public key of a request. */
export function keyOfRequest(csr: string): KeyObject {
  const bytes = Buffer.from(csr.replace(/-----[^-]+-----|\s/g, ''), 'base64');
  const parsed = forge.asn1.fromDer(forge.util.createBuffer(bytes.toString('binary')));
  const inside = (value: forge.asn1.Asn1 | undefined): forge.asn1.Asn1[] =>
    Array.isArray(value?.value) ? value.value : [];
  const [, , spki] = inside(inside(parsed)[0]);
  if (spki === undefined) throw new Error('no request');
  const spkiBytes = Buffer.from(forge.asn1.toDer(spki).getBytes(), 'binary');
  return createPublicKey({ key: spkiBytes, format: 'der', type: 'spki' });
}

/** Key, chain (leaf and root) and root in PEM, as somebody would mount them. */
export function certificateSet(root: TestRoot, name: string, lifeMs = 3_600_000, now?: number): CertificateSet {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    leaf: root.issue(publicKey, [name], lifeMs, now),
    root: root.pem,
  };
}

export interface CertificateSet {
  readonly key: string;
  readonly leaf: string;
  readonly root: string;
}

function distinguishedName(name: string): Buffer {
  return sequence(der(0x31, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(name)))));
}

function extension(id: string, value: Buffer, critical: boolean): Buffer {
  return sequence(oid(id), ...(critical ? [der(0x01, Buffer.from([0xff]))] : []), der(0x04, value));
}

/** UTCTime, to the second. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14);
  return der(0x17, Buffer.from(`${digits}Z`));
}

function pem(label: string, bytes: Buffer): string {
  return `-----BEGIN ${label}-----\n${bytes.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END ${label}-----\n`;
}
