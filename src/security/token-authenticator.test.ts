import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { describe, it } from 'node:test';
import { type JSONWebKeySet, UnsecuredJWT } from 'jose';
import { CtlError } from '../core/errors.ts';
import { type Claims, ecKey, ISSUER, NOW, testIssuer } from './testing/credentials.ts';
import { createTokenAuthenticator, type TokenAuthenticatorOptions } from './token-authenticator.ts';

const one = await testIssuer();
const rsaKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
const rsa = await testIssuer('rsa', rsaKeys, 'RS256');

/** An issuer whose `newer` keys are only found after a request for them. */
function authenticator(
  changes: Partial<TokenAuthenticatorOptions> = {},
  keys: JSONWebKeySet = { keys: [...one.jwks.keys, ...rsa.jwks.keys] },
  newer: JSONWebKeySet = keys,
) {
  return createTokenAuthenticator({
    issuers: [{ issuer: ISSUER, keys: { keys: async () => keys, newerKeys: async () => newer } }],
    trustDomain: 'cluster.local',
    audiences: ['mesh-ca', 'istio-ca'],
    withoutAudience: false,
    now: () => NOW,
    ...changes,
  });
}

async function outcome(token: string | undefined, asked = authenticator()): Promise<string> {
  try {
    const caller = await asked.authenticate({ certificates: [], bearer: token, peer: 'test' });
    if (caller === undefined) return 'not asked';
    assert.equal(caller.by, 'token');
    return `${caller.identity.trustDomain}/${caller.identity.namespace}/${caller.identity.serviceAccount}`;
  } catch (error) {
    assert.ok(error instanceof CtlError, String(error));
    return `${error.code}: ${error.message}`;
  }
}

const WEB = 'cluster.local/shop/web';
const IN_SECONDS = NOW / 1000;

describe('a token', () => {
  it('proves the service account that is its subject, until it expires', async () => {
    assert.equal(await outcome(await one.token()), WEB);
    assert.equal(await outcome(await rsa.token()), WEB);
    assert.equal(await outcome(await one.token({ aud: ['vault', 'istio-ca'] })), WEB);
    const bearer = await one.token({ exp: IN_SECONDS + 7 });
    const caller = await authenticator().authenticate({ certificates: [], bearer, peer: '' });
    assert.equal(caller?.expiresAt, NOW + 7000);
  });

  it('is verified once for concurrent calls, and again for each later one', async () => {
    let asked = 0;
    const keys = async () => {
      asked++;
      return one.jwks;
    };
    const own = authenticator({ issuers: [{ issuer: ISSUER, keys: { keys, newerKeys: keys } }] });
    const good = await one.token();
    const expired = await one.token({ exp: IN_SECONDS - 100 });
    for (const round of [1, 2]) {
      const outcomes = await Promise.all([good, expired, good, expired, good].map((token) => outcome(token, own)));
      assert.equal(asked, 2 * round);
      const late = 'unauthenticated: it has expired';
      assert.deepEqual(outcomes, [WEB, late, WEB, late, WEB]);
    }
  });

  it('is not asked for when there is none', async () => assert.equal(await outcome(undefined), 'not asked'));

  it('may come from an issuer whose clock is a little ahead', async () => {
    assert.equal(await outcome(await one.token({ nbf: IN_SECONDS + 5 })), WEB);
  });

  const REFUSED: readonly (readonly [string, Claims, RegExp])[] = [
    ['has just expired', { exp: IN_SECONDS }, /: it has expired$/],
    ['expired long ago', { exp: IN_SECONDS - 3600 }, /: it has expired$/],
    ['never expires', { exp: undefined }, /: it lacks "exp"$/],
    ['is not valid yet', { nbf: IN_SECONDS + 60 }, /: its "nbf" is not valid$/],
    ['is for another audience', { aud: 'vault' }, /: it is meant for another audience$/],
    ['is for an audience that begins like ours', { aud: 'mesh-ca-2' }, /another audience$/],
    ['has no audience', { aud: undefined }, /another audience$/],
    [
      'is of another issuer',
      { iss: 'https://issuer.example/' },
      /its issuer "https:\/\/issuer.example\/" is not trusted$/,
    ],
    ['does not say its issuer', { iss: undefined }, /its issuer "" is not trusted$/],
    ['has no subject', { sub: undefined }, /it lacks "sub"$/],
    ['is of a person', { sub: 'jo@example.com' }, /its subject "jo@example.com" is not that of a service account$/],
    ['names more than an account', { sub: 'system:serviceaccount:shop:web:x' }, /is not that of a service account$/],
    ['names a path', { sub: 'system:serviceaccount:../x:web' }, /cannot be an identity$/],
    ['names a namespace with a slash', { sub: 'system:serviceaccount:shop/sa/x:web' }, /cannot be an identity$/],
  ];
  for (const [what, claims, reason] of REFUSED)
    it(`is refused when it ${what}`, async () => {
      const line = await outcome(await one.token(claims));
      assert.match(line, /^unauthenticated: /);
      assert.match(line, reason);
    });

  it('is refused when its signature algorithm proves nothing', async () => {
    const claims = { iss: ISSUER, sub: 'system:serviceaccount:shop:web', aud: 'mesh-ca', exp: IN_SECONDS + 60 };
    const algorithms = /its algorithm is not one of RS256/;
    assert.match(await outcome(new UnsecuredJWT(claims).encode()), algorithms);
    const pem = rsaKeys.publicKey.export({ type: 'spki', format: 'pem' });
    const asSecret = await rsa.token({}, { alg: 'HS256', kid: 'rsa' }, Buffer.from(pem));
    assert.match(await outcome(asSecret), algorithms);
    assert.match(
      await outcome(await one.token({}, {}, ecKey('P-256').privateKey)),
      /its signature does not match the keys of its issuer$/,
    );
    const [header, payload, signature] = (await one.token()).split('.');
    const forged = Buffer.from(JSON.stringify({ ...claims, sub: 'system:serviceaccount:bank:admin' })).toString(
      'base64url',
    );
    assert.ok(header !== undefined && payload !== undefined);
    assert.match(
      await outcome(`${header}.${forged}.${signature}`),
      /its signature does not match the keys of its issuer$/,
    );
  });

  it('is refused when it contains its own key', async () => {
    const other = await testIssuer('mine');
    const [jwk] = other.jwks.keys;
    const header = { alg: 'ES256', kid: 'mine', jwk } as { alg: string; kid: string };
    assert.match(await outcome(await other.token({}, header)), /not signed with a key of its issuer$/);
  });

  it('is refused when it is none', async () => {
    for (const text of ['x', 'a.b.c', '..', `${'a'.repeat(20_000)}.b.c`, 'eyJhbGciOiJub25lIn0.W10.'])
      assert.match(await outcome(text), /^unauthenticated: (not a JSON Web Token|longer than)/, text.slice(0, 20));
  });
});

