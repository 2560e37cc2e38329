/** The security token service over real sockets, with a real OAuth server behind it. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type IncomingHttpHeaders, request } from 'node:http';
import { createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { defaultAgentSettings } from '../../settings/index.ts';
import {
  ACCESS_TOKEN_TYPE,
  type Credentials,
  createCredentials,
  JWT_TYPE,
  TOKEN_EXCHANGE_GRANT,
} from '../credentials/index.ts';
import { planCredentials } from '../credentials/plan.ts';
import { type LogLines, logLines } from '../identity/testing/log-lines.ts';
import { type StsServer, startStsServer } from './index.ts';
import { type OAuthServer, startOAuthServer, TEST_CLIENT } from './testing/oauth-server.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly json: Record<string, unknown>;
}

interface Ask {
  readonly path?: string;
  readonly method?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

let folder: string;
let oauth: OAuthServer;
let credentials: Credentials;
let server: StsServer;
let log: LogLines;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sts-'));
  oauth = await startOAuthServer();
  const clientFile = join(folder, 'client');
  await writeFile(clientFile, `${TEST_CLIENT.id}:${TEST_CLIENT.secret}\n`);
  const settings = defaultAgentSettings({
    stsPort: 1,
    tokenExchangeEndpoint: oauth.tokenEndpoint,
    tokenExchangeClientFile: clientFile,
  });
  credentials = createCredentials(planCredentials(settings, 'cluster.local', true));
  log = logLines();
  assert.ok(credentials.manager);
  server = await startStsServer({ port: 0, manager: credentials.manager, log, now: Date.now });
});

after(async () => {
  await server.close();
  credentials.close();
  await oauth.close();
  await rm(folder, { recursive: true });
});

function ask({ path = '/token', method = 'POST', host = '127.0.0.1', headers = {}, body }: Ask): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port: server.port, path, method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = response.headers['content-type'] === 'application/json';
        const json = (isJson ? JSON.parse(text) : {}) as Record<string, unknown>;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text, json });
      });
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const form = (parameters: Record<string, string> | [string, string][]): Ask => ({
  headers: FORM,
  body: new URLSearchParams(parameters).toString(),
});

const exchange = async (more: Record<string, string> = {}): Promise<Record<string, string>> => ({
  grant_type: TOKEN_EXCHANGE_GRANT,
  subject_token: await oauth.subjectToken('web'),
  subject_token_type: JWT_TYPE,
  ...more,
});

test('a form is answered with a token of the OAuth server for its subject', async () => {
  const { status, json, headers } = await ask(form(await exchange({ audience: 'bank', scope: 'read write' })));
  assert.equal(status, 200, JSON.stringify(json));
  const { access_token: token, expires_in: seconds, ...rest } = json;
  assert.deepEqual(rest, { issued_token_type: ACCESS_TOKEN_TYPE, token_type: 'Bearer', scope: 'read write' });
  assert.ok(typeof seconds === 'number' && seconds > 3500 && seconds <= 3600);
  assert.equal(await oauth.subjectOf(String(token)), 'web');
  assert.equal(headers['cache-control'], 'no-store');
});

test('JSON is answered like a form, over IPv6 too, from the kept token of the same request', async () => {
  const body = await exchange({ audience: 'json' });
  const first = await ask({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const before = oauth.granted();
  const second = await ask({ ...form(body), host: '::1' });
  assert.deepEqual([first.status, second.status], [200, 200], first.body + second.body);
  assert.equal(first.json.access_token, second.json.access_token);
  assert.equal(oauth.granted(), before);
});

test('a kept token is not given for another subject token', async () => {
  const mine = await ask(form(await exchange({ audience: 'shared' })));
  const other = { ...(await exchange({ audience: 'shared' })), subject_token: await oauth.subjectToken('other') };
  const theirs = await ask(form(other));
  assert.notEqual(theirs.json.access_token, mine.json.access_token);
  assert.equal(await oauth.subjectOf(String(theirs.json.access_token)), 'other');
  const forged = { ...other, subject_token: 'e30.e30.x' };
  assert.equal((await ask(form(forged))).status, 400);
});

describe('a refused request has the error of the RFC', () => {
  const json = { 'content-type': 'application/json' };
  const cases: Readonly<
    Record<string, readonly [what: Ask | (() => Promise<Ask>), status: number, error: string, description?: RegExp]>
  > = {
    'no content type': [{ body: 'x=1' }, 400, 'invalid_request', /Content-Type/],
    'a text that is not JSON': [{ headers: json, body: '{"subject_token": "s3cret"' }, 400, 'invalid_request'],
    'a JSON list': [{ headers: json, body: '[]' }, 400, 'invalid_request'],
    'a JSON number as parameter': [{ headers: json, body: '{"grant_type": 1}' }, 400, 'invalid_request'],
    'no grant_type': [form({ a: 'b' }), 400, 'invalid_request', /grant_type is missing/],
    'another grant': [form({ grant_type: 'password' }), 400, 'unsupported_grant_type'],
    'no subject token': [
      form({ grant_type: TOKEN_EXCHANGE_GRANT }),
      400,
      'invalid_request',
      /subject_token is missing/,
    ],
    'no subject token type': [
      form({ grant_type: TOKEN_EXCHANGE_GRANT, subject_token: 'a' }),
      400,
      'invalid_request',
      /subject_token_type is missing/,
    ],
    'an unknown subject token type': [
      async () => form(await exchange({ subject_token_type: 'urn:x' })),
      400,
      'invalid_request',
    ],
    'a repeated parameter': [
      async () => form([...Object.entries(await exchange()), ['scope', 'a'], ['scope', 'b']]),
      400,
      'invalid_request',
      /scope is set more than once/,
    ],
    'two audiences': [
      async () => form([...Object.entries(await exchange()), ['audience', 'a'], ['audience', 'b']]),
      400,
      'invalid_target',
    ],
    'a relative resource': [async () => form(await exchange({ resource: 'bank' })), 400, 'invalid_target'],
    'a scope with a quote': [async () => form(await exchange({ scope: 'a"b' })), 400, 'invalid_scope'],
    'an actor token type alone': [
      async () => form(await exchange({ actor_token_type: JWT_TYPE })),
      400,
      'invalid_request',
    ],
    'an unknown requested type': [
      async () => form(await exchange({ requested_token_type: 'x' })),
      400,
      'invalid_request',
    ],
    'a client secret': [async () => form(await exchange({ client_secret: 'a' })), 401, 'invalid_client'],
    'a body beyond 64 KiB': [form({ x: 'y'.repeat(65 * 1024) }), 413, 'invalid_request', /65536 bytes/],
    'an audience that the endpoint refuses': [
      async () => form(await exchange({ audience: 'nowhere' })),
      400,
      'invalid_target',
      /no such audience/,
    ],
    'a scope that the endpoint refuses': [async () => form(await exchange({ scope: 'admin' })), 400, 'invalid_scope'],
    'a subject token that the endpoint refuses': [
      async () => form({ ...(await exchange()), subject_token: await oauth.subjectToken('web', -60) }),
      400,
      'invalid_request',
    ],
  };
  for (const [name, [what, status, error, description = /./]] of Object.entries(cases))
    test(name, async () => {
      const answer = await ask(typeof what === 'function' ? await what() : what);
      assert.deepEqual([answer.status, answer.json.error], [status, error], answer.body);
      assert.match(String(answer.json.error_description), description);
      assert.doesNotMatch(answer.body, /s3cret/);
      assert.equal(answer.headers['cache-control'], 'no-store');
    });

  test('an Authorization header is answered with its scheme', async () => {
    const { status, json, headers } = await ask({
      ...form(await exchange()),
      headers: { ...FORM, authorization: 'Basic eA==' },
    });
    assert.deepEqual([status, json.error, headers['www-authenticate']], [401, 'invalid_client', 'Basic']);
  });
});

test('other paths and methods, web pages and proxied requests are refused', async () => {
  const statuses: readonly (readonly [Ask, number])[] = [
    [{ path: '/' }, 404],
    [{ path: '/token/x' }, 404],
    [{ method: 'GET' }, 405],
    [{ path: '/stsStatus', method: 'POST' }, 405],
    [{ headers: { host: 'rebound.example' } }, 403],
    [{ headers: { origin: 'https://a.example' } }, 403],
    [{ headers: { origin: 'http://localhost' } }, 403],
    [{ headers: { 'sec-fetch-site': 'cross-site' } }, 403],
    [{ headers: { 'x-forwarded-for': '10.0.0.1' } }, 403],
  ];
  for (const [what, status] of statuses) assert.equal((await ask(what)).status, status, JSON.stringify(what));
});

test('the status lists the kept tokens without any token', async () => {
  const answer = await ask(form(await exchange({ audience: 'listed' })));
  const { status, body, json } = await ask({ path: '/stsStatus', method: 'GET' });
  assert.equal(status, 200);
  const listed = (json.tokens as Record<string, string>[]).find(({ audience }) => audience === 'listed');
  assert.equal(listed?.token_type, 'access token');
  const life = Date.parse(listed?.expire_time ?? '') - Date.parse(listed?.issue_time ?? '');
  assert.equal(life, 3_600_000);
  assert.ok(!body.includes(String(answer.json.access_token)));
});

test('other addresses of the machine do not answer', async (t) => {
  const [outside] = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4');
  if (outside === undefined) return t.skip('this machine has no address besides loopback');
  await assert.rejects(ask({ host: outside.address, path: '/stsStatus', method: 'GET' }), /ECONNREFUSED/);
});

test('a port that is in use is a problem of one line, and no port stays open', async (t) => {
  const taken = createServer().listen(0, '::1');
  t.after(() => taken.close());
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as { port: number };
  assert.ok(credentials.manager);
  const options = { port, manager: credentials.manager, log, now: Date.now };
  await assert.rejects(startStsServer(options), {
    code: 'unavailable',
    message: `cannot listen on [::1]:${port} (EADDRINUSE)`,
  });
  const free = createServer().listen(port, '127.0.0.1');
  await new Promise((resolve) => free.once('listening', resolve));
  free.close();
});
