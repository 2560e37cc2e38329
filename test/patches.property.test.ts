/**
 * Patches of EnvoyFilters are found by an index. It changes no result: random EnvoyFilters give the same bytes, and the
 * same failures, as without an index, where every patch is compared with everything that is generated.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../src/core/memo.ts';
import * as fc from '../src/core/testing/properties.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { createModel, replay } from '../src/model/testing/steps.ts';
import { runJobs } from '../src/push/jobs/run-jobs.ts';
import type { GenerateJob } from '../src/push/protocol.ts';
import { viewKey, viewsOf } from '../src/push/proxies/proxy-views.ts';
import type { AnyResource } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../src/resources/mesh-config.ts';
import { proxyNode, readResources } from './golden-harness/input.ts';
import { made } from './golden-harness/jobs.ts';

const NODES = [
  proxyNode('web', { address: '10.0.0.1', namespace: 'a' }),
  proxyNode('discovering', { address: '10.0.0.3', namespace: 'a', discoversVirtualHosts: true }),
  proxyNode('edge', { type: 'router', address: '10.0.0.2', namespace: 'a', labels: { app: 'edge' } }),
];

const networking = (kind: string, name: string, spec: object) => {
  return { apiVersion: 'networking.mesh.io/v1alpha3', kind, metadata: { name, namespace: 'a' }, spec };
};
const service = (name: string, port: number, protocol: string) => {
  const ports = [{ name: protocol, port, targetPort: port + 8000 }];
  return { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace: 'a' }, spec: { clusterIP: '', ports } };
};
const endpoints = (name: string, address: string, port: number) => {
  const subsets = [{ addresses: [{ ip: address }], ports: [{ name: 'http', port }] }];
  return { apiVersion: 'v1', kind: 'Endpoints', metadata: { name, namespace: 'a' }, subsets };
};

/** Two HTTP services and one of TCP, one with subsets, routes with names, and a gateway. */
const BASE = readResources('patches', [
  { ...service('web', 80, 'http') },
  { ...service('db', 80, 'http') },
  { ...service('queue', 81, 'tcp') },
  endpoints('web', '10.0.0.1', 8080),
  networking('DestinationRule', 'web', {
    host: 'web',
    subsets: ['v1', 'v2'].map((name) => ({ name, labels: { name } })),
  }),
  networking('VirtualService', 'web', {
    hosts: ['web', 'shop.example.com'],
    gateways: ['mesh', 'edge'],
    http: [
      { name: 'old', match: [{ uri: { prefix: '/old' } }], redirect: { uri: '/new' } },
      { name: 'main', route: [{ destination: { host: 'web', subset: 'v1' } }] },
    ],
  }),
  networking('Gateway', 'edge', {
    selector: { app: 'edge' },
    servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
  }),
]);

const WEB = 'web.a.svc.cluster.local';
const DB = 'db.a.svc.cluster.local';
const MANAGER = 'envoy.filters.network.http_connection_manager';
/** A patch asks for one of these, or for anything. */
const maybe = <T>(...values: readonly T[]) => fc.option(fc.constantFrom(...values), { nil: undefined, freq: 2 });
const seldom = <T>(...values: readonly T[]) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...values) });
const port = maybe(80, 81, 8080, 15006);
const CONTEXTS = ['ANY', 'ANY', 'ANY', 'ANY', 'ANY', 'SIDECAR_INBOUND', 'SIDECAR_OUTBOUND', 'GATEWAY'];

const cluster = fc.oneof(
  fc.record({ name: fc.constantFrom(`outbound|80||${WEB}`, 'BlackHoleCluster', `outbound|80|v1|${WEB}`) }),
  fc.record({ service: maybe(WEB, DB, 'nobody', ''), subset: maybe('v1', 'v2', ''), portNumber: port }),
);
const filter = fc.record({
  name: fc.constantFrom(MANAGER, MANAGER, 'envoy.http_connection_manager', 'envoy.filters.network.x', 'envoy.x'),
  subFilter: maybe(
    { name: 'envoy.router' },
    { name: 'envoy.router' },
    { name: 'envoy.filters.http.router' },
    { name: 'envoy.x' },
    {},
  ),
});
const filterChain = fc.record({
  name: seldom('virtualInbound-catchall-http', 'renamed'),
  destinationPort: seldom(8080, 81),
  filter: fc.option(filter, { nil: undefined, freq: 2 }),
});
const listener = fc.record({
  name: seldom('virtualInbound', '0.0.0.0_80', '0.0.0.0_81'),
  portNumber: seldom(80, 81, 8080),
  filterChain: fc.option(filterChain, { nil: undefined }),
});
const route = maybe({ name: 'main' }, { name: 'old' }, { action: 'REDIRECT' }, { name: 'renamed' });
const vhost = fc.record({
  name: seldom(`${WEB}:80`, `${DB}:80`, 'renamed', 'allow_any', 'shop.example.com:80'),
  domainName: seldom(`${WEB}:80`, DB, 'shop.example.com', 'added.example', '*'),
  route,
});
const routeConfiguration = fc.record({
  name: seldom('80', 'http.80'),
  portNumber: seldom(80, 8080),
  vhost: fc.option(vhost, { nil: undefined, freq: 4 }),
});

type Target = readonly [applyTo: string, operations: readonly string[], values: readonly object[]];

/** Replaced by a text of each patch's own, so that every patch that is applied shows. */
const MARK = 'MARK';
const LUA = typed('filters.http.lua.v3.Lua', {});
/** Merged into the router. */
const ROUTER_LOG = { typed_config: typed('filters.http.router.v3.Router', { upstream_log: [{ name: MARK }] }) };

