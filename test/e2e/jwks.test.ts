/**
 * Keys of token issuers, which ctl-discovery fetches from key servers that fail in every way, as seen by a gateway's
 * users: tokens of an issuer with unknown keys are refused, known keys stay in force, and nothing else is affected.
 */
import assert from 'node:assert/strict';
import { afterEach, before, test } from 'node:test';
import { eventually, request, startEcho } from '../harness/index.ts';
import { type Document, endpoints, resource, service } from './support/config.ts';
import { always, type IssuerKey, issuerKey, KEY_KINDS, type KeyServer, keyServer } from './support/key-server.ts';
import { type MeshProxy, MODES, planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { startTraffic } from './support/steady-traffic.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';

const HTTP = 7081;
const BACKEND_PORT = 7481;

/** An issuer whose key server never fails. */
const STEADY = 'steady@issuers.test';

interface World extends TestMesh {
  readonly gateways: readonly MeshProxy[];
  readonly steady: KeyServer;
  readonly steadyToken: string;
  /** Of an issuer that no policy names: accepted only while a policy for the tokens of all issuers is in force. */
  readonly strangeToken: string;
  readonly key: IssuerKey;
}

const owner = suiteOwner();
const address = planMesh();
const world = lazy<World>();

const policy = (name: string, ...jwtRules: readonly Document[]): Document =>
  resource('RequestAuthentication', name, { jwtRules });

function gatewayDocuments(proxy: Pick<MeshProxy, 'name'>, ip: string): Document[] {
  const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
  return [
    resource('Gateway', proxy.name, { selector: { app: proxy.name }, servers: [{ hosts: ['*'], port, bind: ip }] }),
  ];
}

/** A route whose answers contain the version in force in a header. */
function routes(version: string): Document {
  const http = [
    {
      headers: { response: { set: { version } } },
      route: [{ destination: { host: 'web.default.svc.cluster.local' } }],
    },
  ];
  const gateways = MODES.map((mode) => `gateway-${mode}`);
  return resource('VirtualService', 'web', { hosts: ['*'], gateways, http });
}

before(async () => {
  const key = await issuerKey(owner, 'one');
  const [echo, steady] = await Promise.all([
    startEcho(owner, { name: 'web', address: address(21), port: BACKEND_PORT }),
    keyServer(owner, always(key.jwks)),
  ]);
  await steady.up();
  const started = await startMesh(owner, address, {
    env: { CTL_JWT_PUB_KEY_REFRESH_INTERVAL: '1s' },
    files: {
      web: [
        service('web', { ports: [{ name: 'http', port: BACKEND_PORT }] }),
        endpoints('web', [echo.address], [{ name: 'http', port: echo.port }]),
        ...MODES.flatMap((mode, index) => gatewayDocuments({ name: `gateway-${mode}` }, address(10 + index))),
      ],
      routes: [routes('first')],
      steady: [policy('steady', { issuer: STEADY, jwksUri: `${steady.url}/keys` })],
    },
  });
  const gateways = await Promise.all(
    MODES.map((mode, index) =>
      started.startProxy({ name: `gateway-${mode}`, type: 'router', mode, address: address(10 + index) }),
    ),
  );
  const steadyToken = await key.token('--iss', STEADY);
  const strangeToken = await key.token('--iss', 'strange@issuers.test');
  world.set({ ...started, gateways, steady, key, steadyToken, strangeToken });
});

async function statusOf(proxy: MeshProxy, token?: string): Promise<number> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return (await call({ address: proxy.address, port: HTTP, headers })).status;
}

/** Waits until every gateway answers the token in this way. */
function eventuallyStatus(expected: number, token: string): Promise<void> {
  return eventuallyAll(world.get().gateways, async (proxy) => assert.equal(await statusOf(proxy, token), expected));
}

/** Asserts what must hold whatever a key server does. */
async function nothingElseSuffers(): Promise<void> {
  const { gateways, steadyToken } = world.get();
  for (const proxy of gateways) {
    assert.equal(await statusOf(proxy), 200, 'a request without token');
    assert.equal(await statusOf(proxy, steadyToken), 200, 'a token of another issuer');
  }
}

/** Logged lines that contain `text`. */
function logged(text: string): string[] {
  return world
    .get()
    .discovery()
    .output()
    .split('\n')
    .filter((line) => line.includes(text));
}

const failures = () => world.get().discovery().metric('ctl_jwks_resolver_network_fetch_fail_total');

/** Waits for so many further failures of the resolver. */
async function moreFailures(count: number): Promise<void> {
  const before = (await failures()) ?? 0;
  await eventually(async () => assert.ok(((await failures()) ?? 0) >= before + count), { timeoutMs: 30_000 });
}

