import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { envoy } from '../../../protobuf/index.ts';
import type { JwtRule } from '../../../resources/kinds/schemas.ts';
import { EARLY_HEADER_MUTATION, LUA_FILTER } from '../../filters/extensions.ts';
import { MeshReader } from '../../reads/index.ts';
import {
  authentication,
  authenticationOf,
  fetched,
  requirementText,
  someKeys,
  viewIn,
} from '../../testing/authentication.ts';
import { meshOf } from '../../testing/mesh.ts';
import type { HttpFilter } from '../types.ts';
import { tokenFilters, tokenManagerFields } from './index.ts';

const KEYS = someKeys('one');
const URI = 'https://issuer.test/keys';

const names = (filters: readonly HttpFilter[]) => filters.map(({ name }) => name);

/** What jwt_authn requires of requests where these rules apply. */
function demanded(...rules: readonly Partial<JwtRule>[]): string {
  const mesh = meshOf([
    authentication(
      'p',
      rules.map((rule) => ({ issuer: 'a', jwks: KEYS, ...rule })),
    ),
  ]);
  return requirementText(authenticationOf(mesh));
}

/** The provider of a rule. */
function providerOf(rule: Partial<JwtRule>) {
  const mesh = meshOf([authentication('p', [{ issuer: 'a', jwks: KEYS, ...rule }])]);
  const provider = authenticationOf(mesh).providers['default/p[0]'];
  assert.ok(provider);
  return provider;
}

describe('the token filter', () => {
  it('is absent without rules', () => {
    for (const resources of [
      [],
      [authentication('p', [])],
      [authentication('p', [{ issuer: 'a', jwks: KEYS }], 'other')],
      [authentication('p', [{ issuer: 'a', jwks: KEYS }], 'default', { app: 'other' })],
    ]) {
      const mesh = meshOf(resources);
      assert.deepEqual(tokenFilters(MeshReader.of(mesh), viewIn(mesh)), []);
      assert.deepEqual(tokenManagerFields(MeshReader.of(mesh), viewIn(mesh)), {});
    }
  });

  it('is absent without the plugin', () => {
    const rule = { issuer: 'a', jwks: KEYS, audiences: ['x'], outputPayloadToHeader: 'x-a' };
    const mesh = meshOf([authentication('p', [rule])], { settings: { plugins: ['authz'] } });
    assert.deepEqual(tokenFilters(MeshReader.of(mesh), viewIn(mesh)), []);
    assert.deepEqual(tokenManagerFields(MeshReader.of(mesh), viewIn(mesh)), {});
  });

  it('accepts requests without token, whatever their path, and requires none of preflights', () => {
    const mesh = meshOf([authentication('p', [{ issuer: 'a', jwks: KEYS }])]);
    const { rules, bypassCorsPreflight } = authenticationOf(mesh);
    assert.deepEqual(
      rules.map(({ match }) => match?.prefix),
      [''],
    );
    assert.equal(bypassCorsPreflight, true);
    assert.equal(demanded({}), 'any(default/p[0], missing)');
  });

  it('has the rules of all policies: of the mesh, of the namespace, of the workload', () => {
    const mesh = meshOf([
      authentication('own', [{ issuer: 'c', jwks: KEYS }], 'default', { app: 'web' }),
      authentication('namespace', [{ issuer: 'b', jwks: KEYS }]),
      authentication('mesh', [{ issuer: 'a', jwks: KEYS }], 'mesh-system'),
    ]);
    const text = requirementText(authenticationOf(mesh, viewIn(mesh, { labels: { app: 'web' } })));
    assert.equal(text, 'any(mesh-system/mesh[0], default/namespace[0], default/own[0], missing)');
  });
});

