import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inputOfSnapshot } from '../analysis/testing/input.ts';
import { endpoints, inline, Mesh, meshResource, service, sidecar, virtualService } from '../push/testing/mesh.ts';
import type { ConnectionStatus, ProxySession, TypeStatus } from '../push/types.ts';
import { defaultMeshConfig } from '../resources/index.ts';
import { type DebugSource, handleDebug, PageMaker } from './index.ts';
import { clusterz, injectPage, meshPage, networkz } from './mesh-settings.ts';
import { IDLE } from './testing/statuses.ts';
import { Viewed } from './viewed.ts';

const SYNCED: TypeStatus = { ...IDLE, subscribed: 'wildcard', nonceSent: '2-1', nonceAcked: '2-1', sentMessages: 1 };
const REJECTED: TypeStatus = {
  ...SYNCED,
  nonceSent: '2-3',
  lastNack: { message: 'no', atMs: 1, resources: ['a'] },
  quarantined: new Map([['a', 'v']]),
};

const claim = meshResource('VirtualService', 'evil', 'claim', {
  hosts: ['web.shop.svc.cluster.local'],
  http: [{ redirect: { uri: '/' } }],
});
const mesh = new Mesh(inline, [
  service('shop', 'web'),
  endpoints('shop', 'web', '10.0.0.1'),
  virtualService('shop', 'web', '3s'),
  claim,
]);
const sessions: ProxySession[] = [];
let connections: ConnectionStatus[] = [];
const source: DebugSource = {
  snapshot: () => mesh.snapshot,
  connections: () => connections,
  leadership: () => [],
  parts: (id, type) => sessions.find(({ connectionId }) => connectionId === id)?.parts(type) ?? [],
  reasonsFor(id, name) {
    const session = [...mesh.engine.sessions()].find(({ connectionId }) => connectionId === id);
    return session === undefined ? [] : mesh.engine.reasonsFor(session, name);
  },
  readersOf: (key) =>
    new Map([...mesh.engine.readersOf(key)].map(([{ connectionId }, units]) => [connectionId, units])),
  sources: () => [],
  documents: () => [],
  warningsOf: () => [],
  sharedKeys: () => [],
  problems: () => [{ id: 'x', message: 'bad', field: 'spec', origin: { source: 'test', file: 'x.yaml', line: 3 } }],
  findings: () => [
    { metric: 'ctl_vservice_dup_domain', type: 'rds', unit: '80', message: 'twice' },
    { metric: 'ctl_vservice_dup_domain', type: 'rds', unit: '81', message: 'twice' },
  ],
  refusedPolicies: () => [
    {
      problem: {
        id: 'AuthorizationPolicy/shop/deny',
        key: 'AuthorizationPolicy/shop/deny',
        message: 'unknown field',
        field: 'spec.rulez',
        origin: { source: 'test' },
        substitutes: [],
      },
      keys: ['AuthorizationPolicy/shop/deny'],
      inForce: 'last_good',
    },
  ],
  engine: () => mesh.engine.stats(),
  withheld: () => [],
  failing: () => mesh.engine.failing(),
  replica: 'one',
  mesh: () => defaultMeshConfig(),
  injection: () => ({}),
  analysisInput: () => inputOfSnapshot(mesh.snapshot, source.problems()),
  showConfigInAdsz: false,
};

const maker = new PageMaker({ now: () => performance.now(), nextTurn: () => nextTurn() });
const server = createServer(
  (request, response) => void handleDebug({ source, viewer: 'all', maker }, request, response),
);
let base = '';

