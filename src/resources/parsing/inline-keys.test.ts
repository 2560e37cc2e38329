import assert from 'node:assert/strict';
import { generateKeyPairSync, type JsonWebKey } from 'node:crypto';
import { describe, it } from 'node:test';
import { secretInKeys, usableInlineKeys } from './inline-keys.ts';

const ec = (namedCurve: string): JsonWebKey =>
  generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' });
const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ format: 'jwk' });
const EDDSA = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
const P256 = ec('P-256');

/** The usable keys among these. */
function usable(...keys: unknown[]): unknown {
  const text = usableInlineKeys(JSON.stringify({ keys }));
  return text === undefined ? [] : JSON.parse(text).keys;
}

describe('keys in a policy itself', () => {
  for (const [what, key] of [
    ['RSA', RSA],
    ['P-256', P256],
    ['P-384', ec('P-384')],
    ['P-521', ec('P-521')],
    ['Ed25519', EDDSA],
    ['a key with a name and an algorithm', { ...P256, kid: 'one', alg: 'ES256' }],
    ['RSA-PSS', { ...RSA, alg: 'PS384' }],
  ] as const) {
    it(`are used: ${what}`, () => assert.deepEqual(usable(key), [key]));
  }

  for (const [what, key] of [
    ['no object', 'text'],
    ['nothing', null],
    ['no kind', {}],
    ['an unknown kind', { kty: 'toString' }],
    ['a key to encrypt with', { ...P256, use: 'enc' }],
    ['a name that is a number', { ...P256, kid: 5 }],
    ['an algorithm of another kind', { ...P256, alg: 'RS256' }],
    ['an algorithm of another curve', { ...P256, alg: 'ES384' }],
    ['an unknown curve', { ...P256, crv: 'secp256k1' }],
    ['a curve for no signatures', { ...EDDSA, crv: 'X25519' }],
    ['a point that is not on the curve', { ...P256, x: P256.y, y: P256.x }],
    ['a modulus that is a number', { kty: 'RSA', n: 5, e: 'AQAB' }],
    ['an exponent of one', { ...RSA, e: 'AQ' }],
    ['a short RSA key', { ...RSA, n: RSA.n?.slice(0, 100) }],
    ['a huge RSA key', { ...RSA, n: '_'.repeat(4000) }],
    ['a short Ed25519 key', { ...EDDSA, x: 'AAAA' }],
    ['a secret that issuer and policy share', { kty: 'oct', k: 'c2VjcmV0' }],
    ['a key with its private half', { ...P256, d: 'AAAA' }],
    ['no base64url', { ...EDDSA, x: 'a b' }],
  ] as const) {
    it(`are left out: ${what}`, () => assert.deepEqual(usable(key, P256), [P256]));
  }

  it('are reported when they give away the key that signs tokens', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const whole = privateKey.export({ format: 'jwk' });
    const problemOf = (...keys: unknown[]) => secretInKeys(JSON.stringify({ keys }));
    assert.equal(problemOf(P256, RSA, null), undefined);
    assert.equal(problemOf(P256, whole), 'keys[1] has the private member d');
    assert.equal(problemOf({ kty: 'oct', k: 'c2VjcmV0' }), 'keys[0] is symmetric (kty oct)');
    assert.equal(problemOf({ kty: 'oct' }), 'keys[0] is symmetric (kty oct)');
    assert.equal(secretInKeys('no JSON'), undefined);
  });

  it('are none where no set can be read', () => {
    for (const text of [
      '',
      'x',
      '{}',
      '[]',
      'null',
      '{"keys":{}}',
      '{"keys":[]}',
      `${JSON.stringify({ keys: [RSA] })}x`,
    ])
      assert.equal(usableInlineKeys(text), undefined, text);
    assert.equal(usableInlineKeys(JSON.stringify({ keys: [RSA], filler: 'x'.repeat(300_000) })), undefined);
  });
});
