import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { rootCertificates } from 'node:tls';
import { contextBytes, encodeDer, encoded, type Node, octets, oid, sequence, setOf } from '../asn1/index.ts';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { type Certificate, readCertificate, readPemCertificates } from './certificate.ts';
import { CLIENT_AUTH, ecKey, extension, type LeafOptions, makeCa, makeLeaf, WEB_URI } from './testing/credentials.ts';

const root = makeCa({ name: 'root' });
const keys = ecKey('P-256');
const leaf = (changes: Partial<LeafOptions> = {}): Buffer => makeLeaf({ issuer: root, keys, ...changes });
const read = (changes: Partial<LeafOptions> = {}): Certificate => readCertificate(leaf(changes));

/** An object identifier of these content bytes, which may be malformed. */
const rawOid = (hex: string): Node =>
  encoded(Buffer.from(`06${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`, 'hex'));
const usage = (...usages: readonly Node[]): Node => extension('2.5.29.37', sequence(...usages));
const names = (...all: readonly Node[]): Node => extension('2.5.29.17', sequence(...all), true);

function assertMalformed(changes: Partial<LeafOptions>, reason: RegExp): void {
  const der = leaf(changes);
  assert.throws(
    () => readCertificate(der),
    (error) => error instanceof CtlError && error.code === 'invalid_argument' && reason.test(String(error.cause)),
  );
}

describe('a certificate', () => {
  it('has the usages whose identifiers are encoded as DER requires', () => {
    assert.equal(read({ usages: [], extra: [usage(oid(CLIENT_AUTH))] }).clientAuth, true);
    assert.equal(read({ usages: [], extra: [usage(oid('1.3.6.1.5.5.7.3.1'))] }).clientAuth, false);
    const malformed = /malformed object identifier/;
    // 1.3.6.1.5.5.7.3.2 with padding, followed by an unfinished number, and without content.
    for (const hex of ['2b060105050703' + '8002', '2b06010505070302' + '81', ''])
      assertMalformed({ usages: [], extra: [usage(rawOid(hex))] }, malformed);
  });

  it('may have extensions and usages that are named by UUIDs', () => {
    // 2.25 and a number of 128 bits.
    const uuid = rawOid('6983f8a0b1c2d3e4f5868798a9bacbdcedfe7f');
    const unknown = sequence(uuid, octets(encodeDer(sequence())));
    const { clientAuth, uris } = read({ usages: [], extra: [usage(uuid, oid(CLIENT_AUTH)), unknown] });
    assert.deepEqual({ clientAuth, uris }, { clientAuth: true, uris: [WEB_URI] });
  });

  it('is refused when it has an extension twice', () => {
    assertMalformed({ extra: [names(contextBytes(6, Buffer.from(WEB_URI)))] }, /extension 2\.5\.29\.17 twice/);
  });

  it('is refused when an extension that must be a SEQUENCE is something else', () => {
    const constraints = extension('2.5.29.37', setOf(oid(CLIENT_AUTH)));
    assertMalformed({ usages: [], extra: [constraints] }, /unexpected structure/);
  });

  it('has no URI from within another name, whatever the tags there', () => {
    const hidden = contextBytes(6, Buffer.from(WEB_URI));
    // A parser that reads one byte beyond the end of the first name finds an empty element, and then the URI.
    const odd = encoded(Buffer.of(0x9e, 1, 0x61));
    const cover = contextBytes(2, Buffer.concat([Buffer.of(0), encodeDer(hidden)]));
    assertMalformed({ uris: [], extra: [names(odd, cover)] }, /odd length/);
  });

  it('has the validity and names that OpenSSL reads', () => {
    const label = fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/);
    const host = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'));
    const second = fc.integer({ min: Date.UTC(2000, 0, 1) / 1000, max: Date.UTC(2100, 0, 1) / 1000 });
    const uri = label.map((name) => `spiffe://cluster.local/ns/shop/sa/${name}`);
    fc.assert(
      fc.property(
        fc.array(uri, { maxLength: 3 }),
        fc.array(host, { maxLength: 3 }),
        second,
        second,
        (uris, dnsNames, a, b) => {
          const certificate = read({ uris, dnsNames, notBefore: a * 1000, notAfter: b * 1000 });
          const { x509, notBefore, notAfter } = certificate;
          const shown = x509.subjectAltName?.split(', ').filter((name) => name.startsWith('URI:')) ?? [];
          assert.deepEqual(
            certificate.uris.map((each) => `URI:${each}`),
            shown,
          );
          assert.deepEqual([notBefore, notAfter], [a * 1000, b * 1000]);
          assert.deepEqual([Date.parse(x509.validFrom), Date.parse(x509.validTo)], [a * 1000, b * 1000]);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('of a public authority is read as OpenSSL reads it', () => {
    for (const pem of rootCertificates) {
      const [certificate] = readPemCertificates(pem);
      assert.ok(certificate);
      // Roots of version 1 have no extensions.
      if (certificate.keyIdentifier !== undefined) assert.equal(certificate.ca, certificate.x509.ca, pem);
    }
  });
});
