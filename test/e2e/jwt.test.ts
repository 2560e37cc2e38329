/**
 * End users' tokens as a client sees it (specification "policy-resources": end-user JWT rules, errors), through ctl-discovery, real gateways and
 * real sidecars, with tokens that are signed by real keys, asked by curl. The table of all outcomes is printed at the end.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../harness/index.ts';
import type { Document } from './support/config.ts';
import {
  bearer,
  type Call,
  curl,
  everywhere,
  inSeconds,
  JwtTable,
  type JwtWorld,
  NAMESPACES,
  outcomeOf,
  type Place,
  type Row,
  routes,
  type Site,
  signer,
  startJwtWorld,
} from './support/jwt-world.ts';
import { issuerKey } from './support/key-server.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { eventuallyAll } from './support/traffic.ts';

/** Its keys are fetched. */
const ONE = 'https://one.test';
/** Its keys stand in the policy. */
const TWO = 'two@issuers.test';
/** The same keys, and only for some audiences. */
const THREE = 'three@issuers.test';
const FORBIDDEN = '403 RBAC: access denied';
const MALFORMED = '401 Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections';
const WRONG_AUDIENCE = '401 Audiences in Jwt are not allowed';
const EXPIRED = '401 Jwt is expired';
const OTHER_KEY = "401 Jwks doesn't have key to match kid or alg from Jwt";

const owner = suiteOwner();
const world = lazy<JwtWorld>();
const table = new JwtTable();

before(async () => void world.set(await startJwtWorld(owner)));
after(() => table.print());

const authentication = (...jwtRules: readonly Document[]) =>
  everywhere('RequestAuthentication', 'tokens', { jwtRules });
/** Lets in those alone whom a token names; with paths, only there. */
const tokensOnly = (...paths: readonly string[]) =>
  everywhere('AuthorizationPolicy', 'tokens-only', {
    action: 'DENY',
    rules: [
      {
        from: [{ source: { notRequestPrincipals: ['*'] } }],
        ...(paths.length === 0 ? {} : { to: [{ operation: { paths } }] }),
      },
    ],
  });

function rules(): { one: Document; two: Document; three: Document } {
  const { keys, two } = world.get();
  return {
    one: { issuer: ONE, jwksUri: `${keys.url}/keys` },
    two: { issuer: TWO, jwks: two.jwks },
    three: { issuer: THREE, jwks: two.jwks, audiences: ['shop', 'stock'] },
  };
}

const sitesOf = (place: Place): readonly Site[] => world.get().sites.filter((site) => site.place === place);

/** Rows that hold at gateways and sidecars alike. */
const check = (policy: string, rows: readonly Row[]) => table.check(policy, world.get().sites, rows);

const row = (what: string, expected: string, ...headers: readonly string[]): Row => ({ what, expected, headers });
const none = (expected: string, call: Call = {}): Row => ({ what: `no token${call.path ?? ''}`, expected, ...call });

afterEach(async () => {
  const { config, sites } = world.get();
  await config.apply('routes', routes());
  for (const name of ['tokens', 'access', 'more']) await config.remove(name).catch(() => undefined);
  // Nobody looks at tokens any more.
  await eventuallyAll(sites, async (site) =>
    assert.equal(outcomeOf(await curl(site, { headers: [bearer('token')] })), '200'),
  );
});

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Tokens of every kind, and what comes of them where the three issuers are known. */
async function everyKind(): Promise<Row[]> {
  const { one, two } = world.get();
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
    ['unknown issuer', '401 Jwt issuer is not configured', await two.token({ iss: 'nobody@issuers.test' })],
    ['no issuer', '401 Jwt issuer is not configured', await two.token({ sub: 'me' })],
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
    ['no JSON', '401 Jwt header is an invalid JSON', 'AAAA.AAAA.AAAA'],
  ];
  return [none('200'), ...tokens.map(([what, expected, token]) => row(what, expected, bearer(token)))];
}

