import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes, X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { SignJob, SignResult } from './sign-protocol.ts';
import { createSigner } from './signer.ts';
import { type Ca, csr, DAY_MS, ecKey, foreignUris, makeCa, NOW, rsaKey } from './testing/fixtures.ts';

const URI = 'spiffe://cluster.local/ns/shop/sa/cart';
const RSA = rsaKey(2048);
const P256 = ecKey('P-256');
const FAR = Date.UTC(2090, 0, 1);
const CAS = {
  'RSA CA': makeCa({ name: 'rsa', key: rsaKey(2048), notAfter: FAR }),
  'P-256 CA': makeCa({ name: 'p256', notAfter: FAR }),
  'P-384 CA': makeCa({ name: 'p384', key: ecKey('P-384'), notAfter: FAR }),
};

function signWith(ca: Ca, job: SignJob, chainEnd = FAR): SignResult {
  const answer = createSigner(randomBytes).run({
    adopt: { key: ca.key, certificate: ca.certificate, chainEnd },
    jobs: [job],
  });
  assert.equal(answer.kind, 'done');
  const [result] = answer.kind === 'done' ? answer.results : [];
  assert.ok(result);
  return result;
}

function signed(ca: Ca, job: SignJob, chainEnd?: number): Extract<SignResult, { kind: 'signed' }> {
  const result = signWith(ca, job, chainEnd);
  assert.ok(result.kind === 'signed', JSON.stringify(result));
  return result;
}

function workload(changes: Partial<Extract<SignJob, { kind: 'workload' }>> = {}): SignJob {
  return { kind: 'workload', csr: csr({ key: P256 }), uri: URI, lifetimeSeconds: DAY_MS / 1000, now: NOW, ...changes };
}

function hasOpenssl(): boolean {
  try {
    execFileSync('openssl', ['version']);
    return true;
  } catch {
    return false;
  }
}

