/** Token exchange and its cache, against endpoints that are slow, lie or refuse. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { logLines } from '../identity/testing/log-lines.ts';
import { requestCounters } from './counters.ts';
import { ACCESS_TOKEN_TYPE, type ExchangeRequest, JWT_TYPE, toExchangeRequest } from './oauth.ts';
import type { ExchangePlan } from './plan.ts';
import { json, type Received, startService, type TestService } from './testing/service.ts';
import { tokenExchange } from './token-exchange.ts';
import { createTokenManager } from './token-manager.ts';

const SUBJECT = 'e30.s3cret.x';
const REQUEST: ExchangeRequest = { ...toExchangeRequest(SUBJECT, JWT_TYPE), audience: 'bank', scope: 'read write' };
const ISSUED = { access_token: 'issued', issued_token_type: ACCESS_TOKEN_TYPE, token_type: 'Bearer' };
const START = 1_700_000_000_000;

async function site(t: TestContext, answer: TestService['answer'], plan: Partial<ExchangePlan> = {}) {
  const service = await startService(t, answer);
  const clock: FakeClock = fakeClock({ start: START });
  const counters = requestCounters('token_exchange', () => clock.now());
  const log = logLines();
  const files = new Map([['/client', 'agent:pass word']]);
  const closing = new AbortController();
  const whole: ExchangePlan = {
    endpoint: new URL('token', service.url),
    clientFile: undefined,
    accessTokenEndpoint: undefined,
    audience: '',
    scope: '',
    ...plan,
  };
  const readFile = (file: string) => Promise.resolve(files.get(file) ?? '');
  const exchange = tokenExchange({ plan: whole, counters, readFile, clock, random: () => 0 });
  const manager = createTokenManager({ exchange, clock, log, signal: closing.signal });
  const count = (name: string) => counters.metrics().find((each) => each.name === name)?.value;
  /** Moves the clock over the pauses between attempts until the promise settles. */
  const settled = async <T>(promise: Promise<T>): Promise<T> => {
    let ended = false;
    const done = promise.finally(() => {
      ended = true;
    });
    done.catch(() => undefined);
    // Only as far as a pause needs: tokens expire by this clock.
    await waitUntil(() => ended, { step: () => clock.advance(Math.min(...clock.pending(), 10_000) % 10_000) });
    return done;
  };
  return { service, clock, log, files, manager, count, settled, closing };
}

const parameters = ({ body }: Received): Record<string, string> => Object.fromEntries(new URLSearchParams(body));

test('the request has the parameters of RFC 8693, and the defaults of the plan', async (t) => {
  const { service, manager } = await site(t, json(200, { ...ISSUED, expires_in: 60 }), {
    audience: 'identitynamespace:a:b',
    scope: 'default',
  });
  await manager.token({ ...REQUEST, resource: 'https://bank.example/' }, 'access');
  await manager.token(toExchangeRequest(SUBJECT, JWT_TYPE), 'access');
  const [first, second] = service.received.map(parameters);
  assert.deepEqual(first, {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: SUBJECT,
    subject_token_type: JWT_TYPE,
    audience: 'bank',
    resource: 'https://bank.example/',
    scope: 'read write',
  });
  assert.deepEqual([second?.audience, second?.scope], ['identitynamespace:a:b', 'default']);
});

test('the client of the file authenticates: with a secret in a header, without one by its id', async (t) => {
  const answer = json(200, ISSUED);
  const { service, manager, files } = await site(t, answer, { clientFile: '/client' });
  await manager.token(REQUEST, 'access');
  files.set('/client', 'agent\n');
  await manager.token(REQUEST, 'access');
  const [first, second] = service.received;
  assert.equal(first?.headers.authorization, `Basic ${Buffer.from('agent:pass+word').toString('base64')}`);
  assert.ok(second !== undefined && second.headers.authorization === undefined);
  assert.equal(parameters(second).client_id, 'agent');
  files.set('/client', 'two\nlines');
  await assert.rejects(manager.token(REQUEST, 'access'), { code: 'failed_precondition' });
});

