/**
 * Authorization of every address and path of the HTTP servers for every kind of caller (CVE-2026-31838), with the real
 * listeners and the real authenticator. A test sets the address that a request comes from.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, it, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type RequestOptions, request } from '../../../test/harness/http.ts';
import { inputOfSnapshot } from '../../analysis/testing/input.ts';
import { type DebugSource, PageMaker, ProxyTable } from '../../debug/index.ts';
import { introspectionListener } from '../../introspection/index.ts';
import { createProfiler, type RecentPush, type RecentSeries } from '../../observe/index.ts';
import { endpoints, inline, Mesh, service, sidecar, virtualService } from '../../push/testing/mesh.ts';
import { defaultMeshConfig } from '../../resources/index.ts';
import { createAuthentication, createTokenAuthenticator } from '../../security/index.ts';
import { ISSUER, NOW, testIssuer } from '../../security/testing/credentials.ts';
import type { Authentication } from '../../security/types.ts';
import { DebugAccess } from './debug-access.ts';
import { answerDebug, type HttpRoutes, httpListener, monitoringListener } from './http-routes.ts';

const issuer = await testIssuer();
const HOME = { rootNamespace: 'mesh-system', trustDomain: 'cluster.local' };
const callers = createAuthentication(
  [
    createTokenAuthenticator({
      issuers: [{ issuer: ISSUER, keys: { keys: async () => issuer.jwks, newerKeys: async () => issuer.jwks } }],
      trustDomain: HOME.trustDomain,
      audiences: ['mesh-ca'],
      withoutAudience: false,
      now: () => NOW,
    }),
  ],
  () => {},
);
const tokenOf = (namespace: string) => issuer.token({ sub: `system:serviceaccount:${namespace}:any` });

/** Two namespaces with a service, a virtual service and a proxy each. */
const mesh = new Mesh(
  inline,
  ['shop', 'guest'].flatMap((namespace) => [
    service(namespace, 'web'),
    endpoints(namespace, 'web', namespace === 'shop' ? '10.0.0.1' : '10.0.0.2'),
    virtualService(namespace, 'web', '3s'),
  ]),
);
const sessions = [
  mesh.connect(sidecar('10.0.0.1', 'shop')).session,
  // It also has the address of a workload of another namespace.
  mesh.connect({ ...sidecar('10.0.0.2', 'guest'), addresses: ['10.0.0.2', '10.0.0.1'] }).session,
];
await Promise.all(sessions.map(({ ready }) => ready));
const origin = { source: 'test' };
const source: DebugSource = {
  snapshot: () => mesh.snapshot,
  connections: () =>
    sessions.map(({ node, connectionId }) => {
      const status = { connectionId, node, peer: '10.9.9.9:1', mode: 'delta', connectedAtMs: 0 } as const;
      return { ...status, types: new Map() };
    }),
  parts: (id, type) => sessions.find(({ connectionId }) => connectionId === id)?.parts(type) ?? [],
  sources: () => [{ id: 'of-shop', cluster: 'c', synced: true, health: { ok: false, reason: 'cannot list shop' } }],
  leadership: () => [{ task: 'status', lease: 'mesh-system/status', leading: false, holder: 'discovery-of-shop' }],
  documents: (key) => [{ source: `of ${key}`, resource: service('shop', 'web'), replacesRefused: false }],
  warningsOf: (key) => [{ field: 'spec', message: `about ${key}` }],
  sharedKeys: () => ['ConfigMap/shop/a', 'ConfigMap/guest/a', 'Namespace//shop'],
  problems: () => [
    { id: 'a', key: 'Gateway/shop/broken', message: 'bad', field: 'spec', origin },
    { id: 'b', key: 'Gateway/guest/broken', message: 'bad', field: 'spec', origin },
    { id: 'c', message: 'not YAML', field: '', origin },
  ],
  refusedPolicies: () =>
    ['shop', 'guest'].map((namespace) => ({
      problem: { id: namespace, key: `PeerAuthentication/${namespace}/x`, message: 'bad', field: 'spec', origin },
      keys: [`PeerAuthentication/${namespace}/x`],
      inForce: 'last_good',
    })),
  findings: (wanted = () => true) =>
    ['shop', 'guest'].filter(wanted).map((namespace) => ({
      metric: 'ctl_vservice_dup_domain',
      type: 'rds',
      unit: '80',
      message: `twice in ${namespace}`,
    })),
  reasonsFor: () => [{ type: 'rds', view: 'outbound', unit: '80', facts: ['scope'], documents: [] }],
  readersOf: () => new Map(),
  engine: () => mesh.engine.stats(),
  withheld: () => [],
  failing: () => mesh.engine.failing(),
  distribution: (_key, connections) => connections.map(({ node }) => ({ proxy: node.workload })),
  replica: 'one',
  mesh: () => defaultMeshConfig(),
  injection: () => ({}),
  recent: {
    proxies: new ProxyTable({
      configurationOf: () => ({ configuration: 'all' }),
      statuses: () => source.connections(),
      now: () => 0,
      later: () => ({ cancel: () => {} }),
    }),
    pushes: () => [{ ...A_PUSH, resources: ['Service/shop/web'] }],
    series: () => ({}) as RecentSeries,
    events: () => [{ number: 1, at: NOW, level: 'info', scope: 'ads', message: 'connected pod.shop' }],
    certificates: () => [{ name: 'root of shop', expires: NOW, renewMs: 0 }],
    contents: { moments: () => [], parts: () => undefined },
  },
  analysisInput: () => inputOfSnapshot(mesh.snapshot, source.problems()),
  showConfigInAdsz: true,
};

