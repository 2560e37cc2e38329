/** Failures of patches that do not fit; the golden files `envoy-filter-*` show patches that do. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serialize } from 'node:v8';
import type { Snapshot } from '../../model/types/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { generate } from '../generate.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import { outboundView } from '../testing/views.ts';
import type { FormerFilter, FormerFilters, GenerationResult } from '../types.ts';
import { DEFAULT_PLACEMENT, type OutboundView } from '../views.ts';

const { Cluster } = envoy.config.cluster.v3;
const { Listener } = envoy.config.listener.v3;
const { RouteConfiguration } = envoy.config.route.v3;
const { HttpConnectionManager: Manager } = envoy.extensions.filters.network.http_connection_manager.v3;

const entry = (host: string, port = 80) =>
  meshResource('ServiceEntry', 'default', host, {
    hosts: [`${host}.example.com`],
    ports: [{ number: port, name: 'http', protocol: 'HTTP' }],
    resolution: 'STATIC',
    endpoints: [{ address: '10.0.0.1' }],
  });

function meshWith(...configPatches: readonly object[]): Snapshot {
  return meshOf([entry('web'), entry('db', 81), meshResource('EnvoyFilter', 'default', 'patches', { configPatches })]);
}

function view(count: number): OutboundView {
  const patches = Array.from({ length: count }, (_, index) => index);
  const applied = [{ key: 'EnvoyFilter/default/patches', patches }];
  return outboundView({ patches: { cds: applied, lds: applied, rds: applied, vhds: applied } });
}

function generated(...configPatches: readonly object[]): GenerationResult {
  return generate(meshWith(...configPatches), view(configPatches.length), { cds: 'all', lds: 'all', rds: 'all' });
}

const failures = (result: GenerationResult) =>
  result.failures.map(({ type, unit, message }) => `${type} ${unit}: ${message}`);

const LABEL = 'EnvoyFilter/default/patches: spec.configPatches[0]';
const MANAGER = 'envoy.filters.network.http_connection_manager';
const LUA = 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua';
const DB_ROUTES = { routeConfiguration: { name: '81', vhost: { name: 'db.example.com:81' } } };
const lua = { name: 'lua', typed_config: { '@type': LUA } };

test('an HTTP filter behind the router is a failure of its listener, and other listeners are built', () => {
  const result = generated({
    applyTo: 'HTTP_FILTER',
    match: { listener: { portNumber: 80, filterChain: { filter: { name: MANAGER } } } },
    patch: { operation: 'ADD', value: lua },
  });
  const message = `${LABEL}: the HTTP filter lua is inserted after envoy.filters.http.router, which must be the last filter`;
  assert.deepEqual(failures(result), [`lds 80: ${message}`]);
  assert.deepEqual([...(result.units.lds?.keys() ?? [])], ['80', '81', 'virtual']);
});

test('EnvoyFilters that do not fit are left out, and the others apply', () => {
  const names = Array.from({ length: 20 }, (_, index) => `f${index}`);
  const patchOf = (name: string, isBad: boolean) => {
    const value = isBad ? { name } : { alt_stat_name: name, ignore_health_on_host_removal: true };
    return { applyTo: 'CLUSTER', match: { cluster: { portNumber: 80 } }, patch: { operation: 'MERGE', value } };
  };
  const applied = names.map((name) => ({ key: `EnvoyFilter/default/${name}`, patches: [0] }));
  const cluster = (bad: readonly number[]) => {
    const filters = names.map((name, index) =>
      meshResource('EnvoyFilter', 'default', name, { configPatches: [patchOf(name, bad.includes(index))] }),
    );
    const result = generate(meshOf([entry('web'), ...filters]), outboundView({ patches: { cds: applied } }), {
      cds: 'all',
    });
    const [made] = result.units.cds?.get('web.example.com') ?? [];
    assert.ok(made !== undefined);
    return { name: Cluster.decode(made.bytes).altStatName, failures: failures(result) };
  };
  assert.deepEqual(cluster([]), { name: 'f19', failures: [] });
  for (const [bad, last] of [
    [[19], 'f18'],
    [[0, 7, 18], 'f19'],
    [names.map((_, index) => index).slice(5), 'f4'],
    [names.map((_, index) => index), ''],
  ] as const) {
    const { name, failures: lines } = cluster(bad);
    assert.equal(name, last);
    assert.match(lines.join(), new RegExp(`^cds web.*/f${bad[0]}: .* cannot rename`));
  }
});

test('a filter of another type than the patch names is a failure; a patch that names none is for its own type', () => {
  const subFilter = { name: 'envoy.filters.http.router' };
  const merge = (filter: object) => ({
    applyTo: 'HTTP_FILTER',
    match: { listener: { portNumber: 80, filterChain: { filter } } },
    patch: { operation: 'MERGE', value: { typed_config: { '@type': LUA } } },
  });
  assert.match(
    failures(generated(merge({ name: MANAGER, subFilter })))[0] ?? '',
    /^lds 80: .*: cannot merge type.*Lua into/,
  );
  assert.deepEqual(failures(generated(merge({ name: MANAGER }))), []);
});

test('a repeated domain is a failure of its route configuration', () => {
  const value = { name: 'again', domains: ['WEB.example.com'], routes: [] };
  const result = generated({ applyTo: 'VIRTUAL_HOST', patch: { operation: 'ADD', value } });
  assert.deepEqual(failures(result), [
    `rds 80: ${LABEL}: the route configuration 80 would have the domain WEB.example.com twice`,
  ]);
});

test('a resource that others refer to by name cannot be renamed', () => {
  const rename = (applyTo: string) => generated({ applyTo, patch: { operation: 'MERGE', value: { name: 'new' } } });
  for (const [target, type] of [
    ['CLUSTER', 'cds'],
    ['LISTENER', 'lds'],
    ['ROUTE_CONFIGURATION', 'rds'],
  ] as const) {
    assert.ok(
      failures(rename(target)).every((line) => line.startsWith(type) && line.includes(' cannot rename ')),
      target,
    );
    assert.ok(failures(rename(target)).length > 1, target);
  }
});

test('an added listener with a route configuration that nothing provides is a failure of its own', () => {
  const typed = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    rds: { route_config_name: 'nowhere', config_source: { ads: {} } },
  };
  const value = { name: 'added', filter_chains: [{ filters: [{ name: MANAGER, typed_config: typed }] }] };
  const result = generated({ applyTo: 'LISTENER', patch: { operation: 'ADD', value } });
  const message = 'the listener added would refer to routes nowhere, which do not exist';
  assert.deepEqual(failures(result), [`lds |added|added: ${LABEL}: ${message}`]);
});

test('a listener on a port of the redirection cannot be added', () => {
  const address = { socket_address: { address: '0.0.0.0', port_value: 15006 } };
  const patch = { applyTo: 'LISTENER', patch: { operation: 'ADD', value: { name: 'added', address } } };
  const message = 'the listener added would take port 15006, which is reserved for redirection';
  assert.deepEqual(failures(generated(patch)), [`lds |added|added: ${LABEL}: ${message}`]);
});

test('a cluster that cannot be added is a failure of its own, and others are added', () => {
  const adding = (value: object) => ({ applyTo: 'CLUSTER', patch: { operation: 'ADD', value } });
  const config = { eds_config: { ads: {} } };
  const result = generated(adding({ name: 'bad', type: 'EDS', eds_cluster_config: config }), adding({ name: 'good' }));
  const message = 'the cluster bad would refer to endpoints bad, which do not exist';
  assert.deepEqual(failures(result), [`cds |added|bad: ${LABEL}: ${message}`]);
  assert.deepEqual(
    result.units.cds?.get('|added|good')?.map(({ name }) => name),
    ['good'],
  );
});

test('endpoints and routes of another server need not be provided here', () => {
  const source = { path_config_source: { path: '/etc/envoy/eds.json' } };
  const added = { name: 'files', type: 'EDS', eds_cluster_config: { eds_config: source } };
  assert.deepEqual(failures(generated({ applyTo: 'CLUSTER', patch: { operation: 'ADD', value: added } })), []);
});

test('a patch that is not applied may have any value, and other patches of its EnvoyFilter apply', () => {
  const result = generated(
    { applyTo: 'BOOTSTRAP', patch: { operation: 'MERGE', value: { from_a_newer_version: 1 } } },
    { applyTo: 'CLUSTER', patch: { operation: 'ADD', value: { name: 'added' } } },
  );
  assert.deepEqual(failures(result), []);
  assert.ok(result.units.cds?.has('|added|added'));
});

test('a domain that is repeated by merging a route configuration is a failure', () => {
  const again = { name: 'again', domains: ['web.example.com'], routes: [] };
  const value = { virtual_hosts: [again] };
  const result = generated({ applyTo: 'ROUTE_CONFIGURATION', patch: { operation: 'MERGE', value } });
  assert.deepEqual(failures(result), [
    `rds 80: ${LABEL}: the route configuration 80 would have the domain web.example.com twice`,
  ]);
});

test('lists of the value replace those of what it is merged into', () => {
  const domainsAfter = (operation: string) => {
    const value = { domains: ['other.example.com'] };
    const { units } = generated({ applyTo: 'VIRTUAL_HOST', match: DB_ROUTES, patch: { operation, value } });
    const [made] = units.rds?.get('81') ?? [];
    assert.ok(made !== undefined);
    return RouteConfiguration.decode(made.bytes).virtualHosts.map(({ domains }) => domains);
  };
  const [appended = []] = domainsAfter('MERGE');
  assert.ok(appended.length > 1);
  assert.ok(appended.includes('other.example.com'));
  assert.deepEqual(domainsAfter('MERGE_AND_REPLACE_LIST')[0], ['other.example.com']);
});

test('lists inside the configuration of a filter are replaced, too', () => {
  const manager = (operation: string) => {
    const typed = {
      '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
      upgrade_configs: [{ upgrade_type: 'other' }],
      server_name: 'patched',
    };
    const match = { listener: { portNumber: 80, filterChain: { filter: { name: MANAGER } } } };
    const patch = { operation, value: { typed_config: typed } };
    const result = generated({ applyTo: 'NETWORK_FILTER', match, patch });
    assert.deepEqual(failures(result), []);
    const [made] = result.units.lds?.get('80') ?? [];
    const [filter] = Listener.decode(made?.bytes ?? new Uint8Array()).filterChains.flatMap(({ filters }) => filters);
    const { serverName, upgradeConfigs, httpFilters } = Manager.decode(filter?.typedConfig?.value ?? new Uint8Array());
    assert.equal(serverName, 'patched');
    assert.ok(httpFilters.length > 1);
    return upgradeConfigs.map(({ upgradeType }) => upgradeType);
  };
  assert.deepEqual(manager('MERGE'), ['websocket', 'other']);
  assert.deepEqual(manager('MERGE_AND_REPLACE_LIST'), ['other']);
});

test('patches for waypoints apply to no proxy', () => {
  const patch = { operation: 'ADD', value: { name: 'added' } };
  const result = generated({ applyTo: 'CLUSTER', match: { context: 'WAYPOINT', waypoint: {} }, patch });
  assert.deepEqual(failures(result), []);
  assert.equal(result.units.cds?.has('|added|added'), false);
});

test('clusters do not read patches of listeners', () => {
  const patches = { lds: [{ key: 'EnvoyFilter/default/patches', patches: [0] }] };
  const patch = { applyTo: 'HTTP_FILTER', patch: { operation: 'REMOVE' } };
  const { reads } = generate(meshWith(patch), outboundView({ patches }), { cds: 'all', lds: 'all', rds: 'all' });
  const readers = (['cds', 'lds', 'rds'] as const).filter((type) =>
    [...(reads[type]?.units.values() ?? [])].some((facts) => facts.includes('EnvoyFilter/default/patches')),
  );
  assert.deepEqual(readers, ['lds']);
});

test('resources that no patch matches keep their bytes', () => {
  const none = generate(meshWith(), outboundView({}), { cds: 'all', lds: 'all', rds: 'all' });
  const match = { cluster: { service: 'nobody' } };
  const patched = generated({
    applyTo: 'CLUSTER',
    match,
    patch: { operation: 'MERGE', value: { alt_stat_name: 'x' } },
  });
  assert.deepEqual(patched.units, none.units);
});

test('placements that share the clusters of a host share them after the patches, too', () => {
  const host = 'dns.example.com';
  const service = meshResource('ServiceEntry', 'default', 'dns', {
    hosts: [host],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    resolution: 'DNS',
    endpoints: [
      { address: 'one.example.com', locality: 'r1/z' },
      { address: 'two.example.com', locality: 'r2/z' },
    ],
  });
  const trafficPolicy = { outlierDetection: { consecutive5xxErrors: 5 } };
  const rule = meshResource('DestinationRule', 'default', 'dns', { host, trafficPolicy });
  const placements = ['', 'n2'].map((network) => ({ network, locality: 'r1/z', cluster: '' }));
  const shared = (...configPatches: readonly object[]) => {
    const mesh = meshOf([service, rule, meshResource('EnvoyFilter', 'default', 'patches', { configPatches })]);
    const of = view(configPatches.length);
    return generate(mesh, of, { cds: 'all' }, placements).placed.get(host);
  };
  const merging = (name: string) => ({
    applyTo: 'CLUSTER',
    match: { cluster: { name } },
    patch: { operation: 'MERGE', value: { alt_stat_name: 'x' } },
  });
  for (const name of ['nobody', `outbound|80||${host}`]) {
    const [one, two] = shared(merging(name)) ?? [];
    assert.ok(one !== undefined && one.length > 0);
    assert.equal(one, two, name);
  }
});

describe('EnvoyFilters that do not fit, with their former versions', () => {
  const merging = (value: object): object => ({
    applyTo: 'CLUSTER',
    match: { cluster: { portNumber: 80 } },
    patch: { operation: 'MERGE', value },
  });
  const named = (name: string) => [merging({ alt_stat_name: name })];
  /** It does not fit, because it renames the cluster. */
  const bad = [merging({ name: 'bad' })];

  interface Version {
    readonly key: string;
    readonly now: readonly object[];
    /** What the unit was made with; `same`: the current version; absent: it was made without. */
    readonly before?: readonly object[] | 'same';
  }

  /** The cluster of port 80, or the added one, and what is reported. */
  function made(versions: readonly Version[], unit = 'web.example.com', units: readonly string[] | undefined = [unit]) {
    const documents = versions.map(({ key, now }) => {
      const [, namespace = '', name = ''] = key.split('/');
      return meshResource('EnvoyFilter', namespace, name, { configPatches: now });
    });
    const all = (list: readonly object[]) => list.map((_, index) => index);
    const filters = versions.flatMap(({ key, now, before }): FormerFilter[] => {
      if (before === undefined) return [];
      if (before === 'same') return [{ key, patches: all(now) }];
      const [, namespace = '', name = ''] = key.split('/');
      const { content } = meshResource('EnvoyFilter', namespace, name, { configPatches: before });
      return [{ key, patches: all(before), content: new Uint8Array(serialize(content)) }];
    });
    const view = outboundView({ patches: { cds: versions.map(({ key, now }) => ({ key, patches: all(now) })) } });
    const former: FormerFilters[] = [{ type: 'cds', ...(units && { units }), filters }];
    const result = generate(meshOf([entry('web'), ...documents]), view, { cds: 'all' }, [DEFAULT_PLACEMENT], former);
    const [cluster] = result.units.cds?.get(unit) ?? [];
    const [failure] = result.failures.filter((each) => each.unit === unit);
    return {
      cluster: cluster && Cluster.decode(cluster.bytes),
      misfits: failure?.misfits?.map(({ key, use }) => `${key} ${use}`),
    };
  }

  const [A, B] = ['EnvoyFilter/default/a', 'EnvoyFilter/default/b'] as const;

  test('the former version applies, also to units that are new', () => {
    for (const units of [['web.example.com'], undefined]) {
      const { cluster, misfits } = made([{ key: A, now: bad, before: named('one') }], 'web.example.com', units);
      assert.deepEqual([cluster?.altStatName, misfits], ['one', [`${A} former version`]]);
    }
  });

  test('the others keep their current versions', () => {
    const { cluster, misfits } = made([
      { key: A, now: bad, before: named('one') },
      { key: B, now: [merging({ connect_timeout: '7s' })], before: [merging({ connect_timeout: '6s' })] },
    ]);
    assert.deepEqual([cluster?.altStatName, Number(cluster?.connectTimeout?.seconds)], ['one', 7]);
    assert.deepEqual(misfits, [`${A} former version`]);
  });

  test('a former version that does not fit any more is left out', () => {
    const { cluster, misfits } = made([{ key: A, now: bad, before: bad }]);
    assert.deepEqual([cluster?.altStatName, misfits], ['', [`${A} nothing`]]);
  });

  test('all patches of an EnvoyFilter are of one version', () => {
    const { cluster, misfits } = made([
      {
        key: A,
        now: [merging({ alt_stat_name: 'two' }), ...bad],
        before: [merging({ alt_stat_name: 'one' }), merging({ connect_timeout: '6s' })],
      },
    ]);
    assert.deepEqual([cluster?.altStatName, Number(cluster?.connectTimeout?.seconds)], ['one', 6]);
    assert.deepEqual(misfits, [`${A} former version`]);
  });

  test('an added cluster has its former version, and without one it is a failure of its own', () => {
    const adding = (value: object) => [{ applyTo: 'CLUSTER', patch: { operation: 'ADD', value } }];
    const eds = { name: 'added', type: 'EDS', eds_cluster_config: { eds_config: { ads: {} } } };
    const now = adding(eds);
    const known = made([{ key: A, now, before: adding({ name: 'added', alt_stat_name: 'one' }) }], '|added|added');
    assert.deepEqual([known.cluster?.altStatName, known.misfits], ['one', [`${A} former version`]]);
    const unknown = made([{ key: A, now }], '|added|added');
    assert.deepEqual(unknown, { cluster: undefined, misfits: undefined });
  });
});