describe('the keys of an issuer', () => {
  it('are fetched again when a token is signed with an unknown one', async () => {
    const two = await testIssuer('two');
    const token = await two.token();
    assert.match(await outcome(token), /^unauthenticated: it is not signed with a key of its issuer$/);
    assert.equal(await outcome(token, authenticator({}, one.jwks, two.jwks)), WEB);
  });

  it('need no name: each matching one is tried', async () => {
    const two = await testIssuer('two');
    const nameless = [one, two].map(({ jwks }) => {
      const { kid: _, ...key } = jwks.keys[0] ?? { kty: 'EC' };
      return key;
    });
    const asked = authenticator({}, { keys: nameless });
    const unnamed = { kid: undefined };
    for (const issuer of [one, two]) assert.equal(await outcome(await issuer.token({}, unnamed), asked), WEB);
    assert.match(
      await outcome(await (await testIssuer('three')).token({}, unnamed), asked),
      /its signature does not match the keys of its issuer$/,
    );
  });

  it('that are not known yet make the caller unavailable, not unauthenticated', async () => {
    const fail = () => Promise.reject(new CtlError('unavailable', 'not fetched yet'));
    const asked = authenticator({ issuers: [{ issuer: ISSUER, keys: { keys: fail, newerKeys: fail } }] });
    assert.equal(await outcome(await one.token(), asked), 'unavailable: not fetched yet');
  });

  it('are not accepted when no issuer is trusted', async () => {
    assert.match(await outcome(await one.token(), authenticator({ issuers: [] })), /no token issuer is configured/);
  });
});

describe('JWT_POLICY first-party-jwt', () => {
  it('accepts tokens without an audience, but not those for others', async () => {
    const asked = authenticator({ withoutAudience: true });
    assert.equal(await outcome(await one.token({ aud: undefined }), asked), WEB);
    assert.equal(await outcome(await one.token(), asked), WEB);
    assert.match(await outcome(await one.token({ aud: 'vault' }), asked), /another audience$/);
  });
});