afterEach(async () => {
  await world
    .get()
    .config.remove('policy')
    .catch(() => undefined);
  // Else the next test's token may be accepted by this one's policy.
  await eventuallyStatus(401, world.get().strangeToken);
});

test('a key server that is down at startup: its tokens are refused until it is up', async (t) => {
  const { config, key } = world.get();
  const server = await keyServer(t, always(key.jwks));
  const issuer = 'late@issuers.test';
  const token = await key.token('--iss', issuer);
  await config.apply('policy', policy('late', { issuer, jwksUri: `${server.url}/keys` }));
  await moreFailures(2);
  await eventuallyStatus(401, token);
  await nothingElseSuffers();
  await server.up();
  await eventuallyStatus(200, token);
  await nothingElseSuffers();
  const [down, again, ...more] = logged(`${server.url}/keys`);
  assert.match(String(down), /ECONNREFUSED.*; the issuer's tokens are refused until its keys are known$/);
  assert.match(String(again), /can be fetched again$/);
  assert.deepEqual(more, []);
});

test('a rule without issuer accepts the tokens of all issuers that its keys are for', async (t) => {
  const { config, key } = world.get();
  const other = await issuerKey(t, 'other');
  const server = await keyServer(t, always(key.jwks));
  await server.up();
  const tokens = await Promise.all(['a@issuers.test', 'b@issuers.test'].map((issuer) => key.token('--iss', issuer)));
  const forged = await other.token('--iss', 'a@issuers.test');
  await config.apply('policy', policy('any', { jwksUri: `${server.url}/keys` }));
  for (const token of tokens) await eventuallyStatus(200, token);
  await eventuallyStatus(401, forged);
  await nothingElseSuffers();
});

test('a key server that goes down later: its keys stay in force, and are followed when it is back', async (t) => {
  const { config, key } = world.get();
  const other = await issuerKey(t, 'two');
  const server = await keyServer(t, always(key.jwks));
  await server.up();
  const issuer = 'down@issuers.test';
  const [token, replacing] = await Promise.all([key.token('--iss', issuer), other.token('--iss', issuer)]);
  await config.apply('policy', policy('down', { issuer, jwksUri: `${server.url}/keys` }));
  await eventuallyStatus(401, replacing);
  await eventuallyStatus(200, token);
  await server.down();
  await moreFailures(2);
  await eventuallyStatus(200, token);
  assert.match(logged(`${server.url}/keys`).join(), /the last good keys remain in use$/);
  server.answer(always(other.jwks));
  await server.up();
  await eventuallyStatus(200, replacing);
  await eventuallyStatus(401, token);
  await nothingElseSuffers();
});

test('a rotated key: both keys are valid while the server publishes both, then only the new one', async (t) => {
  const { config, key } = world.get();
  const next = await issuerKey(t, 'two');
  const server = await keyServer(t, always(key.jwks));
  await server.up();
  const issuer = 'rotates@issuers.test';
  const [old, young] = await Promise.all([key.token('--iss', issuer), next.token('--iss', issuer)]);
  await config.apply('policy', policy('rotates', { issuer, jwksUri: `${server.url}/keys` }));
  await eventuallyStatus(200, old);
  await eventuallyStatus(401, young);
  const both = [...JSON.parse(key.jwks).keys, ...JSON.parse(next.jwks).keys];
  server.answer(always(JSON.stringify({ keys: both })));
  await eventuallyStatus(200, young);
  await eventuallyStatus(200, old);
  server.answer(always(next.jwks));
  await eventuallyStatus(401, old);
  await eventuallyStatus(200, young);
  await nothingElseSuffers();
});

test('the keys of an issuer without jwksUri are found by its discovery document', async (t) => {
  const { config, key } = world.get();
  const server = await keyServer(t, (request, response) => {
    const document = { issuer: server.url, jwks_uri: `${server.url}/keys` };
    response.end(request.url === '/keys' ? key.jwks : JSON.stringify(document));
  });
  await server.up();
  const token = await key.token('--iss', server.url);
  await config.apply('policy', policy('oidc', { issuer: server.url }));
  await eventuallyStatus(200, token);
  await nothingElseSuffers();
});

test('keys of every kind are accepted, beside unusable ones', async (t) => {
  const { config } = world.get();
  const issuer = 'kinds@issuers.test';
  const kinds = Object.keys(KEY_KINDS) as (keyof typeof KEY_KINDS)[];
  const keys = await Promise.all(kinds.map((kind) => issuerKey(t, kind, kind)));
  const odd = [{ kty: 'oct', k: 'c2VjcmV0', alg: 'HS256' }, { kty: 'RSA', n: '', e: '' }, { kty: 'AKP' }, null];
  const server = await keyServer(
    t,
    always(JSON.stringify({ keys: [...odd, ...keys.flatMap(({ jwks }) => JSON.parse(jwks).keys)] })),
  );
  await server.up();
  await config.apply('policy', policy('kinds', { issuer, jwksUri: `${server.url}/keys` }));
  for (const { token } of keys) await eventuallyStatus(200, await token('--iss', issuer));
  await nothingElseSuffers();
});

const TEN_MEGABYTES = 10 * 1024 * 1024;

for (const [what, listener, said] of [
  [
    'answers 10 MB',
    (_, response) => void response.end(`{"keys":[],"filler":"${'x'.repeat(TEN_MEGABYTES)}"}`),
    /returned more than 1048576 bytes/,
  ],
  [
    'redirects to a link-local address',
    (_, response) => void response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end(),
    /169\.254\.169\.254, to which connections are not allowed/,
  ],
  ['redirects to itself', (_, response) => void response.writeHead(302, { location: '/' }).end(), /after 3 redirects/],
  ['hangs', () => {}, /no response within 5 s/],
  [
    'publishes a secret',
    (_, response) => void response.end('{"keys":[{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}]}'),
    /without a usable key/,
  ],
] as readonly (readonly [string, Parameters<typeof keyServer>[1], RegExp])[]) {
  test(`a key server that ${what}: only its tokens are refused`, async (t) => {
    const { config, key } = world.get();
    const server = await keyServer(t, listener);
    await server.up();
    const issuer = 'faulty@issuers.test';
    const token = await key.token('--iss', issuer);
    await config.apply('policy', policy('faulty', { issuer, jwksUri: `${server.url}/keys` }));
    await eventually(() => assert.match(logged(`${server.url}/keys`).join('\n'), said), { timeoutMs: 30_000 });
    await eventuallyStatus(401, token);
    await nothingElseSuffers();
    // The server recovers.
    server.answer(always(key.jwks));
    await eventuallyStatus(200, token);
    // It fails again, which has no effect now.
    server.answer(listener);
    await moreFailures(1);
    await eventuallyStatus(200, token);
    await nothingElseSuffers();
  });
}

test('pushes never wait for a key server: edits arrive while one hangs', async (t) => {
  const { config, gateways } = world.get();
  const server = await keyServer(t, () => {});
  await server.up();
  // On a busy machine an attempt may reach its time limit before the edit arrives: then the next one is asked.
  for (let attempt = 1; ; attempt++) {
    const version = `edit-${attempt}`;
    const asked = server.asked;
    const rule = { issuer: 'hangs@issuers.test', jwksUri: `${server.url}/keys/${attempt}` };
    await config.apply('policy', policy('hangs', rule));
    await eventually(() => assert.ok(server.asked > asked));
    await config.apply('routes', routes(version));
    await eventuallyAll(gateways, async (proxy) => {
      const { headers } = await request({ address: proxy.address, port: HTTP });
      assert.equal(headers.version, version);
    });
    if (server.asked === asked + 1 && server.open === 1) break;
    assert.ok(attempt < 5, 'no edit arrived before the time limit of the key server ended');
  }
  await nothingElseSuffers();
});

test('a key server is no longer asked when no policy names it', async (t) => {
  const { config, key, steady } = world.get();
  const server = await keyServer(t, always(key.jwks));
  await server.up();
  const issuer = 'leaves@issuers.test';
  const token = await key.token('--iss', issuer);
  await config.apply('policy', policy('leaves', { issuer, jwksUri: `${server.url}/keys` }));
  await eventuallyStatus(200, token);
  await config.remove('policy');
  // A token of an issuer that no policy names.
  await eventuallyStatus(401, token);
  const [asked, before] = [server.asked, steady.asked];
  await eventually(() => assert.ok(steady.asked >= before + 3), { timeoutMs: 30_000 });
  assert.equal(server.asked, asked);
});

test('during a restart of ctl-discovery no valid token is refused', async () => {
  const { discovery, restart, gateways, steadyToken, steady, key } = world.get();
  await eventuallyStatus(200, steadyToken);
  const traffic = startTraffic(
    gateways.map((proxy) => ({
      address: proxy.address,
      port: HTTP,
      headers: { authorization: `Bearer ${steadyToken}` },
    })),
  );
  // Slower than anything else at the start.
  steady.answer((_, response) => void setTimeout(() => response.end(key.jwks), 1000));
  await discovery().stop();
  const { metric } = await restart();
  // No proxy is served before the keys are known.
  assert.equal(await metric('ctl_jwks_resolver_network_fetch_success_total'), 1);
  await eventually(async () => assert.equal(await metric('ctl_xds'), gateways.length), { timeoutMs: 60_000 });
  // They were fetched again after the proxies connected.
  await eventually(async () => assert.ok(((await metric('ctl_jwks_resolver_network_fetch_success_total')) ?? 0) >= 3), {
    timeoutMs: 30_000,
  });
  await traffic.more(10);
  assert.deepEqual(await traffic.stop(), []);
});