/** Values append to lists, and some change what later patches match: names, ports, domains. Few do not fit. */
const OF_CLUSTERS: readonly Target[] = [['CLUSTER', ['MERGE'], [{ filters: [{ name: MARK }] }]]];
const OF_LISTENERS: readonly Target[] = [
  [
    'LISTENER',
    ['MERGE'],
    [
      { access_log: [{ name: MARK }] },
      { access_log: [{ name: MARK }], address: { socket_address: { port_value: 81 } } },
    ],
  ],
  [
    'FILTER_CHAIN',
    ['MERGE', 'ADD'],
    [
      { filters: [{ name: MARK }] },
      { filters: [{ name: MARK }], name: 'renamed' },
      { filters: [{ name: MARK }], filter_chain_match: { destination_port: 81 } },
    ],
  ],
  ['NETWORK_FILTER', ['INSERT_BEFORE', 'INSERT_AFTER'], [{ name: MARK }, { name: 'envoy.filters.network.x' }]],
  ['HTTP_FILTER', ['MERGE'], [ROUTER_LOG]],
  [
    'HTTP_FILTER',
    ['INSERT_FIRST', 'INSERT_BEFORE', 'REPLACE'],
    [
      { name: MARK, typed_config: LUA },
      { name: 'envoy.filters.http.x', typed_config: LUA },
    ],
  ],
];
const OF_ROUTES: readonly Target[] = [
  ['ROUTE_CONFIGURATION', ['MERGE'], [{ request_headers_to_remove: [MARK] }]],
  [
    'VIRTUAL_HOST',
    ['MERGE'],
    [
      { request_headers_to_remove: [MARK] },
      { request_headers_to_remove: [MARK], name: 'renamed' },
      { request_headers_to_remove: [MARK], domains: ['MARK.example', 'added.example'] },
    ],
  ],
  [
    'HTTP_ROUTE',
    ['MERGE', 'MERGE', 'INSERT_FIRST', 'INSERT_BEFORE', 'INSERT_AFTER'],
    [
      { request_headers_to_remove: [MARK] },
      { request_headers_to_remove: [MARK], name: 'renamed' },
      { request_headers_to_remove: [MARK], match: { prefix: '/added' }, direct_response: { status: 200 } },
    ],
  ],
];

function patchOf([applyTo, operations, values]: Target, match: fc.Arbitrary<object>): fc.Arbitrary<object> {
  return fc.record({
    applyTo: fc.constant(applyTo),
    match: fc.tuple(fc.constantFrom(...CONTEXTS), match).map(([context, object]) => ({ context, ...object })),
    // Few patches remove, because nothing shows the other patches of what is removed.
    patch: fc.oneof(
      {
        weight: 30,
        arbitrary: fc.record({ operation: fc.constantFrom(...operations), value: fc.constantFrom(...values) }),
      },
      { weight: 1, arbitrary: fc.constant({ operation: 'REMOVE' }) },
    ),
  });
}

/** So many patches of each target that they are indexed; those of several targets, and those of one. */
function patchesOf(targets: readonly Target[], match: fc.Arbitrary<object>): fc.Arbitrary<readonly object[]> {
  const ofEach = targets.map((target) => fc.array(patchOf(target, match), { minLength: 25, maxLength: 40 }));
  return fc.oneof(
    ...ofEach,
    fc.tuple(...ofEach).map((lists) => lists.flat()),
  );
}

const PATCHES = fc.oneof(
  patchesOf(OF_CLUSTERS, fc.record({ cluster })),
  patchesOf(OF_LISTENERS, fc.record({ listener })),
  patchesOf(OF_ROUTES, fc.record({ routeConfiguration })),
);

function typed(type: string, fields: object): object {
  return { '@type': `type.googleapis.com/envoy.extensions.${type}`, ...fields };
}

/** Each patch is an EnvoyFilter of its own: one that does not fit leaves the others. */
function envoyFilters(patches: readonly object[]): readonly AnyResource[] {
  return patches.flatMap((patch, index) => {
    const name = `patch-${String(index).padStart(2, '0')}`;
    // Without the fields that are absent, as a parser of documents makes it.
    const text = JSON.stringify(networking('EnvoyFilter', name, { configPatches: [patch] }));
    return readResources('patches', [JSON.parse(text.replaceAll(MARK, name)) as unknown]);
  });
}

function generated(resources: readonly AnyResource[], enabled: boolean): unknown {
  const memos = new Memos({ enabled });
  const empty = createModel(DEFAULT_SETTINGS, defaultMeshConfig(), defaultMeshNetworks(), { memos });
  const snapshot = replay(empty, resources);
  const views = NODES.flatMap((node) => viewsOf(snapshot, node));
  const jobs = views.map((view): GenerateJob => {
    return { viewKey: viewKey(view), view, units: { cds: 'all', lds: 'all', rds: 'all', vhds: 'all' }, placements: [] };
  });
  return made(runJobs(snapshot, jobs));
}

test('random EnvoyFilters give the same bytes with and without the index of patches', () => {
  let patched = 0;
  const plain = JSON.stringify(generated(BASE, true));
  fc.assert(
    fc.property(PATCHES, (patches) => {
      const resources = [...BASE, ...envoyFilters(patches)];
      const indexed = generated(resources, true);
      assert.deepEqual(indexed, generated(resources, false));
      if (JSON.stringify(indexed) !== plain) patched++;
    }),
    { numRuns: 120 },
  );
  assert.ok(patched > 50, `only ${patched} of them changed anything`);
});