describe('rules and their token locations', () => {
  const header = (name: string, prefix?: string) => ({
    fromHeaders: [{ name, ...(prefix !== undefined && { prefix }) }],
  });

  for (const [what, rules, expected] of [
    ['the same locations: a token is valid for one of the rules', [{}, {}], 'any(default/p[0], default/p[1], missing)'],
    [
      'the default locations equal the same ones by name',
      [{}, { fromHeaders: [{ name: 'authorization', prefix: 'Bearer ' }], fromParams: ['access_token'] }],
      'any(default/p[0], default/p[1], missing)',
    ],
    [
      'other locations: each token is valid for its own rule',
      [header('x-a'), header('x-b')],
      'all(any(default/p[0], missing), any(default/p[1]@1, missing))',
    ],
    [
      'some locations in common: tokens of one rule are not invalid for the other',
      [{}, { fromHeaders: [{ name: 'Authorization', prefix: 'Bearer ' }, { name: 'x-b' }] }],
      'all(any(default/p[0], default/p[1], missing), any(default/p[0]@1, missing), any(default/p[1]@2, missing))',
    ],
    [
      'a header is one location, whatever the prefix of the token',
      [header('X-Token', 'A '), header('x-token', 'B ')],
      'any(default/p[0], default/p[1], missing)',
    ],
    [
      'a cookie is not a parameter of the same name',
      [{ fromCookies: ['token'] }, { fromParams: ['token'] }],
      'all(any(default/p[0], missing), any(default/p[1]@1, missing))',
    ],
  ] as readonly (readonly [string, readonly Partial<JwtRule>[], string])[]) {
    it(what, () => assert.equal(demanded(...rules), expected));
  }

  it('are divided among the providers of a rule', () => {
    const fromHeaders = [{ name: 'x-a' }, { name: 'x-b', prefix: 'B ' }];
    const mesh = meshOf([
      authentication('p', [
        { issuer: 'a', jwks: KEYS, fromHeaders, fromCookies: ['c'] },
        { issuer: 'b', jwks: KEYS, fromHeaders: [{ name: 'X-B' }] },
      ]),
    ]);
    const { providers } = authenticationOf(mesh);
    const locations = Object.entries(providers).map(([name, provider]) => [
      name,
      ...(provider?.fromHeaders.map((from) => `${from.name}: ${from.valuePrefix}`) ?? []),
      ...(provider?.fromCookies ?? []),
      ...(provider?.fromParams ?? []),
    ]);
    assert.deepEqual(locations, [
      ['default/p[0]', 'x-a: ', 'c'],
      ['default/p[0]@1', 'x-b: B '],
      ['default/p[1]@1', 'X-B: '],
    ]);
  });
});

describe('a rule', () => {
  it('reads the usual token locations', () => {
    const { fromHeaders, fromParams, fromCookies } = providerOf({});
    assert.deepEqual(
      [fromHeaders.map(({ name, valuePrefix }) => name + valuePrefix), fromParams, fromCookies],
      [['AuthorizationBearer '], ['access_token'], []],
    );
  });

  it('keeps the token from the application, and its claims for authorization', () => {
    const { issuer, forward, payloadInMetadata, clockSkewSeconds } = providerOf({});
    assert.deepEqual([issuer, forward, payloadInMetadata, clockSkewSeconds], ['a', false, 'payload', 1]);
    assert.equal(providerOf({ forwardOriginalToken: true }).forward, true);
  });

  it('passes claims to the application', () => {
    const provider = providerOf({
      outputPayloadToHeader: 'x-payload',
      outputClaimToHeaders: [{ header: 'x-group', claim: 'nested.group' }],
      spaceDelimitedClaims: ['roles'],
    });
    assert.equal(provider.forwardPayloadHeader, 'x-payload');
    assert.deepEqual(
      provider.claimToHeaders.map(({ headerName, claimName }) => [headerName, claimName]),
      [['x-group', 'nested.group']],
    );
    assert.deepEqual(provider.normalizePayloadInMetadata?.spaceDelimitedClaims, ['scope', 'permission', 'roles']);
    assert.equal(provider.clearRouteCache, true);
    assert.equal(providerOf({}).clearRouteCache, false);
  });

  it('passes the words of a scope to authorization, once each', () => {
    const claimsOf = (rule: object) => providerOf(rule).normalizePayloadInMetadata?.spaceDelimitedClaims;
    assert.deepEqual(claimsOf({}), ['scope', 'permission']);
    assert.deepEqual(claimsOf({ spaceDelimitedClaims: ['scope'] }), ['scope', 'permission']);
  });

  it('requires its audiences', () => {
    const rule = { issuer: 'a', jwks: KEYS, audiences: ['x', 'y'] };
    const { audiences, failedStatusInMetadata } = providerOf(rule);
    assert.deepEqual([audiences, failedStatusInMetadata], [['x', 'y'], 'failure']);
    const mesh = meshOf([authentication('p', [rule])]);
    const [mapper] = tokenManagerFields(MeshReader.of(mesh), viewIn(mesh)).localReplyConfig?.mappers ?? [];
    assert.equal(mapper?.statusCode?.value, 401);
  });
});