const A_PUSH: RecentPush = {
  version: 1,
  at: NOW,
  triggers: [],
  resources: [],
  changed: 1,
  acknowledged: 1,
  underWay: 0,
  without: 0,
  bytes: 1,
  stages: {},
};

const profiler: HttpRoutes['profiler'] = {
  ...createProfiler(),
  answer: async (_request, response) => void response.end('profile'),
};

function routes(access: DebugAccess): HttpRoutes {
  return {
    state: () => 'ready',
    debug: () => source,
    sources: () => source.sources(),
    policyPage: async () => '',
    profiler,
    access,
    maker: new PageMaker({ now: () => performance.now(), nextTurn: () => nextTurn() }),
    version: { version: '1', revision: 'r', nodeVersion: 'v24', status: 'Clean', tag: '' },
  };
}

/** A server for requests that come from the address in their header. */
async function serve(listener: RequestListener): Promise<number> {
  const server = createServer((incoming, response) => {
    const { 'x-comes-from': remoteAddress, ...headers } = incoming.headers;
    const socket = { value: { remoteAddress } };
    const from: IncomingMessage = Object.create(incoming, { socket, headers: { value: headers } });
    listener(from, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function addresses(open: boolean, known: Authentication | undefined = callers) {
  const all = routes(new DebugAccess({ callers: () => known, home: () => HOME, open }));
  const monitoring = monitoringListener(all, () => Promise.resolve({ contentType: 'text/plain', text: '' }));
  return { httpAddr: await serve(httpListener(all)), monitoringAddr: await serve(monitoring) };
}

interface Visitor {
  readonly from: string;
  readonly host: string;
  readonly token?: string;
}

const REMOTE = { from: '192.0.2.7', host: 'localhost' };
const LOCAL = { from: '::ffff:127.0.0.1', host: 'localhost:8080' };
const VISITORS: Readonly<Record<string, Visitor>> = {
  'no credential': REMOTE,
  'no credential, by its own name': { from: '192.0.2.7', host: 'mesh.example' },
  'a token of a namespace': { ...REMOTE, token: await tokenOf('shop') },
  'a token of the root namespace': { ...REMOTE, token: await tokenOf('mesh-system') },
  'a token of nobody': { ...REMOTE, token: 'a.b.c' },
  'an expired token': { ...REMOTE, token: await issuer.token({ exp: NOW / 1000 - 1 }) },
  'a token for others': { ...REMOTE, token: await issuer.token({ aud: 'vault' }) },
  loopback: LOCAL,
  'loopback with a foreign Host': { ...LOCAL, host: 'evil.example' },
  'loopback with a token that does not hold': { ...LOCAL, token: 'a.b.c' },
  'a sidecar on this machine': { ...LOCAL, from: '127.0.0.6' },
};

async function visit(port: number, path: string, { from, host, token }: Visitor, more: Partial<RequestOptions> = {}) {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return request({ port, path, host, ...more, headers: { ...more.headers, 'x-comes-from': from, ...authorization } });
}

const PROXY = 'proxyID=pod.shop&resource=VirtualService/shop/web&source=pod.shop&destination=web';
const PAGES =
  'adsz analysisz cdsz config_dump config_distribution configz edsz endpointShardz endpointz eventsz instancesz leaderz'
    .concat(
      ' ndsz overviewz proxiesz proxyz push_status pushz seriesz registryz resourcesz syncz why authenticationz list whyz',
    )
    .concat(' withheldz')
    .split(' ')
    .map((name) => `/debug/${name}?${PROXY}`);
/** Pages about the program and the whole mesh: only for callers who see everything. */
const WHOLE_PAGES = ['clusterz', 'inject', 'mesh', 'networkz'].map((name) => `/debug/${name}`);

/** The statuses of pages and of profiles for each visitor. */
const EXPECTED: Readonly<Record<string, readonly [pages: number, profiles: number]>> = {
  'no credential': [401, 401],
  'no credential, by its own name': [401, 401],
  'a token of a namespace': [200, 403],
  'a token of the root namespace': [200, 200],
  'a token of nobody': [401, 401],
  'an expired token': [401, 401],
  'a token for others': [401, 401],
  loopback: [200, 200],
  'loopback with a foreign Host': [403, 403],
  'loopback with a token that does not hold': [401, 401],
  'a sidecar on this machine': [401, 401],
};

describe('every address and path, for every visitor', async () => {
  const ports = await addresses(false);
  for (const [name, visitor] of Object.entries(VISITORS)) {
    it(name, async () => {
      const [pages = 0, profiles = 0] = EXPECTED[name] ?? [];
      for (const [address, port] of Object.entries(ports)) {
        const status = async (path: string) => {
          const answer = await visit(port, path, visitor);
          if (answer.status === 401 || answer.status === 403) {
            assert.match(answer.body, /^[^\n]*(token|it )[^\n]*\n$/, 'one line');
            assert.equal(answer.headers['www-authenticate'], answer.status === 401 ? 'Bearer' : undefined);
          }
          return answer.status;
        };
        for (const path of ['/debug', '/debug/', ...PAGES])
          assert.equal(await status(path), pages, `${address} ${path}`);
        assert.equal(await status('/debug/diffz'), pages === 200 ? 405 : pages, address);
        for (const path of ['/debug/nothing', '/debug/pprofx']) {
          assert.equal(await status(path), pages === 200 ? 404 : pages, `${address} ${path}`);
        }
        for (const path of [...WHOLE_PAGES, '/debug/pprof', '/debug/pprof/heap', '/debug/pprof/profile?seconds=1']) {
          assert.equal(await status(path), profiles, `${address} ${path}`);
        }
        for (const path of ['/ready', '/healthz', '/version'])
          assert.equal(await status(path), 200, `${address} ${path}`);
      }
      assert.equal((await visit(ports.monitoringAddr, '/metrics', visitor)).status, 200);
    });
  }
});

describe('the introspection address, for every visitor', async () => {
  const access = new DebugAccess({ callers: () => callers, home: () => HOME, open: false });
  const all = routes(access);
  const port = await serve(
    introspectionListener({
      program: 'ctl-discovery',
      address: '*',
      port: 0,
      build: all.version,
      environment: { CTL_X: 'y' },
      args: [],
      flags: {},
      access,
      debug: (request, response) => answerDebug(all, request, response),
      pages: new URL('none/', import.meta.url),
      metrics: () => Promise.resolve({ contentType: 'text/plain', text: '' }),
    }),
  );
  for (const [name, visitor] of Object.entries(VISITORS)) {
    it(name, async () => {
      const [pages = 0, program = 0] = EXPECTED[name] ?? [];
      for (const path of ['/debug', ...PAGES]) assert.equal((await visit(port, path, visitor)).status, pages, path);
      for (const path of ['argj', 'envj', 'flagj', 'homej', 'memj', 'procj', 'signalj', 'scopej', 'scopej/ads']) {
        assert.equal((await visit(port, `/${path}/`, visitor)).status, program, path);
      }
      // Who may change a scope is told what the change lacks.
      const sent = { method: 'PUT' };
      assert.equal((await visit(port, '/scopej/ads', visitor, sent)).status, program === 200 ? 400 : program);
      if (program !== 200) assert.equal((await visit(port, '/homej/exit', visitor, sent)).status, program);
    });
  }
});

test('the index lists exactly the pages of the matrix', async () => {
  const { httpAddr } = await addresses(false);
  const { body } = await visit(httpAddr, '/debug', LOCAL);
  const listed = [...body.matchAll(/href="(\/debug\/[A-Za-z_]+)"/g)].map(([, path]) => path);
  assert.deepEqual(listed.sort(), [...WHOLE_PAGES, ...PAGES.map((page) => page.slice(0, page.indexOf('?')))].sort());
});

test('with a token of a namespace every page shows only that namespace', async () => {
  const { httpAddr } = await addresses(false);
  const guest = { ...REMOTE, token: await tokenOf('guest') };
  for (const page of PAGES) {
    const path = page.slice(0, page.indexOf('?'));
    const query = /config_dump|proxyz|why/.test(path)
      ? '?proxyID=pod.guest&resource=80&source=pod.guest&destination=web'
      : '?resource=VirtualService/guest/web';
    const { status, body } = await visit(httpAddr, `${path}${query}`, guest);
    assert.equal(status, 200, path);
    if (!/resourcesz|config_distribution|leaderz|list|overviewz|pushz|seriesz|withheldz|eventsz/.test(path))
      assert.match(body, /guest/, path);
    // Endpoints, clusters and names of exported services are part of the configuration of its proxies.
    if (!/cdsz|edsz|ndsz|adsz|config_dump/.test(path)) assert.doesNotMatch(body, /shop|not YAML/, path);
    assert.doesNotMatch(body, /pod\.shop/, path);
  }
  const { body: counts } = await visit(httpAddr, '/debug/resourcesz', guest);
  assert.equal((JSON.parse(counts) as { Service: number }).Service, 1);
  const { body: status } = await visit(httpAddr, '/debug/push_status', guest);
  const { refusedPolicies, ...seen } = JSON.parse(status) as { refusedPolicies: { resources: string[] }[] };
  assert.deepEqual(seen, { findings: { ctl_vservice_dup_domain: ['twice in guest'] }, nameConflicts: [] });
  assert.deepEqual(
    refusedPolicies.map(({ resources }) => resources),
    [['PeerAuthentication/guest/x']],
  );
  for (const query of [
    'cdsz?proxyID=pod.shop',
    'edsz?proxyID=pod.shop',
    'ndsz?proxyID=pod.shop',
    'config_dump?proxyID=pod.shop',
    'why?proxyID=pod.shop&resource=80',
    'why?config=VirtualService/shop/web',
  ]) {
    assert.equal((await visit(httpAddr, `/debug/${query}`, guest)).status, 404, query);
  }
  assert.equal(
    (await visit(httpAddr, '/debug/config_distribution?resource=VirtualService/shop/web', guest)).status,
    404,
  );
});

test('CTL_DEBUG_AUTH=false opens the pages, but not profiles, the log and comparisons', async () => {
  const { httpAddr, monitoringAddr } = await addresses(true);
  for (const port of [httpAddr, monitoringAddr]) {
    assert.equal((await visit(port, '/debug/syncz', REMOTE)).status, 200);
    assert.equal((await visit(port, '/debug/pprof/heap', REMOTE)).status, 401);
    for (const page of ['eventsz', 'diffz', 'eventsz?since=0', './diffz']) {
      assert.equal((await visit(port, `/debug/${page}`, REMOTE)).status, 401, page);
      assert.equal((await visit(port, `/debug/${page}`, { ...LOCAL, host: 'evil.example' })).status, 403, page);
    }
    assert.equal((await visit(port, '/debug/pprof/heap', { ...LOCAL, host: 'evil.example' })).status, 403);
  }
});

test('a token of another trust domain is refused', async () => {
  const identity = { trustDomain: 'elsewhere.example', namespace: HOME.rootNamespace, serviceAccount: 'any' };
  const foreign: Authentication = { authenticate: async () => ({ identity, by: 'certificate', expiresAt: 0 }) };
  const { httpAddr } = await addresses(false, foreign);
  assert.equal((await visit(httpAddr, '/debug/syncz', { ...REMOTE, token: 'x' })).status, 403);
});

test('one address cannot use up the limit of tokens that are verified at once', async () => {
  const waiting: (() => void)[] = [];
  const identity = { trustDomain: HOME.trustDomain, namespace: HOME.rootNamespace, serviceAccount: 'any' };
  const slow: Authentication = {
    authenticate: () => new Promise((resolve) => waiting.push(() => resolve({ identity, by: 'token', expiresAt: 0 }))),
  };
  const access = new DebugAccess({ callers: () => slow, home: () => HOME, open: false });
  const ask = (remoteAddress: string) =>
    access.viewerOf({ headers: { authorization: 'Bearer x', host: 'h' }, socket: { remoteAddress } }).then(
      (viewer) => viewer,
      (error: Error & { code: string }) => error.code,
    );
  const answers = Array.from({ length: 1000 }, () => ask('192.0.2.7'));
  assert.ok(waiting.length > 10 && waiting.length < 64, String(waiting.length));
  const other = ask('192.0.2.8');
  for (const go of waiting) go();
  assert.equal(await other, 'all');
  assert.ok((await Promise.all(answers)).includes('unavailable'));
});
