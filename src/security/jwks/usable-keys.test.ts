import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type JsonWebKey, type KeyObject } from 'node:crypto';
import { describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import * as fc from '../../core/testing/properties.ts';
import { usableKeys } from './usable-keys.ts';

const jwkOf = (key: KeyObject): JsonWebKey => key.export({ format: 'jwk' });
const RSA_PAIR = generateKeyPairSync('rsa', { modulusLength: 2048 });
const RSA = jwkOf(RSA_PAIR.publicKey);
const ec = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve });
const EC_PAIR = ec('P-256');
const EC = jwkOf(EC_PAIR.publicKey);
const ED = jwkOf(generateKeyPairSync('ed25519').publicKey);

/** The usable keys of a set. */
function usable(...keys: readonly unknown[]): unknown[] {
  return JSON.parse(usableKeys({ keys })).keys;
}

describe('the usable keys of a key set', () => {
  it('are its public keys of the kinds that Envoy supports, with the members that it reads', () => {
    const given = [
      { ...RSA, kid: 'rsa', alg: 'RS256', use: 'sig', x5c: ['…'], x5t: 'abc', ext: true },
      { ...EC, kid: 'ec', key_ops: ['verify'] },
      { ...jwkOf(ec('P-384').publicKey), alg: 'ES384' },
      jwkOf(ec('P-521').publicKey),
      { ...ED, alg: 'EdDSA' },
    ];
    const [rsa, p256, ...others] = usable(...given);
    assert.deepEqual(rsa, { ...RSA, kid: 'rsa', alg: 'RS256', use: 'sig' });
    assert.deepEqual(p256, { ...EC, kid: 'ec', use: 'sig' });
    assert.deepEqual(others, [
      { ...given[2], use: 'sig' },
      { ...given[3], use: 'sig' },
      { ...given[4], use: 'sig' },
    ]);
  });

  it('are the same text for the same keys, in any spelling', () => {
    const { kty, crv, x, y } = EC;
    const one = usableKeys({ keys: [{ kty, crv, x, y, kid: 'a' }] });
    assert.equal(usableKeys({ issued: 'now', keys: [{ kid: 'a', y: `${y}=`, x, extra: 1, crv, kty }] }), one);
  });

  const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const LEFT_OUT: readonly (readonly [string, unknown])[] = [
    ['a symmetric key, which signs as well as it verifies', { kty: 'oct', k: 'c2VjcmV0', alg: 'HS256' }],
    ['a symmetric key that calls itself an RSA key', { ...RSA, k: 'c2VjcmV0' }],
    ['an RSA key with its private half', jwkOf(RSA_PAIR.privateKey)],
    ['an EC key with its private half', jwkOf(EC_PAIR.privateKey)],
    ['a key that is an HMAC key by its algorithm', { ...RSA, alg: 'HS256' }],
    ['a key without signature', { ...RSA, alg: 'none' }],
    ['an RSA key with the algorithm of an EC key', { ...RSA, alg: 'ES256' }],
    ['an EC key with the algorithm of another curve', { ...EC, alg: 'ES384' }],
    ['a key for encryption', { ...RSA, use: 'enc' }],
    ['a key with operations that are not to verify', { ...RSA, key_ops: ['encrypt'] }],
    ['an RSA key of 1024 bits', jwkOf(small.publicKey)],
    ['an RSA key with the exponent 1', { ...RSA, e: 'AQ' }],
    ['an RSA key with an even exponent', { ...RSA, e: 'BA' }],
    ['an RSA key without exponent', { kty: 'RSA', n: RSA.n }],
    ['an RSA key whose modulus is a number', { ...RSA, n: 17 }],
    ['an EC key on a curve that Envoy does not know', jwkOf(ec('secp256k1').publicKey)],
    ['an EC key that is not a point of its curve', { ...EC, y: EC.x }],
    ['a key to agree on keys', jwkOf(generateKeyPairSync('x25519').publicKey)],
    ['a key whose name is a number', { ...EC, kid: 1 }],
    ['a key with a very long name', { ...EC, kid: 'k'.repeat(300) }],
    ['a key whose algorithm is a list', { ...RSA, alg: ['RS256'] }],
    ['a key of a kind that is yet to come', { kty: 'AKP', alg: 'ML-DSA-44', pub: 'abc' }],
    ['a key of the kind constructor', { kty: 'constructor' }],
    ['nothing', null],
    ['a text', 'key'],
    ['a list', []],
  ];
  for (const [what, key] of LEFT_OUT) {
    it(`leave out ${what}, and nothing else`, () => {
      assert.deepEqual(usable(key, { ...EC, kid: 'good' }), [{ ...EC, kid: 'good', use: 'sig' }]);
      assert.throws(() => usableKeys({ keys: [key] }), /^CtlError: returned a key set without a usable key; /);
    });
  }

  for (const [what, document, expected] of [
    ['without keys', { keys: [] }, /returned a key set without keys/],
    ['that is none', { jwks: [] }, /did not return a JSON Web Key Set/],
    ['that is a list', [EC], /did not return a JSON Web Key Set/],
    ['that is null', null, /did not return a JSON Web Key Set/],
    ['whose keys are not a list', { keys: { 0: EC } }, /did not return a JSON Web Key Set/],
  ] as const) {
    it(`are not those of a set ${what}`, () => assert.throws(() => usableKeys(document), expected));
  }

  it('are limited in size', () => {
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const long = { ...jwkOf(publicKey), n: Buffer.alloc(2048, 0xff).toString('base64url') };
    assert.equal(usable(...Array(100).fill(RSA)).length, 100);
    assert.throws(() => usableKeys({ keys: Array(50).fill(long) }), /returned more than 65536 bytes of keys/);
  });

  it('are looked for among the first hundred', () => {
    const odd = Array.from({ length: 100 }, () => ({ kty: 'oct', k: 'AAAA' }));
    assert.deepEqual(usable(...odd.slice(1), EC), [{ ...EC, use: 'sig' }]);
    assert.throws(() => usableKeys({ keys: [...odd, EC] }), /without a usable key/);
  });

  const member = fc.oneof(
    fc.constantFrom(
      'RSA',
      'EC',
      'OKP',
      'oct',
      'P-256',
      'Ed25519',
      'sig',
      'enc',
      'RS256',
      'ES256',
      'HS256',
      'AQAB',
      RSA.n,
      EC.x,
      ED.x,
    ),
    fc.jsonValue(),
  );
  const names = [
    'kty',
    'crv',
    'n',
    'e',
    'x',
    'y',
    'd',
    'k',
    'p',
    'alg',
    'use',
    'kid',
    'key_ops',
    '__proto__',
    'constructor',
  ];
  const changes = fc.dictionary(fc.constantFrom(...names), member, { maxKeys: 3 });
  const nearly = fc.tuple(fc.constantFrom(RSA, EC, ED), changes).map(([key, other]) => ({ ...key, ...other }));
  const READ_BY_ENVOY = new Set(['kty', 'crv', 'n', 'e', 'x', 'y', 'alg', 'use', 'kid']);

  it('are public keys for any response of a server, and a refusal is one line', () => {
    const document = fc.oneof(fc.jsonValue(), fc.record({ keys: fc.array(fc.oneof(nearly, fc.jsonValue())) }));
    fc.assert(
      fc.property(document, (answer) => {
        let keys: readonly JsonWebKey[];
        try {
          keys = JSON.parse(usableKeys(answer)).keys;
        } catch (error) {
          assert.ok(error instanceof CtlError && !error.message.includes('\n'), String(error));
          return;
        }
        assert.ok(keys.length > 0);
        for (const key of keys) {
          assert.ok(
            Object.keys(key).every((name) => READ_BY_ENVOY.has(name)),
            JSON.stringify(key),
          );
          assert.equal(createPublicKey({ key, format: 'jwk' }).type, 'public');
        }
      }),
      { numRuns: 500 },
    );
  });
});
