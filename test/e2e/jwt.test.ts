/**
 * End users' tokens as a client sees them, through ctl-discovery, real gateways and real sidecars, with really signed
 * tokens, called by curl. The table of all outcomes is printed at the end.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../harness/index.ts';
import {
  bearer,
  curl,
  EXPIRED,
  FORBIDDEN,
  MALFORMED,
  noToken,
  OTHER_KEY,
  outcomeOf,
  type Row,
  row,
  UNKNOWN_ISSUER,
  WRONG_AUDIENCE,
} from './support/jwt-calls.ts';
import { jwtSuite } from './support/jwt-suite.ts';
import {
  authentication,
  inSeconds,
  NAMESPACES,
  ONE,
  type Place,
  signer,
  THREE,
  TWO,
  tokensOnly,
} from './support/jwt-world.ts';
import { issuerKey } from './support/key-server.ts';

const { world, rules, sitesOf, check } = jwtSuite();

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Tokens of every kind, and their outcome where the three issuers are known. */
async function everyKind(): Promise<Row[]> {
  const { one, two } = world();
  const stranger = await signer('ES256', 'two');
  const hmac = `${encoded({ alg: 'HS256', kid: 'one' })}.${encoded({ iss: ONE, exp: inSeconds(600) })}`;
  const valid = await two.token({ iss: TWO });
  const [head = '', , signature = ''] = valid.split('.');
  const tokens: readonly (readonly [what: string, expected: string, token: string])[] = [
    ['valid, RSA', '200', await one.token({ iss: ONE, sub: 'me' })],
    ['valid, EC', '200', valid],
    ['valid for ever', '200', await two.token({ iss: TWO, exp: undefined })],
    ['valid for one of the audiences', '200', await two.token({ iss: THREE, aud: ['other', 'stock'] })],
    ['bad signature', '401 Jwt verification fails', await stranger.token({ iss: TWO })],
    [
      'claims changed after signing',
      '401 Jwt verification fails',
      `${head}.${encoded({ iss: TWO, sub: 'admin' })}.${signature}`,
    ],
    ["wrong issuer: signed by another's key", OTHER_KEY, await two.token({ iss: ONE })],
    ['unknown key', OTHER_KEY, await two.token({ iss: TWO }, { kid: 'three' })],
    ['unknown issuer', UNKNOWN_ISSUER, await two.token({ iss: 'nobody@issuers.test' })],
    ['no issuer', UNKNOWN_ISSUER, await two.token({ sub: 'me' })],
    ['wrong audience', WRONG_AUDIENCE, await two.token({ iss: THREE, aud: 'other' })],
    ['no audience', WRONG_AUDIENCE, await two.token({ iss: THREE })],
    ['expired, RSA', EXPIRED, await one.token({ iss: ONE, exp: inSeconds(-1) })],
    ['expired, EC', EXPIRED, await two.token({ iss: TWO, exp: inSeconds(-3600) })],
    ['expired in 1970', EXPIRED, await two.token({ iss: TWO, exp: 0 })],
    ['not yet valid', '401 Jwt not yet valid', await two.token({ iss: TWO, nbf: inSeconds(600) })],
    ['alg none', MALFORMED, `${encoded({ alg: 'none' })}.${encoded({ iss: ONE, exp: inSeconds(600) })}.`],
    [
      'alg none, with a signature',
      '401 Jwt header [alg] is not supported',
      `${encoded({ alg: 'none' })}.${encoded({ iss: ONE, exp: inSeconds(600) })}.AAAA`,
    ],
    [
      'HS256 with the public key as secret',
      OTHER_KEY,
      `${hmac}.${createHmac('sha256', one.jwks).update(hmac).digest('base64url')}`,
    ],
    ['malformed', MALFORMED, 'token'],
    ['two in one header', MALFORMED, `${valid}, Bearer ${valid}`],
    [
      'claims that never end',
      '401 Jwt payload is an invalid JSON',
      `${head}.${Buffer.from(`{"iss":"${TWO}","deep":${'['.repeat(9000)}`).toString('base64url')}.AAAA`,
    ],
    ['no JSON', '401 Jwt header is an invalid JSON', 'AAAA.AAAA.AAAA'],
  ];
  return [noToken('200'), ...tokens.map(([what, expected, token]) => row(what, expected, bearer(token)))];
}

describe('outcomes of requests', () => {
  test('without policies tokens are ignored', async () => {
    await check('no policy', [noToken('200'), row('malformed', '200', bearer('token'))]);
  });

  test('RequestAuthentication: a request without a token passes, an invalid token is 401', async () => {
    const { one, two, three } = rules();
    // A token of another issuer is not answered with the reason of the last rule.
    await world().config.apply('tokens', ...authentication(one, two, three, { ...three, issuer: 'four@issuers.test' }));
    const rows = await everyKind();
    await check('RequestAuthentication', rows);
    // For all services that are bound to a gateway.
    const valid = bearer(await world().two.token({ iss: TWO }));
    await check(
      'RequestAuthentication, another service of the gateway',
      [
        { ...noToken('200'), host: 'api.test' },
        { ...row('malformed', MALFORMED, bearer('token')), host: 'api.test' },
        { ...row('valid', '200', valid), host: 'api.test' },
      ],
      'gateway',
    );
  });

  test('and DENY notRequestPrincipals ["*"]: 403 without a valid token', async () => {
    const { one, two, three } = rules();
    await world().config.apply('tokens', ...authentication(one, two, three));
    await world().config.apply('access', ...tokensOnly());
    const rows = await everyKind();
    await check(
      'with DENY notRequestPrincipals ["*"]',
      rows.map((each) => (each.what === 'no token' ? { ...each, expected: FORBIDDEN } : each)),
    );
  });

  test('and DENY with paths: only these need a token', async () => {
    const { one } = rules();
    const token = await world().one.token({ iss: ONE, sub: 'me' });
    await world().config.apply('tokens', ...authentication(one));
    await world().config.apply('access', ...tokensOnly('/admin', '/private/*'));
    const at = (path: string, expected: string) => noToken(expected, { path });
    await check('with DENY notRequestPrincipals ["*"] at /admin, /private/*', [
      at('/', '200'),
      at('/admin', FORBIDDEN),
      at('/admin?x=1', FORBIDDEN),
      at('/administrators', '200'),
      at('/private/a/b', FORBIDDEN),
      at('/x/../admin', FORBIDDEN),
      { ...row('valid at /admin', '200', bearer(token)), path: '/admin' },
      { ...row('malformed at /admin', MALFORMED, bearer('token')), path: '/admin' },
      { ...row('malformed at /', MALFORMED, bearer('token')), path: '/' },
    ]);
  });

  test('DENY without RequestAuthentication: nobody has a principal', async () => {
    await world().config.apply('access', ...tokensOnly());
    const token = await world().two.token({ iss: TWO, sub: 'me' });
    await check('DENY alone', [noToken(FORBIDDEN), row('valid', FORBIDDEN, bearer(token))]);
  });
});

test('a policy can be applied, changed and deleted at run time', async () => {
  const { config, two, sites } = world();
  const { two: rule } = rules();
  const valid = row('valid', '200', bearer(await two.token({ iss: TWO })));
  const bad = (expected: string) => row('malformed', expected, bearer('token'));
  await check('before', [noToken('200'), bad('200'), valid]);
  await config.apply('tokens', ...authentication(rule));
  await check('applied', [noToken('200'), bad(MALFORMED), valid]);
  await config.apply('tokens', ...authentication({ ...rule, issuer: 'other@issuers.test' }));
  await check('changed to another issuer', [bad(MALFORMED), { ...valid, expected: UNKNOWN_ISSUER }]);
  await config.apply('tokens', ...authentication({ ...rule, jwks: (await signer('ES256', 'new')).jwks }));
  await check('changed to other keys', [bad(MALFORMED), { ...valid, expected: OTHER_KEY }]);
  // A refused version does not replace it.
  await config.apply('tokens', ...authentication({ ...rule, jwks: '{"keys":[]}' }));
  await eventually(() => assert.match(world().discovery().output(), /jwks.*expected a JSON Web Key Set/));
  assert.deepEqual(
    await Promise.all(sites.map(async (site) => outcomeOf(await curl(site, bad(''))))),
    sites.map(() => MALFORMED),
  );
  await config.apply('tokens', ...authentication());
  await check('changed to no rules', [noToken('200'), bad('200'), valid]);
  await config.apply('tokens', ...authentication(rule));
  await check('changed back', [noToken('200'), bad(MALFORMED), valid]);
  await config.remove('tokens');
  await check('deleted', [noToken('200'), bad('200'), valid]);
});

test('policies apply to workloads of their own namespace, or to all from the root namespace', async () => {
  const { config } = world();
  const [gateways, sidecars] = authentication(rules().two);
  const bad = (expected: string) => row('malformed', expected, bearer('token'));
  for (const [policy, document, at] of [
    ["in the gateways' namespace", gateways, { gateway: MALFORMED, sidecar: '200' }],
    ["in the sidecars' namespace", sidecars, { gateway: '200', sidecar: MALFORMED }],
    [
      'in the root namespace',
      { ...gateways, metadata: { name: 'tokens', namespace: 'mesh-system' } },
      { gateway: MALFORMED, sidecar: MALFORMED },
    ],
  ] as const) {
    await config.apply('tokens', document ?? {});
    for (const place of Object.keys(NAMESPACES) as Place[]) await check(policy, [bad(at[place])], place);
  }
});

describe('time', () => {
  interface Seen {
    readonly before: Set<string>;
    readonly from: Set<string>;
  }

  /**
   * Calls with a token until some seconds after a moment, and returns the answers before it and from then on. On a slow
   * machine the first answers may come after the moment: then it chooses a later one.
   * @param tokenOf a token for a moment in seconds since 1970
   */
  async function around(tokenOf: (moment: number) => Promise<string>): Promise<Seen> {
    for (const seconds of [4, 15]) {
      const moment = inSeconds(seconds);
      const seen = await answersAround(moment, await tokenOf(moment));
      if (seen.before.size > 0) return seen;
    }
    const moment = inSeconds(60);
    return await answersAround(moment, await tokenOf(moment));
  }

  async function answersAround(moment: number, token: string): Promise<Seen> {
    const seen = { before: new Set<string>(), from: new Set<string>() };
    const call = { headers: [bearer(token)] };
    await Promise.all(
      world().sites.map(async (site) => {
        while (Date.now() < (moment + 3) * 1000 || seen.from.size === 0) {
          const asked = Date.now();
          const outcome = outcomeOf(await curl(site, call));
          if (Date.now() < moment * 1000) seen.before.add(outcome);
          // The clock of Envoy's machine, which is this one's, may be read some milliseconds late.
          else if (asked >= moment * 1000 + 20) seen.from.add(outcome);
          await sleep(50);
        }
      }),
    );
    return seen;
  }

  test('a token is refused from the second at which it expires', async () => {
    await world().config.apply('tokens', ...authentication(rules().two));
    await check('RequestAuthentication', [row('malformed', MALFORMED, bearer('token'))]);
    const expiring = (exp: number) => world().two.token({ iss: TWO, exp });
    assert.deepEqual(await around(expiring), { before: new Set(['200']), from: new Set([EXPIRED]) });
    const late = await curl(sitesOf('gateway')[0] ?? assert.fail(), {
      headers: [bearer(await expiring(inSeconds(-1)))],
    });
    assert.match(String(late.headers['www-authenticate']), /^Bearer .*error="invalid_token"$/);
  });

  test('a token is accepted from the second at which it becomes valid, and not before', async () => {
    await world().config.apply('tokens', ...authentication(rules().two));
    await check('RequestAuthentication', [row('malformed', MALFORMED, bearer('token'))]);
    const beginning = (nbf: number) => world().two.token({ iss: TWO, nbf });
    assert.deepEqual(await around(beginning), { before: new Set(['401 Jwt not yet valid']), from: new Set(['200']) });
  });
});

test('tokens of ctl-jwt are accepted', async (t) => {
  const { config } = world();
  const key = await issuerKey(t, 'own');
  const issuer = 'testing@secure.mesh.io';
  await config.apply('tokens', ...authentication({ issuer, jwks: key.jwks, audiences: ['shop'] }));
  await config.apply('access', ...tokensOnly());
  await check('ctl-jwt', [
    row('--aud shop', '200', bearer(await key.token('--aud', 'shop'))),
    row('--aud other', WRONG_AUDIENCE, bearer(await key.token('--aud', 'other'))),
    row('--aud shop --expire -5', EXPIRED, bearer(await key.token('--aud', 'shop', '--expire=-5'))),
    row('--aud shop --iss other', UNKNOWN_ISSUER, bearer(await key.token('--aud', 'shop', '--iss', 'other'))),
    noToken(FORBIDDEN),
  ]);
});
