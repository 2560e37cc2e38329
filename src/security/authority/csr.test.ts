import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bits, encodeDer, nullValue, oid, sequence, utf8 } from '../../asn1/index.ts';
import * as fc from '../../core/testing/properties.ts';
import { signingKey } from './certificate.ts';
import { MAX_CSR_CHARS, readCsr } from './csr.ts';
import { algorithm, csr, csrDer, csrPem, ecKey, nested, rsaKey, spki } from './testing/fixtures.ts';

const P256 = ecKey('P-256');
const P384 = ecKey('P-384');
const RSA = rsaKey(2048);

for (const [name, key] of Object.entries({
  'P-256': P256,
  'P-384': P384,
  'RSA of 2048 bits': RSA,
  'RSA of 4096 bits': rsaKey(4096),
}))
  test(`the key of a request is read unchanged: ${name}`, () => {
    const { publicKey, algorithm } = readCsr(csr({ key }));
    assert.deepEqual(publicKey, spki(key.publicKey));
    assert.equal(algorithm, name.startsWith('RSA') ? 'rsa' : 'ec');
  });

test('a request of the older label and with Windows line ends is read', () => {
  const text = csr({ key: P256 }).replaceAll('CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST').replaceAll('\n', '\r\n');
  assert.deepEqual(readCsr(text).publicKey, spki(P256.publicKey));
});

/** A request whose signature uses another algorithm than it names. */
function signedAs(name: string): string {
  return csr({ key: RSA, signer: { ...signingKey(RSA.privateKey), algorithm: algorithm(name) } });
}

function tampered(): string {
  const der = csrDer({ key: P256 });
  const at = der.indexOf('somebody else');
  der.write('someone  else', at, 'latin1');
  return csrPem(der);
}

function explicitCurve(): Buffer {
  const [kind, parameters] = [oid('1.2.840.10045.2.1'), sequence(utf8('a field and a curve of my own'))];
  return encodeDer(sequence(sequence(kind, parameters), bits(spki(P256.publicKey).subarray(-65))));
}

const ed25519 = ((): string => {
  const key = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.alloc(32, 7)]);
  return csr({ key: P256, publicKey: key });
})();

const REFUSED: Readonly<Record<string, readonly [string, RegExp]>> = {
  nullValue: ['', /no PEM-encoded certificate request/],
  'something else in PEM form': [csr({ key: P256 }).replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'), /no PEM-encoded/],
  'two requests': [csr({ key: P256 }) + csr({ key: P256 }), /more than one/],
  'a request and a key': [
    `${csr({ key: P256 })}-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n`,
    /more than one/,
  ],
  'a huge text': ['A'.repeat(MAX_CSR_CHARS + 1), /longer than 16384 characters/],
  'a truncated request': [csrPem(csrDer({ key: P256 }).subarray(0, -20)), /cut short/],
  'bytes after the request': [csrPem(Buffer.concat([csrDer({ key: P256 }), Buffer.of(5, 0)])), /bytes after/],
  'deep ASN.1 in the attributes': [csr({ key: P256, attributes: [nested(2000)] }), /nested deeper than 16/],
  'very many elements': [
    csr({ key: P256, attributes: [sequence(...Array.from({ length: 2000 }, nullValue))] }),
    /more than 1024 elements/,
  ],
  'an indefinite length': [csrPem(Buffer.from('30800000', 'hex')), /indefinite length/],
  'a length of gigabytes': [csrPem(Buffer.from('3084ffffffff00', 'hex')), /length beyond its end/],
  'a length not in its shortest form': [csrPem(Buffer.from('3081020500', 'hex')), /shortest form/],
  'an empty sequence': [csrPem(Buffer.from('3000', 'hex')), /unexpected structure/],
  'a changed subject': [tampered(), /signature of the certificate request is not valid/],
  "somebody else's key": [csr({ key: P256, publicKey: spki(ecKey('P-256').publicKey) }), /signature .* is not valid/],
  'a signature by another kind of key': [csr({ key: RSA, publicKey: spki(P256.publicKey) }), /a different kind of key/],
  'RSA of 512 bits': [csr({ key: rsaKey(512) }), /has 512 bits: RSA of 2048 to 4096/],
  'RSA of 8192 bits': [csr({ key: RSA, publicKey: hugeRsa() }), /has 8192 bits/],
  'RSA with exponent 3': [csr({ key: rsaKey(2048, 3) }), /public exponent/],
  'ECDSA P-521': [csr({ key: P256, publicKey: spki(ecKey('P-521').publicKey) }), /not accepted: RSA of 2048/],
  'a curve with explicit parameters': [csr({ key: P256, publicKey: explicitCurve() }), /not accepted: RSA of 2048/],
  Ed25519: [ed25519, /not accepted: RSA of 2048/],
  'SHA-1': [signedAs('1.2.840.113549.1.1.5'), /algorithm that is not accepted/],
  MD5: [signedAs('1.2.840.113549.1.1.4'), /algorithm that is not accepted/],
};

/** A number of 8192 bits, which is refused before anything computes with it. */
function hugeRsa(): Buffer {
  const der = spki(RSA.publicKey);
  const content = Buffer.concat([
    Buffer.from('02820401', 'hex'),
    Buffer.of(0),
    Buffer.alloc(1024, 0xc5),
    Buffer.from('0203010001', 'hex'),
  ]);
  const key = Buffer.concat([Buffer.from('3082', 'hex'), u16(content.length), content]);
  const bitString = Buffer.concat([Buffer.from('0382', 'hex'), u16(key.length + 1), Buffer.of(0), key]);
  const body = Buffer.concat([der.subarray(4, 19), bitString]);
  return Buffer.concat([Buffer.from('3082', 'hex'), u16(body.length), body]);
}

function u16(value: number): Buffer {
  return Buffer.of(value >> 8, value & 0xff);
}

for (const [name, [text, message]] of Object.entries(REFUSED))
  test(`refused in one line: ${name}`, () => {
    assert.throws(
      () => readCsr(text),
      (error: Error) => {
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /\n/);
        return true;
      },
    );
  });

test('a request with any changed byte is refused, or its key is the same', () => {
  const der = csrDer({ key: P256 });
  fc.assert(
    fc.property(fc.nat(der.length - 1), fc.integer({ min: 0, max: 255 }), (at, value) => {
      const changed = Buffer.from(der);
      changed[at] = value;
      try {
        assert.deepEqual(readCsr(csrPem(changed)).publicKey, spki(P256.publicKey));
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        assert.ok(error instanceof Error && error.message.length < 200);
      }
    }),
    { numRuns: 1000 },
  );
});