test('the second step asks for the access token of a service account', async (t) => {
  const account = { accessToken: 'of-the-account', expireTime: '2023-11-14T23:13:20.5Z' };
  const accounts = await startService(t, json(200, account));
  const { service, manager, settled } = await site(t, json(200, { ...ISSUED, expires_in: 60 }), {
    accessTokenEndpoint: new URL('v1/sa:generateAccessToken', accounts.url),
  });
  const { token, expiresAt } = await manager.token(REQUEST, 'access');
  assert.deepEqual([token, expiresAt], ['of-the-account', START + 3_600_500]);
  assert.equal(accounts.received[0]?.headers.authorization, 'Bearer issued');
  assert.deepEqual(JSON.parse(accounts.received[0]?.body ?? ''), { scope: ['read', 'write'], lifetime: '3600s' });
  // The authority is sent the token of the first step.
  assert.equal((await manager.token(REQUEST, 'exchanged')).token, 'issued');
  assert.equal(service.received.length, 2);
  accounts.answer = json(200, { ...account, expireTime: 'tomorrow' });
  await assert.rejects(settled(manager.token({ ...REQUEST, audience: 'other' }, 'access')), {
    message: /generateAccessToken returned a token without an expireTime in the future$/,
  });
});

test('a token is kept for equal requests, and one exchange serves concurrent ones', async (t) => {
  const { service, manager } = await site(t, json(200, { ...ISSUED, expires_in: 60 }));
  await Promise.all(Array.from({ length: 20 }, () => manager.token(REQUEST, 'access')));
  await manager.token(REQUEST, 'access');
  assert.equal(service.received.length, 1);
  for (const more of [{ audience: 'other' }, { scope: 'read' }, { subjectToken: 'x' }])
    await manager.token({ ...REQUEST, ...more }, 'access');
  assert.equal(service.received.length, 4);
  assert.equal(manager.status().length, 4);
});

test('a token is renewed in the background before it expires, and used while the endpoint is down', async (t) => {
  const { service, clock, manager, settled, log } = await site(t, json(200, { ...ISSUED, expires_in: 3600 }));
  await manager.token(REQUEST, 'access');
  clock.pass(3_310_000);
  service.answer = json(200, { ...ISSUED, access_token: 'renewed', expires_in: 3600 });
  assert.equal((await manager.token(REQUEST, 'access')).token, 'issued');
  await waitUntil(() => manager.status()[0]?.issuedAt === clock.now());
  assert.equal((await manager.token(REQUEST, 'access')).token, 'renewed');
  assert.equal(service.received.length, 2);

  clock.pass(3_595_000);
  service.answer = json(503, '');
  assert.equal((await settled(manager.token(REQUEST, 'access'))).token, 'renewed');
  assert.match(
    log.lines[0] ?? '',
    /^warn tokens cannot be exchanged: http:\/\/127\.0\.0\.1:\d+\/token returned HTTP 503$/,
  );
  const asked = service.received.length;
  await manager.token(REQUEST, 'access');
  assert.equal(service.received.length, asked, 'renewals pause after a failure');
  clock.pass(10_000);
  await assert.rejects(settled(manager.token(REQUEST, 'access')), { code: 'unavailable' });
  service.answer = json(200, ISSUED);
  await manager.token(REQUEST, 'access');
  assert.equal(log.lines.at(-1), 'info tokens can be exchanged again');
  assert.equal(log.lines.length, 2);
});

test('failures are retried with growing pauses, refusals are not', async (t) => {
  const { service, manager, count, settled } = await site(t, json(503, ''));
  const first = manager.token(REQUEST, 'access');
  await waitUntil(() => service.received.length === 1);
  service.answer = json(200, ISSUED);
  await settled(first);
  const names = ['num_outgoing_requests', 'num_failed_outgoing_requests', 'num_outgoing_retries'];
  assert.deepEqual(names.map(count), [2, 1, 1]);
  service.answer = json(400, { error: 'invalid_target' });
  await assert.rejects(manager.token(REQUEST, 'access'), { name: 'OAuthError', code: 'invalid_target' });
  assert.deepEqual(names.map(count), [3, 2, 1]);
  service.answer = json(500, '');
  await assert.rejects(settled(manager.token(REQUEST, 'access')), { code: 'unavailable' });
  assert.deepEqual(names.map(count), [8, 7, 5]);
});

const FAILURES: Readonly<
  Record<string, readonly [answer: TestService['answer'], requests: number, error: { code: string; message?: RegExp }]>
