/**
 * Test support: a small certificate authority that writes X.509 (RFC 5280), for lifetimes of seconds and any kind of
 * key.
 */
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import {
  bits,
  boolean,
  context,
  contextBytes,
  encodeDer,
  encoded,
  type Node,
  octets,
  oid,
  positiveInteger,
  sequence,
  setOf,
  sliceDer,
  smallInteger,
  time,
  utf8,
} from '../../../asn1/index.ts';
import { encodePem, readPem } from '../../../core/tls/pem.ts';

const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));

export interface TestRoot {
  readonly pem: string;
  /** Signs a certificate for a public key. Returns PEM. */
  issue(publicKey: KeyObject, names: readonly string[], lifeMs: number, now?: number): string;
}

/** Creates a root that is valid for a year. */
export function testRoot(name: string): TestRoot {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const subject = distinguishedName(name);
  const make = (to: Node, key: KeyObject, from: number, until: number, extensions: Node[]): string => {
    const body = encodeDer(
      sequence(
        context(0, smallInteger(2)),
        positiveInteger(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
        ECDSA_WITH_SHA256,
        subject,
        sequence(time(from), time(until)),
        to,
        encoded(key.export({ type: 'spki', format: 'der' })),
        context(3, sequence(...extensions)),
      ),
    );
    const signature = bits(sign('sha256', body, privateKey));
    return encodePem('CERTIFICATE', encodeDer(sequence(encoded(body), ECDSA_WITH_SHA256, signature)));
  };
  const year = 365 * 86_400_000;
  const isAuthority = extension('2.5.29.19', sequence(boolean(true)), true);
  return {
    pem: make(subject, publicKey, Date.now() - 60_000, Date.now() + year, [isAuthority]),
    issue(key, names, lifeMs, now = Date.now()) {
      const general = names.map((each) => contextBytes(each.includes('://') ? 6 : 2, Buffer.from(each)));
      // For servers and clients, because both ends of a connection have one (RFC 5280 section 4.2.1.12).
      const usage = sequence(oid('1.3.6.1.5.5.7.3.1'), oid('1.3.6.1.5.5.7.3.2'));
      // digitalSignature, which Envoy's validator of SPIFFE IDs requires (X.509-SVID section 4.3).
      const keyUsage = extension('2.5.29.15', encoded(Buffer.from([0x03, 0x02, 0x07, 0x80])), true);
      const extensions = [
        keyUsage,
        extension('2.5.29.37', usage, false),
        extension('2.5.29.17', sequence(...general), true),
      ];
      return make(sequence(), key, now - 60_000, now + lifeMs, extensions);
    },
  };
}

/** The public key of a request. */
export function keyOfRequest(csr: string): KeyObject {
  const [request] = readPem(csr, 'CERTIFICATE REQUEST');
  assert.ok(request, 'no request');
  return createPublicKey({ key: sliceDer(request, [0, 2]), format: 'der', type: 'spki' });
}

/** Key, chain (leaf and root) and root in PEM, as for a mount. */
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

function distinguishedName(name: string): Node {
  return sequence(setOf(sequence(oid('2.5.4.3'), utf8(name))));
}

function extension(id: string, value: Node, critical: boolean): Node {
  return sequence(oid(id), ...(critical ? [boolean(true)] : []), octets(encodeDer(value)));
}