before(async () => {
  const { session } = mesh.connect(sidecar('10.0.0.1', 'shop'));
  await session.ready;
  sessions.push(session);
  const types = new Map([
    ['cds', SYNCED],
    ['eds', { ...SYNCED, nonceAcked: '2-0' }],
    ['lds', REJECTED],
    ['rds', { ...IDLE, resumedUpToDate: true }],
  ] as const);
  const { node, connectionId } = session;
  connections = [{ connectionId, node, peer: '10.0.0.1:1', mode: 'delta', connectedAtMs: 0, types }];
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

async function page<T>(path: string): Promise<T> {
  const response = await fetch(`${base}/debug/${path}`);
  assert.equal(response.status, 200, path);
  return (await response.json()) as T;
}

async function status(path: string, method = 'GET'): Promise<number> {
  return (await fetch(`${base}${path}`, { method })).status;
}

describe('debug interface', () => {
  it('has an index of all pages, and every page answers', async () => {
    const index = await (await fetch(`${base}/debug`)).text();
    const names = [...index.matchAll(/href="\/debug\/([A-Za-z_]+)"/g)].map(([, name]) => name ?? '');
    assert.ok(names.length >= 12);
    for (const name of names) {
      const query = 'proxyID=pod.shop&source=pod.shop&destination=web';
      if (name !== 'config_distribution' && name !== 'why') assert.ok(await page(`${name}?${query}`), name);
    }
  });

  it('refuses other methods, unknown pages and unknown proxies', async () => {
    assert.equal(await status('/debug/syncz', 'POST'), 405);
    assert.equal(await status('/debug/syncz', 'HEAD'), 200);
    assert.equal(await status('/debug/nothing'), 404);
    assert.equal(await status('/debug/constructor'), 404);
    assert.equal(await status('/debug/config_dump'), 400);
    assert.equal(await status('/debug/config_dump?proxyID='), 400);
    assert.equal(await status('/debug/config_dump?proxyID=nobody.shop'), 404);
    assert.equal(await status('/debug/config_distribution'), 400);
  });

  it('why: what a cluster was generated from', async () => {
    const [{ units }] = (await page('why?proxyID=pod.shop&resource=outbound|80||web.shop.svc.cluster.local')) as [
      { units: { type: string; unit: string; facts: string[]; documents: { key: string }[] }[] },
    ];
    const [cluster, ...others] = units;
    assert.deepEqual([cluster?.type, cluster?.unit, others.length], ['cds', 'web.shop.svc.cluster.local', 0]);
    assert.ok(cluster?.facts.includes('host web.shop.svc.cluster.local'));
    assert.ok(cluster?.documents.some(({ key }) => key === 'Service/shop/web'));
    assert.equal(await status('/debug/why?proxyID=pod.shop&resource=nothing'), 404);
    assert.equal(await status('/debug/why?proxyID=pod.shop'), 400);
  });

  it('why: the proxies and units that read a document', async () => {
    type Readers = { proxy: string; units: { rds?: string[]; cds?: string[] }[] }[];
    const readers = async (key: string) => (await page(`why?config=${key}`)) as Readers;
    const [first] = await readers('VirtualService/shop/web');
    assert.equal(first?.proxy, 'pod.shop');
    assert.ok(first.units.some(({ rds, cds }) => rds?.includes('80') === true && cds === undefined));
    const ofService = await readers('Service/shop/web');
    assert.ok(ofService[0]?.units.some(({ cds }) => cds?.includes('web.shop.svc.cluster.local') === true));
    assert.deepEqual(await readers('VirtualService/shop/none'), []);
  });

  it('config_distribution: an error names the variable that turns it on', async () => {
    const response = await fetch(`${base}/debug/config_distribution?resource=Service/shop/web`);
    assert.equal(response.status, 409);
    assert.match(await response.text(), /not tracked: set CTL_ENABLE_CONFIG_DISTRIBUTION_TRACKING=true/);
  });

  it('syncz: nonces and states have the names of existing tools', async () => {
    const [line] = await page<Record<string, unknown>[]>('syncz');
    const { id, ...rest } = line ?? {};
    assert.match(String(id), /^sidecar~[\d.]+~pod\.shop~/);
    assert.deepEqual(rest, {
      proxy: 'pod.shop',
      proxy_type: 'sidecar',
      cluster_id: 'Orchestrator',
      istio_version: '1.40.0',
      discovery: 'one',
      configuration: { mode: 'all' },
      cluster_sent: '2-1',
      cluster_acked: '2-1',
      cluster_state: 'SYNCED',
      endpoint_sent: '2-1',
      endpoint_acked: '2-0',
      endpoint_state: 'STALE',
      listener_sent: '2-3',
      listener_acked: '2-1',
      listener_state: 'REJECTED',
      listener_rejected: { message: 'no', resources: ['a'], quarantined: { a: 'v' } },
      route_sent: '',
      route_acked: '',
      route_state: 'SYNCED',
    });
  });

  it('syncz: a proxy is in sync after a rejected change was reset', async () => {
    const [connection = assert.fail('no connection')] = connections;
    const putBack: TypeStatus = { ...REJECTED, nonceNacked: '2-3', quarantined: new Map() };
    const removal: TypeStatus = { ...putBack, lastNack: { message: 'no', atMs: 1, resources: [] } };
    connections = [{ ...connection, types: new Map([['lds', putBack] as const, ['cds', removal] as const]) }];
    try {
      const [line = {}] = await page<Record<string, unknown>[]>('syncz');
      assert.deepEqual([line.listener_sent, line.listener_acked, line.listener_state], ['2-1', '2-1', 'SYNCED']);
      // A rejected removal is not reset.
      assert.deepEqual([line.cluster_sent, line.cluster_acked, line.cluster_state], ['2-3', '2-1', 'STALE']);
    } finally {
      connections = [connection];
    }
  });

  it('adsz: every stream with its subscriptions', async () => {
    const { totalClients, clients } = await page<{ totalClients: number; clients: Record<string, unknown>[] }>('adsz');
    assert.equal(totalClients, 1);
    assert.equal(clients[0]?.connectionId, connections[0]?.connectionId);
    const watches = clients[0]?.watches as Record<string, { subscribed: unknown }>;
    assert.equal(watches['type.googleapis.com/envoy.config.cluster.v3.Cluster']?.subscribed, 'wildcard');
    assert.equal(clients[0]?.config, undefined);
    assert.equal(clients[0]?.labelsOf, 'node');
  });

  it("config_dump: what the proxy should have, in Envoy's format", async () => {
    const { configs } = await page<{ configs: Record<string, unknown>[] }>('config_dump?proxyID=pod.shop');
    assert.deepEqual(
      configs.map((config) => String(config['@type']).split('.').at(-1)),
      ['Bootstrap', 'Clusters', 'Listeners', 'Routes', 'Endpoints', 'Secrets', 'Ecds'].map(
        (name) => `${name}ConfigDump`,
      ),
    );
    const clusters = configs[1]?.dynamic_active_clusters as { cluster: { name: string }; version_info: string }[];
    const expected = sessions[0]
      ?.parts('cds')
      .flatMap((part) => part.resources().map(({ name, version }) => [name, version]));
    assert.deepEqual(
      clusters.map(({ cluster, version_info }) => [cluster.name, version_info]),
      expected,
    );
  });

  it('list, mesh, inject, authenticationz, clusterz and networkz: what existing tools ask for', async () => {
    assert.ok((await page<string[]>('list')).includes('syncz'));
    assert.equal(typeof (await page<{ rootNamespace: string }>('mesh')).rootNamespace, 'string');
    assert.deepEqual(await page('inject'), {});
    assert.deepEqual([await page('clusterz'), await page('networkz')], [[], []]);
    const [proxy] = await page<Record<string, unknown>[]>('authenticationz?proxyID=pod.shop');
    const { id, ...modes } = proxy ?? {};
    assert.deepEqual(modes, {
      proxy: 'pod.shop',
      mutualTls: 'PERMISSIVE',
      mutualTlsOfPorts: {},
      requestAuthentications: [],
      authorizationPolicies: [],
    });
    const one = new Viewed(source, { namespace: 'shop' });
    for (const only of [meshPage, injectPage, clusterz, networkz])
      assert.throws(() => only(one), { code: 'permission_denied' });
  });

  it('edsz and syncz name the cluster of endpoints with another name', async () => {
    const another = new Mesh(inline, [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1')]);
    const { session } = another.connect({ ...sidecar('10.5.0.9', 'guest'), shortEndpointNames: true });
    await session.ready;
    const { node, connectionId } = session;
    const before = connections;
    const cluster = 'outbound|80||web.shop.svc.cluster.local';
    const [name = ''] = session.parts('eds').flatMap((part) => part.resources().map((resource) => resource.name));
    const lastNack = { message: `cluster_name: "${name}"`, atMs: 1, resources: [name] };
    const eds: TypeStatus = { ...REJECTED, lastNack, quarantined: new Map([[name, 'v']]) };
    const types = new Map([['eds', eds] as const]);
    connections = [...before, { connectionId, node, peer: '', mode: 'sotw', connectedAtMs: 0, types }];
    sessions.push(session);
    try {
      const [delta, sotw] = await page<{ endpoints: { cluster_name: string }[]; clusters?: object }[]>('edsz');
      assert.deepEqual([delta?.endpoints[0]?.cluster_name, delta?.clusters], [cluster, undefined]);
      assert.deepEqual([sotw?.endpoints[0]?.cluster_name, sotw?.clusters], [name, { [name]: cluster }]);
      const [, { endpoint_rejected: rejected } = {}] = await page<Record<string, unknown>[]>('syncz');
      assert.deepEqual(rejected, {
        message: lastNack.message,
        resources: [name],
        quarantined: { [name]: 'v' },
        clusters: { [name]: cluster },
      });
    } finally {
      connections = before;
      sessions.pop();
      session.close();
    }
  });

  it('ndsz shows the names that the agent of a proxy answers', async () => {
    const [proxy] = await page<{ names: { table: Record<string, { ips: string[] }> }[] }[]>('ndsz');
    assert.deepEqual(
      proxy?.names.map(({ table }) => Object.entries(table).map(([host, { ips }]) => [host, ...ips])),
      [[['web.shop.svc.cluster.local', '10.9.0.1']]],
    );
  });

  it('ndsz shows a table in pieces as one', async () => {
    const another = new Mesh(inline, [service('shop', 'web'), service('shop', 'api')]);
    const { session } = another.connect({ ...sidecar('10.5.0.9', 'guest'), mergesNames: true });
    await session.ready;
    const [only] = connections;
    assert.ok(only !== undefined);
    const before = connections;
    const { node, connectionId } = session;
    connections = [{ ...only, node, connectionId }];
    sessions.push(session);
    try {
      const [proxy] = await page<{ names: { table: object }[] }[]>('ndsz');
      assert.equal(session.parts('nds').flatMap((part) => part.resources()).length, 3);
      const hosts = proxy?.names.map(({ table }) => Object.keys(table).sort());
      assert.deepEqual(hosts, [['api.shop.svc.cluster.local', 'web.shop.svc.cluster.local']]);
    } finally {
      connections = before;
      sessions.pop();
      session.close();
    }
  });

  it('requires proxyID when there are too many proxies', async () => {
    const [only] = connections;
    assert.ok(only !== undefined);
    const one = connections;
    connections = Array.from({ length: 33 }, (_, index) => ({ ...only, connectionId: `c${index}` }));
    try {
      assert.equal(await status('/debug/edsz'), 400);
      assert.equal(await status('/debug/edsz?proxyID=c7'), 200);
    } finally {
      connections = one;
    }
  });

  it('configz: filters by kind, also by its short name, and namespace; an unused kind is empty', async () => {
    const listed = async (query: string) => {
      const { items } = await page<{ items: { kind: string; metadata: { namespace: string } }[] }>(`configz?${query}`);
      return items.map(({ kind, metadata }) => `${kind}/${metadata.namespace}`);
    };
    assert.deepEqual(await listed('kind=vs'), ['VirtualService/evil', 'VirtualService/shop']);
    for (const query of ['kind=virtualservices.networking.istio.io&namespace=shop', 'kind=&namespace=shop']) {
      assert.deepEqual(await listed(query), ['VirtualService/shop'], query);
    }
    for (const query of ['kind=PeerAuthentication', 'kind=vs&namespace=guest'])
      assert.deepEqual(await listed(query), []);
    const { problems } = await page<{ problems: unknown[] }>('configz?kind=pa');
    assert.deepEqual(problems, [], 'problems are of the kind that is asked for');
    const wrong = await fetch(`${base}/debug/configz?kind=peerauthentcation`);
    assert.deepEqual(
      [wrong.status, await wrong.text()],
      [400, 'unknown kind "peerauthentcation", did you mean PeerAuthentication?\n'],
    );
  });

  it('shows the mesh: services, endpoints, configuration, problems, findings', async () => {
    const [web] = await page<{ hostname: string }[]>('registryz');
    assert.equal(web?.hostname, 'web.shop.svc.cluster.local');
    const [listed] = await page<{ svc: string; ep: { address: string }[] }[]>('endpointz');
    assert.deepEqual(
      [listed?.svc, listed?.ep.map(({ address }) => address)],
      ['web.shop.svc.cluster.local:http', ['10.0.0.1']],
    );
    const shards = await page<Record<string, Record<string, unknown[]>>>('endpointShardz');
    assert.equal(shards['web.shop.svc.cluster.local']?.shop?.length, 1);
    const { items, problems, nameConflicts } = await page<{
      items: { kind: string }[];
      problems: unknown[];
      nameConflicts: { resource: string }[];
    }>('configz');
    assert.deepEqual([items.map(({ kind }) => kind), problems.length], [['VirtualService', 'VirtualService'], 1]);
    assert.deepEqual(
      nameConflicts.map(({ resource }) => resource),
      ['VirtualService/evil/claim'],
    );
    assert.equal((await page<Record<string, number>>('resourcesz')).Service, 1);
    assert.equal((await page<Record<string, unknown[]>>('instancesz'))['pod.shop']?.length, 1);
    const pushStatus = await page<{ findings: unknown; engine: { views: number }; nameConflicts: string[] }>(
      'push_status',
    );
    assert.deepEqual([pushStatus.findings, pushStatus.engine.views], [{ ctl_vservice_dup_domain: ['twice'] }, 2]);
    const { refusedPolicies } = await page<{ refusedPolicies: Record<string, unknown>[] }>('push_status');
    assert.deepEqual(refusedPolicies, [
      {
        id: 'AuthorizationPolicy/shop/deny',
        key: 'AuthorizationPolicy/shop/deny',
        message: 'unknown field',
        field: 'spec.rulez',
        origin: { source: 'test' },
        inForce: 'last_good',
        resources: ['AuthorizationPolicy/shop/deny'],
      },
    ]);
    assert.match(
      pushStatus.nameConflicts.join(),
      /^VirtualService\/evil\/claim: host web.shop.svc.cluster.local is a name/,
    );
  });
});