function openssl(files: Readonly<Record<string, string>>, ...args: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'meshd-test-'));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    return execFileSync('openssl', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

for (const [caName, ca] of Object.entries(CAS))
  for (const [keyName, key] of Object.entries({ RSA, 'P-256': P256, 'P-384': ecKey('P-384') }))
    test(`a workload's certificate with a ${keyName} key of ${caName}`, () => {
      const { certificate, notAfter } = signed(ca, workload({ csr: csr({ key }) }));
      const [leaf, root] = [new X509Certificate(certificate), new X509Certificate(ca.certificate)];
      assert.ok(leaf.checkIssued(root) && leaf.verify(root.publicKey));
      assert.ok(leaf.checkPrivateKey(key.privateKey));
      assert.equal(leaf.subjectAltName, `URI:${URI}`);
      assert.equal(leaf.subject ?? '', '');
      assert.equal(leaf.ca, false);
      assert.deepEqual(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']);
      assert.equal(leaf.validFromDate.getTime(), NOW - 2 * 60_000);
      assert.equal(leaf.validToDate.getTime(), NOW + DAY_MS);
      assert.equal(notAfter, NOW + DAY_MS);
      assert.match(leaf.serialNumber, /^[4-7][0-9A-F]{31}$/);
    });

test('openssl accepts the certificate strictly and reads its extensions', { skip: !hasOpenssl() }, () => {
  for (const [key, usage] of [
    [RSA, /Key Usage: critical\s+Digital Signature, Key Encipherment\n/],
    [P256, /Key Usage: critical\s+Digital Signature\n/],
  ] as const) {
    const ca = CAS['RSA CA'];
    const { certificate } = signed(ca, workload({ csr: csr({ key }) }));
    const files = { leaf: certificate, root: ca.certificate };
    const at = String(NOW / 1000);
    for (const purpose of ['sslserver', 'sslclient'])
      assert.match(openssl(files, 'verify', '-attime', at, '-purpose', purpose, '-CAfile', 'root', 'leaf'), /leaf: OK/);
    const text = openssl(files, 'x509', '-in', 'leaf', '-noout', '-text');
    assert.match(text, usage);
    assert.match(text, /Version: 3/);
    assert.match(text, /Basic Constraints: critical\s+CA:FALSE/);
    assert.match(text, /Subject Alternative Name: critical\s+URI:spiffe:\/\/cluster\.local\/ns\/shop\/sa\/cart\n/);
    const root = openssl(files, 'x509', '-in', 'root', '-noout', '-ext', 'subjectKeyIdentifier').split('\n')[1]?.trim();
    assert.ok(
      root && text.replace('keyid:', '').includes(root),
      'the authority key identifier is the subject key identifier of the CA',
    );
  }
});

test('times from 2050 on are written as GeneralizedTime', { skip: !hasOpenssl() }, () => {
  const now = Date.UTC(2049, 11, 31, 23, 59, 0);
  const { certificate } = signed(CAS['P-256 CA'], workload({ now }));
  const tree = openssl({ leaf: certificate }, 'asn1parse', '-in', 'leaf');
  assert.match(tree, /UTCTIME\s+:491231235700Z/);
  assert.match(tree, /GENERALIZEDTIME\s+:20500101235900Z/);
});

test('only the key of a request is used: its subject and URIs are ignored', () => {
  const { certificate } = signed(CAS['P-256 CA'], workload({ csr: csr({ key: P256, attributes: foreignUris() }) }));
  assert.equal(new X509Certificate(certificate).subjectAltName, `URI:${URI}`);
});

test('a certificate is not valid longer than the chain that signs it, nor before its issuer', () => {
  const ca = makeCa({ name: 'young', notBefore: NOW - 10_000, notAfter: FAR });
  const { certificate, notAfter } = signed(ca, workload(), NOW + 5000);
  const leaf = new X509Certificate(certificate);
  assert.equal(leaf.validToDate.getTime(), NOW + 5000);
  assert.equal(notAfter, NOW + 5000);
  assert.equal(leaf.validFromDate.getTime(), NOW - 10_000);
  assert.deepEqual(signWith(ca, workload(), NOW), { kind: 'expired' });
});

test('nothing is signed when the clock is before the start of the issuer', () => {
  const ca = makeCa({ name: 'young', notBefore: NOW });
  const now = NOW - 3 * DAY_MS;
  assert.deepEqual(signWith(ca, workload({ now })), { kind: 'not yet valid', now, notBefore: NOW });
  const { certificate } = signed(ca, workload());
  const { validFromDate, validToDate } = new X509Certificate(certificate);
  assert.ok(validFromDate < validToDate);
});

test('a server certificate has a new key, and names and addresses in the SAN', () => {
  const hosts = ['ctl-discovery.mesh-system.svc', '10.1.2.3', '2001:db8::7:1', '::1', '::ffff:10.1.2.3'];
  const { certificate, key } = signed(CAS['P-256 CA'], {
    kind: 'server',
    uris: [],
    hosts,
    lifetimeSeconds: DAY_MS / 1000,
    now: NOW,
  });
  const leaf = new X509Certificate(certificate);
  assert.ok(leaf.checkHost('ctl-discovery.mesh-system.svc'));
  for (const ip of hosts.slice(1, 4)) assert.ok(leaf.checkIP(ip), ip);
  assert.match(key ?? '', /BEGIN PRIVATE KEY/);
});

test('a worker without a key reports that, and an invalid request does not affect the others of its batch', () => {
  const signer = createSigner(randomBytes);
  assert.deepEqual(signer.run({ jobs: [workload()] }), { kind: 'keyless' });
  const { key, certificate } = CAS['P-256 CA'];
  const jobs = [workload(), workload({ csr: 'rubbish' }), workload()];
  const answer = signer.run({ adopt: { key, certificate, chainEnd: FAR }, jobs });
  assert.deepEqual(answer.kind === 'done' && answer.results.map(({ kind }) => kind), ['signed', 'refused', 'signed']);
});

test('serial numbers are unique and positive', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (random) => {
      const { key, certificate } = CAS['P-256 CA'];
      const signer = createSigner((size) => Buffer.alloc(size, random));
      const answer = signer.run({ adopt: { key, certificate, chainEnd: FAR }, jobs: [workload()] });
      const [result] = answer.kind === 'done' ? answer.results : [];
      assert.ok(result?.kind === 'signed');
      assert.match(new X509Certificate(result.certificate).serialNumber, /^[4-7][0-9A-F]{31}$/);
    }),
    { numRuns: 50 },
  );
  const serials = [1, 2, 3].map(
    () => new X509Certificate(signed(CAS['P-256 CA'], workload()).certificate).serialNumber,
  );
  assert.equal(new Set(serials).size, 3);
});