describe('what becomes of requests', () => {
  test('without policies nobody looks at tokens', async () => {
    await check('no policy', [none('200'), row('malformed', '200', bearer('token'))]);
  });

  test('RequestAuthentication: a request without token passes, a token that fails validation is 401', async () => {
    const { one, two, three } = rules();
    // What the last rule has against tokens of the others is not the answer to them.
    await world
      .get()
      .config.apply('tokens', ...authentication(one, two, three, { ...three, issuer: 'four@issuers.test' }));
    const rows = await everyKind();
    await check('RequestAuthentication', rows);
    // All services that are bound to a gateway.
    const valid = bearer(await world.get().two.token({ iss: TWO }));
    await table.check('RequestAuthentication, another service of the gateway', sitesOf('gateway'), [
      { ...none('200'), host: 'api.test' },
      { ...row('malformed', MALFORMED, bearer('token')), host: 'api.test' },
      { ...row('valid', '200', valid), host: 'api.test' },
    ]);
  });

  test('and DENY notRequestPrincipals ["*"]: 403 without a valid token', async () => {
    const { one, two, three } = rules();
    await world.get().config.apply('tokens', ...authentication(one, two, three));
    await world.get().config.apply('access', ...tokensOnly());
    const rows = await everyKind();
    await check(
      'with DENY notRequestPrincipals ["*"]',
      rows.map((each) => (each.what === 'no token' ? { ...each, expected: FORBIDDEN } : each)),
    );
  });

  test('and DENY with paths: only these need a token', async () => {
    const { one } = rules();
    const token = await world.get().one.token({ iss: ONE, sub: 'me' });
    await world.get().config.apply('tokens', ...authentication(one));
    await world.get().config.apply('access', ...tokensOnly('/admin', '/private/*'));
    const at = (path: string, expected: string) => none(expected, { path });
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
    await world.get().config.apply('access', ...tokensOnly());
    const token = await world.get().two.token({ iss: TWO, sub: 'me' });
    await check('DENY alone', [none(FORBIDDEN), row('valid', FORBIDDEN, bearer(token))]);
  });
});

test('a policy holds while it is there, as it is: applied, changed, deleted at run time', async () => {
  const { config, two, sites } = world.get();
  const { two: rule } = rules();
  const valid = row('valid', '200', bearer(await two.token({ iss: TWO })));
  const bad = (expected: string) => row('malformed', expected, bearer('token'));
  await check('before', [none('200'), bad('200'), valid]);
  await config.apply('tokens', ...authentication(rule));
  await check('applied', [none('200'), bad(MALFORMED), valid]);
  await config.apply('tokens', ...authentication({ ...rule, issuer: 'other@issuers.test' }));
  await check('changed to another issuer', [
    bad(MALFORMED),
    { ...valid, expected: '401 Jwt issuer is not configured' },
  ]);
  await config.apply('tokens', ...authentication({ ...rule, jwks: (await signer('ES256', 'new')).jwks }));
  await check('changed to other keys', [bad(MALFORMED), { ...valid, expected: OTHER_KEY }]);
  // One that is refused does not replace it.
  await config.apply('tokens', ...authentication({ ...rule, jwks: '{"keys":[]}' }));
  await eventually(() => assert.match(world.get().discovery().output(), /jwks.*expected a JSON Web Key Set/));
  assert.deepEqual(
    await Promise.all(sites.map(async (site) => outcomeOf(await curl(site, bad(''))))),
    sites.map(() => MALFORMED),
  );
  await config.apply('tokens', ...authentication());
  await check('changed to no rules', [none('200'), bad('200'), valid]);
  await config.apply('tokens', ...authentication(rule));
  await check('changed back', [none('200'), bad(MALFORMED), valid]);
  await config.remove('tokens');
  await check('deleted', [none('200'), bad('200'), valid]);
});

test('policies are of the namespace of those whom they hold for, or of the root namespace', async () => {
  const { config } = world.get();
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
    for (const place of Object.keys(NAMESPACES) as Place[]) await table.check(policy, sitesOf(place), [bad(at[place])]);
  }
});