> = {
  'a text that is not JSON': [
    json(200, `<html>${SUBJECT}`),
    5,
    { code: 'unavailable', message: /returned a body that is not a JSON object$/ },
  ],
  'no token': [
    json(200, { ...ISSUED, access_token: undefined }),
    5,
    { code: 'unavailable', message: /returned no token$/ },
  ],
  'a token with a line break': [json(200, { ...ISSUED, access_token: `${SUBJECT}\n` }), 5, { code: 'unavailable' }],
  'a negative lifetime': [
    json(200, { ...ISSUED, expires_in: -5 }),
    5,
    { code: 'unavailable', message: /an invalid expires_in$/ },
  ],
  'a lifetime of text': [
    json(200, { ...ISSUED, expires_in: SUBJECT }),
    5,
    { code: 'unavailable', message: /an invalid expires_in$/ },
  ],
  'a redirect': [
    json(307, '', { location: 'http://127.0.0.2/' }),
    1,
    { code: 'failed_precondition', message: /returned HTTP 307: redirects are not followed$/ },
  ],
  'a page that is not there': [
    json(404, SUBJECT),
    1,
    { code: 'failed_precondition', message: /returned HTTP 404 without/ },
  ],
  'an error with status 200': [json(200, { error: 'invalid_scope' }), 1, { code: 'invalid_scope' }],
  'an unknown error': [json(400, { error: SUBJECT }), 1, { code: 'failed_precondition', message: /an unknown error$/ }],
  'a refused subject': [json(400, { error: 'invalid_grant' }), 1, { code: 'invalid_request' }],
  'a refused client': [
    json(401, { error: 'invalid_client', error_description: SUBJECT }),
    1,
    { code: 'failed_precondition', message: /rejects this client: invalid_client \(TOKEN_EXCHANGE_CLIENT_FILE\)$/ },
  ],
  'too many requests': [json(429, ''), 5, { code: 'unavailable' }],
  'an endless answer': [json(200, 'x'.repeat(70_000)), 5, { code: 'unavailable', message: /longer than 65536 bytes$/ }],
  'a closed connection': [
    (response) => void response.destroy(),
    5,
    { code: 'unavailable', message: /socket hang up$/ },
  ],
};

for (const [name, [answer, requests, error]] of Object.entries(FAILURES))
  test(`${name} of the endpoint is an error without the token, after ${requests} requests`, async (t) => {
    const { service, manager, log, settled } = await site(t, answer);
    await assert.rejects(settled(manager.token(REQUEST, 'access')), error);
    assert.equal(service.received.length, requests);
    assert.doesNotMatch(log.lines.join('\n'), /s3cret/);
  });

test('a huge lifetime counts as a day, and a token without one is not kept', async (t) => {
  const { service, manager } = await site(t, json(200, { ...ISSUED, expires_in: 1e12 }));
  assert.equal((await manager.token(REQUEST, 'access')).expiresAt, START + 86_400_000);
  service.answer = json(200, ISSUED);
  const other = { ...REQUEST, audience: 'other' };
  assert.equal((await manager.token(other, 'access')).expiresAt, undefined);
  await manager.token(other, 'access');
  assert.equal(service.received.length, 3);
});

test('exchanges at a time and kept tokens are limited', async (t) => {
  const held: (() => void)[] = [];
  const issue = json(200, { ...ISSUED, expires_in: 60 });
  const { manager, service } = await site(t, (response) => void held.push(() => issue(response)));
  const many = Array.from({ length: 17 }, (_, index) => ({ ...REQUEST, audience: `a${index}` }));
  const results = many.map((request) => manager.token(request, 'access'));
  await assert.rejects(results[16] ?? Promise.resolve(), { code: 'resource_exhausted' });
  // The agent's own exchange (PLUGINS) is not refused.
  const own = manager.token(REQUEST, 'exchanged');
  await waitUntil(() => held.length === 17);
  for (const release of held) release();
  await Promise.all([own, ...results.slice(0, 16)]);
  service.answer = issue;
  for (let index = 0; index < 130; index++) await manager.token({ ...REQUEST, audience: `b${index}` }, 'access');
  assert.equal(manager.status().length, 128);
});

test('closing aborts an exchange in progress', async (t) => {
  const { manager, service, closing, log } = await site(t, () => undefined);
  const pending = manager.token(REQUEST, 'access');
  await waitUntil(() => service.received.length === 1);
  closing.abort();
  await assert.rejects(pending, { code: 'unavailable' });
  assert.deepEqual(log.lines, []);
});