describe('keys', () => {
  const keysOf = (...resources: Parameters<typeof meshOf>[0]) => {
    const provider = authenticationOf(meshOf(resources)).providers['default/p[0]'];
    assert.equal(provider?.remoteJwks, null);
    assert.equal(provider.jwksSourceSpecifier, 'localJwks');
    return provider.localJwks?.inlineString;
  };
  const uri = authentication('p', [{ issuer: 'a', jwksUri: URI }]);

  it('that are fetched are in the filter', () => assert.equal(keysOf(uri, fetched(URI, KEYS)), KEYS));
  it('that are not known yet are absent', () => assert.equal(keysOf(uri, fetched('https://other.test', KEYS)), ''));
  it('of an issuer that cannot be asked are none', () =>
    assert.equal(keysOf(authentication('p', [{ issuer: 'a' }])), ''));
  it('of an issuer with discovery are fetched from there', () => {
    const issuer = 'https://issuer.test';
    assert.equal(keysOf(authentication('p', [{ issuer }]), fetched(`oidc:${issuer}`, KEYS)), KEYS);
  });
  it('of the rule itself are those that Envoy can use; validation refuses private ones', () => {
    const [key] = JSON.parse(KEYS).keys;
    const jwks = JSON.stringify({ keys: [{ ...key, note: 'not sent' }, { kty: 'odd' }] });
    const { kty, kid, crv, x, y } = key;
    assert.deepEqual(JSON.parse(keysOf(authentication('p', [{ issuer: 'a', jwks }])) ?? ''), {
      keys: [{ kty, kid, crv, x, y }],
    });
  });
});

describe('checks that jwt_authn cannot do alone', () => {
  const mesh = meshOf([
    authentication('p', [
      {
        issuer: 'a',
        jwks: KEYS,
        outputPayloadToHeader: 'X-Payload',
        outputClaimToHeaders: [
          { header: 'x-sub', claim: 'sub' },
          { header: 'x-token', claim: 'next' },
        ],
      },
      {
        issuer: 'b',
        jwks: KEYS,
        fromHeaders: [{ name: 'X-Token' }, { name: 'id-token' }],
        outputPayloadToHeader: 'x-payload',
      },
    ]),
  ]);
  const withExtensions = (...extensions: string[]) => viewIn(mesh, { capabilities: { extensions, sds: false } });

  it('are done by other extensions, where the proxy has them', () => {
    assert.deepEqual(names(tokenFilters(MeshReader.of(mesh), withExtensions(LUA_FILTER))), [
      'envoy.filters.http.jwt_authn',
      LUA_FILTER,
    ]);
    assert.deepEqual(names(tokenFilters(MeshReader.of(mesh), withExtensions())), ['envoy.filters.http.jwt_authn']);
    assert.deepEqual(tokenManagerFields(MeshReader.of(mesh), withExtensions(LUA_FILTER)), {});
    assert.deepEqual(Object.keys(tokenManagerFields(MeshReader.of(mesh), withExtensions(EARLY_HEADER_MUTATION))), [
      'earlyHeaderMutationExtensions',
    ]);
  });

  it('output headers of clients are removed, except token locations; other spellings of these are removed too', () => {
    const { HeaderMutation } = envoy.extensions.http.early_header_mutation.header_mutation.v3;
    const [extension] = tokenManagerFields(MeshReader.of(mesh), viewIn(mesh)).earlyHeaderMutationExtensions ?? [];
    const bytes = extension?.typedConfig?.value;
    assert.ok(bytes instanceof Uint8Array);
    assert.deepEqual(
      HeaderMutation.decode(bytes).mutations.map(({ remove }) => remove),
      ['id_token', 'x-payload', 'x-sub', 'x_payload', 'x_sub', 'x_token'],
    );
  });
});
