import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyChanges } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { resolveEndpoints } from '../endpoints/resolve.ts';
import { generate } from '../generate.ts';
import { MeshReader } from '../reads/index.ts';
import { affectedUnits } from '../testing/affected-units.ts';
import { viewOf } from '../testing/gateways.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import { DEFAULT_PLACEMENT } from '../views.ts';
import { gatewayListeners } from './index.ts';

const resource = (kind: string, name: string, spec: object, namespace = 'shop') =>
  meshResource(kind, namespace, name, spec);

const service = (name: string, port: number, namespace?: string) =>
  resource('Service', name, { clusterIP: '10.0.0.1', ports: [{ name: 'http', port }] }, namespace);

const gateway = (hosts: readonly string[], mode = 'AUTO_PASSTHROUGH') => {
  const server = { port: { number: 15443, name: 'tls', protocol: 'TLS' }, hosts, tls: { mode } };
  return resource('Gateway', 'gw', { selector: { app: 'gw' }, servers: [server] }, 'edge');
};

const subsets = resource('DestinationRule', 'web', {
  host: 'web',
  subsets: [{ name: 'v1', labels: { version: 'v1' } }],
  trafficPolicy: { tls: { mode: 'MESH_MUTUAL' } },
});

const mesh = (...resources: readonly AnyResource[]): Snapshot => meshOf(resources);

const WEB = 'web.shop.svc.cluster.local';
const VIEW = viewOf({ capabilities: { extensions: undefined, sds: true } });

function chains(snapshot: Snapshot) {
  const [only] = gatewayListeners(MeshReader.of(snapshot), VIEW, '15443').resources;
  if (only === undefined) return [];
  return envoy.config.listener.v3.Listener.decode(only.bytes).filterChains;
}

function names(snapshot: Snapshot): string[] {
  return chains(snapshot).flatMap(({ filterChainMatch }) => filterChainMatch?.serverNames ?? []);
}

/** Clusters by name, with their endpoints' name where they request any. */
function clusters(snapshot: Snapshot) {
  const { units, failures } = generate(snapshot, VIEW, { cds: 'all' });
  assert.deepEqual(failures, []);
  const found = [...(units.cds?.values() ?? [])].flat();
  return new Map(found.map(({ name, bytes }) => [name, envoy.config.cluster.v3.Cluster.decode(bytes)]));
}

describe('TLS that is passed through by its server name', () => {
  test('has a chain for each port and subset of the covered services, for mutual TLS of the mesh only', () => {
    const snapshot = mesh(
      gateway(['*.shop.svc.cluster.local']),
      service('web', 80),
      service('db', 81, 'other'),
      subsets,
    );
    assert.deepEqual(names(snapshot), [`outbound_.80_._.${WEB}`, `outbound_.80_.v1_.${WEB}`]);
    for (const { filterChainMatch, transportSocket, filters } of chains(snapshot)) {
      assert.ok(filterChainMatch?.applicationProtocols.includes('istio'));
      assert.equal(transportSocket ?? undefined, undefined);
      assert.equal(filters.at(-1)?.name, 'envoy.filters.network.tcp_proxy');
    }
  });

  test('is for hosts that may name the namespace', () => {
    const services = [service('web', 80), service('web', 80, 'other')];
    assert.deepEqual(names(mesh(gateway(['other/*.local']), ...services)), [
      'outbound_.80_._.web.other.svc.cluster.local',
    ]);
  });

  test('never matches a wildcard, which is not a server name', () => {
    const wildcard = resource('ServiceEntry', 'any', {
      hosts: ['*.example.com'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'NONE',
    });
    const snapshot = mesh(gateway(['*']), service('web', 80), wildcard);
    assert.deepEqual(names(snapshot), [`outbound_.80_._.${WEB}`]);
    assert.deepEqual(
      [...clusters(snapshot).keys()].filter((name) => name.startsWith('outbound_.')),
      [`outbound_.80_._.${WEB}`],
    );
  });

  test('has clusters of the same names, without TLS of their own, beside the usual ones', () => {
    const found = clusters(mesh(gateway(['*']), service('web', 80), subsets));
    for (const subset of ['', 'v1']) {
      const passing = found.get(`outbound_.80_.${subset}_.${WEB}`);
      assert.equal(passing?.transportSocket ?? undefined, undefined);
      assert.equal(passing?.edsClusterConfig?.serviceName, '');
      assert.ok(
        resolveEndpoints(
          mesh(gateway(['*']), service('web', 80), subsets),
          VIEW,
          DEFAULT_PLACEMENT,
          passing?.name ?? '',
        ),
      );
      assert.notEqual(found.get(`outbound|80|${subset}|${WEB}`)?.transportSocket, undefined);
    }
  });

  test('has no clusters and endpoints without such a server', () => {
    const snapshot = mesh(gateway(['*'], 'PASSTHROUGH'), service('web', 80));
    assert.deepEqual([...clusters(snapshot).keys()], [`outbound|80||${WEB}`, 'BlackHoleCluster']);
    assert.equal(resolveEndpoints(snapshot, VIEW, DEFAULT_PLACEMENT, `outbound_.80_._.${WEB}`), undefined);
    assert.deepEqual(chains(snapshot), []);
  });

  const changes: readonly [string, AnyResource][] = [
    ['a service', service('new', 90)],
    ['subsets', subsets],
    ['the hosts', gateway(['*.other'])],
    ['the mode', gateway(['*'], 'PASSTHROUGH')],
  ];
  for (const [what, after] of changes) {
    test(`${what}: the affected units include all that differ`, () => {
      const before = mesh(gateway(['*']), service('web', 80));
      before.gatewayScope('edge');
      const { snapshot, changes: set } = applyChanges(before, {
        changes: [{ key: keyOf(after), before: undefined, after }],
      });
      const selection = affectedUnits(before, snapshot, set, VIEW) ?? {};
      for (const type of ['cds', 'lds', 'rds'] as const) {
        const [old, fresh] = [before, snapshot].map((each) => generate(each, VIEW, { [type]: 'all' }).units[type]);
        const differing = [...new Set([...(old?.keys() ?? []), ...(fresh?.keys() ?? [])])].filter(
          (unit) => JSON.stringify(old?.get(unit)) !== JSON.stringify(fresh?.get(unit)),
        );
        const chosen = selection[type];
        if (chosen !== 'all')
          assert.deepEqual(
            differing.filter((unit) => chosen?.has(unit) !== true),
            [],
          );
      }
    });
  }
});