describe('time', () => {
  /** Asks until some seconds have passed since `moment` (seconds since 1970), and gives what was answered before and from then on. */
  async function around(moment: number, token: string): Promise<{ before: Set<string>; from: Set<string> }> {
    const seen = { before: new Set<string>(), from: new Set<string>() };
    const call = { headers: [bearer(token)] };
    await Promise.all(
      world.get().sites.map(async (site) => {
        while (Date.now() < (moment + 3) * 1000) {
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
    await world.get().config.apply('tokens', ...authentication(rules().two));
    await check('RequestAuthentication', [row('malformed', MALFORMED, bearer('token'))]);
    const exp = inSeconds(4);
    const seen = await around(exp, await world.get().two.token({ iss: TWO, exp }));
    assert.deepEqual(seen, { before: new Set(['200']), from: new Set([EXPIRED]) });
    const late = await curl(sitesOf('gateway')[0] ?? assert.fail(), {
      headers: [bearer(await world.get().two.token({ iss: TWO, exp }))],
    });
    assert.match(String(late.headers['www-authenticate']), /^Bearer .*error="invalid_token"$/);
  });

  test('a token is taken from the second at which it is valid, and not before', async () => {
    await world.get().config.apply('tokens', ...authentication(rules().two));
    await check('RequestAuthentication', [row('malformed', MALFORMED, bearer('token'))]);
    const nbf = inSeconds(4);
    const seen = await around(nbf, await world.get().two.token({ iss: TWO, nbf }));
    assert.deepEqual(seen, { before: new Set(['401 Jwt not yet valid']), from: new Set(['200']) });
  });
});

describe('where tokens are', () => {
  test('in the header and the parameter that are usual, when a rule does not say', async () => {
    await world.get().config.apply('tokens', ...authentication(rules().two));
    const token = await world.get().two.token({ iss: TWO });
    const parameter = (what: string, expected: string, text: string, ...headers: string[]): Row => ({
      ...row(what, expected, ...headers),
      path: `/?a=1&access_token=${text}&b=2`,
    });
    await check('the usual places', [
      row('header', '200', bearer(token)),
      parameter('parameter', '200', token),
      parameter('malformed parameter', MALFORMED, 'token'),
      parameter('a good header, a malformed parameter', MALFORMED, 'token', bearer(token)),
      parameter('a malformed header, a good parameter', MALFORMED, token, bearer('token')),
      row('a header of another scheme', '200', 'Authorization: Basic bWU6bWU='),
      row('another header', '200', 'x-token: token'),
    ]);
  });

  test('where the rule says, and nowhere else', async () => {
    const { config, two } = world.get();
    const token = await two.token({ iss: TWO });
    const places = {
      fromHeaders: [{ name: 'x-token' }, { name: 'X-Prefixed', prefix: 'Token ' }],
      fromParams: ['token'],
      fromCookies: ['token'],
    };
    await config.apply('tokens', ...authentication({ ...rules().two, ...places }));
    await check('fromHeaders, fromParams, fromCookies', [
      ...[
        (text: string) => `x-token: ${text}`,
        (text: string) => `x-prefixed: Token ${text}`,
        (text: string) => `Cookie: a=b; token=${text}; c=d`,
      ].flatMap((header) => [
        row(`good ${header('…')}`, '200', header(token)),
        row(`malformed ${header('…')}`, MALFORMED, header('text')),
      ]),
      { what: 'good parameter', expected: '200', path: `/?token=${token}` },
      { what: 'malformed parameter', expected: MALFORMED, path: '/?token=text' },
      row('malformed in the usual header', '200', bearer('text')),
      { what: 'malformed in the usual parameter', expected: '200', path: '/?access_token=text' },
    ]);
  });

  test('two issuers with places of their own: both have to be good', async () => {
    const { config, one, two } = world.get();
    const own = { ...rules().two, fromHeaders: [{ name: 'x-two' }] };
    await config.apply('tokens', ...authentication(rules().one, own));
    const [first, second] = [bearer(await one.token({ iss: ONE })), `x-two: ${await two.token({ iss: TWO })}`];
    await check('one in Authorization, two in x-two', [
      none('200'),
      row('the first alone', '200', first),
      row('the second alone', '200', second),
      row('both', '200', first, second),
      row('the first, and the second malformed', MALFORMED, first, 'x-two: token'),
      row('the first malformed, and the second', MALFORMED, bearer('token'), second),
      row(
        'the first, and the second expired',
        EXPIRED,
        first,
        `x-two: ${await two.token({ iss: TWO, exp: inSeconds(-5) })}`,
      ),
      row(
        'the first in the place of the second',
        '401 Jwt issuer is not configured',
        `x-two: ${await one.token({ iss: ONE })}`,
      ),
    ]);
  });

  test('two rules of one issuer: keys and audiences of either', async () => {
    const { config, one, two } = world.get();
    const rule = (jwks: string, audience: string) => ({ issuer: TWO, jwks, audiences: [audience] });
    await config.apply(
      'tokens',
      ...everywhere('RequestAuthentication', 'tokens', { jwtRules: [rule(one.jwks, 'shop')] }),
    );
    await config.apply('more', ...everywhere('RequestAuthentication', 'more', { jwtRules: [rule(two.jwks, 'stock')] }));
    // Of several reasons against a token the last rule's is said.
    await check('the same issuer in two policies', [
      row('first keys, first audience', '200', bearer(await one.token({ iss: TWO, aud: 'shop' }))),
      row('second keys, second audience', '200', bearer(await two.token({ iss: TWO, aud: 'stock' }))),
      row('first keys, second audience', WRONG_AUDIENCE, bearer(await one.token({ iss: TWO, aud: 'stock' }))),
      row('second keys, first audience', OTHER_KEY, bearer(await two.token({ iss: TWO, aud: 'shop' }))),
    ]);
    // A token that one rule refuses and another takes has not failed: who is refused later is told so.
    const refuse = { action: 'DENY', rules: [{ from: [{ source: { requestPrincipals: [`${TWO}/me`] } }] }] };
    await config.apply('access', ...everywhere('AuthorizationPolicy', 'access', refuse));
    await check('and a DENY for the principal', [
      row('second keys, second audience', FORBIDDEN, bearer(await two.token({ iss: TWO, aud: 'stock', sub: 'me' }))),
      row('somebody else', '200', bearer(await two.token({ iss: TWO, aud: 'stock', sub: 'you' }))),
    ]);
  });
});

describe('what the application sees', () => {
  /** Waits until the rules hold at all sites, then gives what the backend saw of the call at each. */
  async function seenOf(call: Call): Promise<readonly { url: string; headers: Readonly<Record<string, unknown>> }[]> {
    const { sites } = world.get();
    await eventuallyAll(sites, async (site) =>
      assert.equal(outcomeOf(await curl(site, { headers: [bearer('token')] })), MALFORMED),
    );
    return Promise.all(
      sites.map(async (site) => {
        const { seen, status, body } = await curl(site, call);
        if (seen === undefined) throw new Error(`${site.proxy.name}: ${status} ${body}`);
        return { url: seen.path, headers: seen.headers };
      }),
    );
  }

  test('no token, unless the rule wants it forwarded', async () => {
    const { config, two } = world.get();
    const token = await two.token({ iss: TWO });
    const [header, parameter] = [{ headers: [bearer(token)] }, { path: `/p?a=1&access_token=${token}&b=2` }];
    await config.apply('tokens', ...authentication(rules().two));
    for (const { headers } of await seenOf(header)) assert.equal(headers.authorization, undefined);
    for (const { url } of await seenOf(parameter)) assert.equal(url, '/p?a=1&b=2');
    await config.apply(
      'tokens',
      ...authentication({
        ...rules().two,
        forwardOriginalToken: true,
        fromParams: ['access_token'],
        fromHeaders: [{ name: 'Authorization', prefix: 'Bearer ' }],
      }),
    );
    await eventually(async () => {
      for (const { headers } of await seenOf(header)) assert.equal(headers.authorization, `Bearer ${token}`);
      for (const { url } of await seenOf(parameter)) assert.equal(url, parameter.path);
    });
  });

  const OUTPUT = {
    outputPayloadToHeader: 'x-payload',
    outputClaimToHeaders: [
      { header: 'x-user', claim: 'sub' },
      { header: 'x-group', claim: 'nested.group' },
      { header: 'x-admin', claim: 'admin' },
    ],
  };
  const FORGED = ['x-payload: forged', 'X-User: forged', 'x-group: forged', 'x-admin: forged'];
  const outputs = (headers: Readonly<Record<string, unknown>>) =>
    ['x-payload', 'x-user', 'x-group', 'x-admin'].map((name) => headers[name]);

  test('the claims of a good token, and never what a client writes in their headers', async () => {
    const { config, one, two } = world.get();
    const claims = { iss: TWO, sub: 'me', exp: inSeconds(3600), nested: { group: 'staff' }, admin: true };
    await config.apply('tokens', ...authentication({ ...rules().two, ...OUTPUT }, rules().one));
    const token = await two.token(claims);
    for (const { headers } of await seenOf({ headers: [bearer(token), ...FORGED] })) {
      assert.deepEqual(outputs(headers), [token.split('.')[1], 'me', 'staff', 'true']);
    }
    const nothing = [undefined, undefined, undefined, undefined];
    const preflight = [...FORGED, 'Origin: http://a.test', 'Access-Control-Request-Method: GET'];
    for (const call of [
      { headers: FORGED },
      // Of an issuer whose rule tells nothing.
      { headers: [...FORGED, bearer(await one.token({ iss: ONE, sub: 'you' }))] },
      { headers: preflight, method: 'OPTIONS' },
    ]) {
      for (const { headers } of await seenOf(call)) assert.deepEqual(outputs(headers), nothing);
    }
    const [payload] = await seenOf({ headers: [...FORGED, bearer(await two.token({ iss: TWO, sub: 'you' }))] });
    assert.deepEqual(outputs(payload?.headers ?? {}).slice(1), ['you', undefined, undefined]);
  });

  test('routes are chosen by the claims of a good token, and never by what a client writes there', async () => {
    const { config, two } = world.get();
    const gold = { match: [{ headers: { 'x-user': { exact: 'gold' } } }], directResponse: { status: 299 } };
    await config.apply('routes', routes(gold));
    await config.apply('tokens', ...authentication({ ...rules().two, ...OUTPUT }));
    await table.check('a route for x-user: gold', sitesOf('gateway'), [
      none('200'),
      row('forged', '200', 'x-user: gold'),
      row('forged beside a token', '200', 'x-user: gold', bearer(await two.token({ iss: TWO, sub: 'me' }))),
      row('by a token', '299', bearer(await two.token({ iss: TWO, sub: 'gold' }))),
    ]);
  });

  test('preflights without token, and what is in them makes nobody of anybody', async () => {
    const { config } = world.get();
    const preflight = { method: 'OPTIONS', headers: ['Origin: http://a.test', 'Access-Control-Request-Method: GET'] };
    await config.apply('tokens', ...authentication(rules().two));
    await check('preflight', [{ what: 'no token', expected: '200', ...preflight }]);
    await config.apply('access', ...tokensOnly());
    await check('preflight, with DENY notRequestPrincipals ["*"]', [
      { what: 'malformed', expected: FORBIDDEN, ...preflight, headers: [...preflight.headers, bearer('token')] },
    ]);
  });
});

test('keys that are not known refuse the tokens of their issuer, and nothing else suffers', async () => {
  const { config, one, two } = world.get();
  const unknown = { issuer: 'https://unknown.test', jwksUri: 'http://127.0.0.1:1/keys' };
  await config.apply('tokens', ...authentication(unknown, rules().one, rules().two));
  await check('keys of one issuer are not known', [
    none('200'),
    row(
      'of this issuer',
      "401 Jwks doesn't have any valid public key",
      bearer(await one.token({ iss: unknown.issuer })),
    ),
    row('of the others', '200', bearer(await one.token({ iss: ONE }))),
    row('of the others, EC', '200', bearer(await two.token({ iss: TWO }))),
    row('malformed', MALFORMED, bearer('token')),
  ]);
});

test('an odd key beside good ones costs nobody anything', async () => {
  const { config, two } = world.get();
  const odd = [
    { kty: 'odd' },
    { kty: 'RSA', n: 5, e: 'AQAB' },
    'text',
    { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'two' },
  ];
  const jwks = JSON.stringify({ keys: [...odd, ...JSON.parse(two.jwks).keys] });
  await config.apply('tokens', ...authentication({ issuer: TWO, jwks }));
  await check('odd keys', [
    row('valid', '200', bearer(await two.token({ iss: TWO }))),
    row('malformed', MALFORMED, bearer('token')),
  ]);
});

test('tokens of ctl-jwt', async (t) => {
  const { config } = world.get();
  const key = await issuerKey(t, 'own');
  const issuer = 'testing@secure.mesh.io';
  await config.apply('tokens', ...authentication({ issuer, jwks: key.jwks, audiences: ['shop'] }));
  await config.apply('access', ...tokensOnly());
  await check('ctl-jwt', [
    row('--aud shop', '200', bearer(await key.token('--aud', 'shop'))),
    row('--aud other', WRONG_AUDIENCE, bearer(await key.token('--aud', 'other'))),
    row('--aud shop --expire -5', EXPIRED, bearer(await key.token('--aud', 'shop', '--expire=-5'))),
    row(
      '--aud shop --iss other',
      '401 Jwt issuer is not configured',
      bearer(await key.token('--aud', 'shop', '--iss', 'other')),
    ),
    none(FORBIDDEN),
  ]);
});
