/**
 * Locations of end users' tokens, what applications see of tokens and of forged headers, and unknown keys: at real
 * gateways and sidecars, called by curl. The table of all outcomes is printed at the end.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../harness/index.ts';
import {
  bearer,
  type Call,
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
import { authentication, everywhere, inSeconds, ONE, routes, TWO, tokensOnly } from './support/jwt-world.ts';
import { eventuallyAll } from './support/traffic.ts';

const { world, rules, check } = jwtSuite();

describe('token locations', () => {
  test('by default in the Authorization header and the parameter access_token', async () => {
    await world().config.apply('tokens', ...authentication(rules().two));
    const token = await world().two.token({ iss: TWO });
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

  test('in the locations of the rule, and nowhere else', async () => {
    const { config, two } = world();
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

  test('two issuers with different locations: both tokens must be valid', async () => {
    const { config, one, two } = world();
    const own = { ...rules().two, fromHeaders: [{ name: 'x-two' }] };
    await config.apply('tokens', ...authentication(rules().one, own));
    const [first, second] = [bearer(await one.token({ iss: ONE })), `x-two: ${await two.token({ iss: TWO })}`];
    await check('one in Authorization, two in x-two', [
      noToken('200'),
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
      row('the first in the place of the second', UNKNOWN_ISSUER, `x-two: ${await one.token({ iss: ONE })}`),
    ]);
  });

  test('two rules of one issuer: keys and audiences of either', async () => {
    const { config, one, two } = world();
    const rule = (jwks: string, audience: string) => ({ issuer: TWO, jwks, audiences: [audience] });
    await config.apply(
      'tokens',
      ...everywhere('RequestAuthentication', 'tokens', { jwtRules: [rule(one.jwks, 'shop')] }),
    );
    await config.apply('more', ...everywhere('RequestAuthentication', 'more', { jwtRules: [rule(two.jwks, 'stock')] }));
    // Of several reasons against a token the answer has that of the last rule.
    await check('the same issuer in two policies', [
      row('first keys, first audience', '200', bearer(await one.token({ iss: TWO, aud: 'shop' }))),
      row('second keys, second audience', '200', bearer(await two.token({ iss: TWO, aud: 'stock' }))),
      row('first keys, second audience', WRONG_AUDIENCE, bearer(await one.token({ iss: TWO, aud: 'stock' }))),
      row('second keys, first audience', OTHER_KEY, bearer(await two.token({ iss: TWO, aud: 'shop' }))),
    ]);
    // A token that one rule refuses and another accepts is valid: a later refusal has its own reason.
    const refuse = { action: 'DENY', rules: [{ from: [{ source: { requestPrincipals: [`${TWO}/me`] } }] }] };
    await config.apply('access', ...everywhere('AuthorizationPolicy', 'access', refuse));
    await check('and a DENY for the principal', [
      row('second keys, second audience', FORBIDDEN, bearer(await two.token({ iss: TWO, aud: 'stock', sub: 'me' }))),
      row('somebody else', '200', bearer(await two.token({ iss: TWO, aud: 'stock', sub: 'you' }))),
    ]);
  });
});

test('a valid token does not let an unverified second token pass', async () => {
  const { config, two } = world();
  const good = await two.token({ iss: TWO });
  const [head] = good.split('.');
  const other = `${head}.${Buffer.from(JSON.stringify({ iss: TWO, sub: 'admin' })).toString('base64url')}.AAAA`;
  const AMBIGUOUS = '401 Jwt is ambiguous: more than one can be read';
  const places = {
    fromHeaders: [
      { name: 'Authorization', prefix: 'Bearer ' },
      { name: 'Authorization', prefix: 'Token ' },
    ],
    fromParams: ['access_token', 'odd "name\\'],
    fromCookies: ['token'],
  };
  const header = (expected: string, text: string): Row => row(text.replaceAll(good, 'good'), expected, text);
  const query = (expected: string, text: string): Row => ({ what: text, expected, path: `/?${fill(text)}` });
  const fill = (text: string) => text.replaceAll('good', good).replaceAll('other', other);
  const rows = [
    ...['Authorization: Bearer good', 'Authorization: Bearer  good', 'Authorization: Token good'].map((text) =>
      header('200', fill(text)),
    ),
    header('200', `Authorization: Digest username="bear", realm="x"`),
    ...[
      'Authorization: bearer other',
      'Authorization: BEARER other, Bearer good',
      'Authorization: Basic bWU6bWU= Bearer good',
      'Authorization: token other Bearer good',
    ].map((text) => header(AMBIGUOUS, fill(text))),
    ...['access_token=good', 'a=good&access_token=good&b=1;2', 'access=1;token=2', 'odd%20%22name%5C=good'].map(
      (text) => query('200', text),
    ),
    ...[
      'access_token=good&access_token=other',
      'access_token=good&access%5Ftoken=other',
      'access_token=good&access_token[]=other',
      'access_token=good&access_token%5B0%5D=other',
      'access_token=good&access.token=other',
      'access_token=good&access+token=other',
      'access_token=good&x;access_token=other',
      'x;access_token=other',
      'odd+%22name%5C=good&odd+%22name%5C=other',
    ].map((text) => query(AMBIGUOUS, text)),
    ...['Cookie: token=good', 'Cookie: a=1; token=good; b; tokens=2'].map((text) => header('200', fill(text))),
    header(AMBIGUOUS, fill('Cookie: token=good; token=other')),
    header(AMBIGUOUS, fill('Cookie: a=1; token=good; b=2;token = other')),
    row('two Cookie headers', AMBIGUOUS, `Cookie: token=${good}`, `Cookie: token=${other}`),
  ];
  await config.apply('tokens', ...authentication({ ...rules().two, ...places, forwardOriginalToken: true }));
  await check('forwarded', rows);
});

describe('what the application sees', () => {
  /** Waits until the rules are in force at all sites, then returns the request that the backend of each saw. */
  async function seenOf(call: Call): Promise<readonly { url: string; headers: Readonly<Record<string, unknown>> }[]> {
    const { sites } = world();
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

  test('no token, unless the rule forwards it', async () => {
    const { config, two } = world();
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
  const FORGED = ['x-payload: forged', 'X-User: forged', 'x-group: forged', 'x-admin: forged', 'X_User: forged'];
  const outputs = (headers: Readonly<Record<string, unknown>>) =>
    ['x-payload', 'x-user', 'x-group', 'x-admin', 'x_user'].map((name) => headers[name]);

  test('the claims of a valid token, and never what a client writes into their headers', async () => {
    const { config, one, two } = world();
    const claims = { iss: TWO, sub: 'me', exp: inSeconds(3600), nested: { group: 'staff' }, admin: true };
    await config.apply('tokens', ...authentication({ ...rules().two, ...OUTPUT }, rules().one));
    const token = await two.token(claims);
    for (const { headers } of await seenOf({ headers: [bearer(token), ...FORGED] })) {
      assert.deepEqual(outputs(headers), [token.split('.')[1], 'me', 'staff', 'true', undefined]);
    }
    const nothing = outputs({});
    const preflight = [...FORGED, 'Origin: http://a.test', 'Access-Control-Request-Method: GET'];
    for (const call of [
      { headers: FORGED },
      // Of an issuer whose rule outputs no claims.
      { headers: [...FORGED, bearer(await one.token({ iss: ONE, sub: 'you' }))] },
      { headers: preflight, method: 'OPTIONS' },
    ]) {
      for (const { headers } of await seenOf(call)) assert.deepEqual(outputs(headers), nothing);
    }
    const [payload] = await seenOf({ headers: [...FORGED, bearer(await two.token({ iss: TWO, sub: 'you' }))] });
    assert.deepEqual(outputs(payload?.headers ?? {}).slice(1), ['you', undefined, undefined, undefined]);
  });

  test('routes are chosen by the claims of a valid token, and never by what a client writes there', async () => {
    const { config, two } = world();
    const gold = { match: [{ headers: { 'x-user': { exact: 'gold' } } }], directResponse: { status: 299 } };
    await config.apply('routes', routes(gold));
    await config.apply('tokens', ...authentication({ ...rules().two, ...OUTPUT }));
    await check(
      'a route for x-user: gold',
      [
        noToken('200'),
        row('forged', '200', 'x-user: gold'),
        row('forged beside a token', '200', 'x-user: gold', bearer(await two.token({ iss: TWO, sub: 'me' }))),
        row('by a token', '299', bearer(await two.token({ iss: TWO, sub: 'gold' }))),
      ],
      'gateway',
    );
  });

  test('preflights pass without a token, and a token in them gives no principal', async () => {
    const { config } = world();
    const preflight = { method: 'OPTIONS', headers: ['Origin: http://a.test', 'Access-Control-Request-Method: GET'] };
    await config.apply('tokens', ...authentication(rules().two));
    await check('preflight', [{ what: 'no token', expected: '200', ...preflight }]);
    await config.apply('access', ...tokensOnly());
    await check('preflight, with DENY notRequestPrincipals ["*"]', [
      { what: 'malformed', expected: FORBIDDEN, ...preflight, headers: [...preflight.headers, bearer('token')] },
    ]);
  });
});

test('tokens of an issuer with unknown keys are refused, and nothing else is affected', async () => {
  const { config, one, two } = world();
  const unknown = { issuer: 'https://unknown.test', jwksUri: 'http://127.0.0.1:1/keys' };
  await config.apply('tokens', ...authentication(unknown, rules().one, rules().two));
  await check('keys of one issuer are not known', [
    noToken('200'),
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

test('an unusable key beside valid ones has no effect', async () => {
  const { config, two } = world();
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
