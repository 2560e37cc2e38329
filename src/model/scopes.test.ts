/** What is visible to a namespace's proxies: exportTo, Sidecars, destination rules, virtual services, gateways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf } from '../resources/kinds/types.ts';
import { defaultMeshNetworks } from '../resources/mesh-config.ts';
import { selectedRule } from './rules/destination-rules.ts';
import { fqdn, meshOf, resource, service, step } from './testing/build.ts';
import { applyChanges, modelOf } from './testing/steps.ts';
import type { Scope } from './types/types.ts';

const hostsOf = (scope: Scope) => scope.services.sorted().map(([host]) => host);

const exported = (path: string, exportTo: string) =>
  service(path, {}, { annotations: { 'networking.istio.io/exportTo': exportTo } });

test('exportTo decides who sees a service; without it, the mesh default does', () => {
  const resources = [exported('a/own', '.'), exported('a/pub', '*'), exported('a/none', '~'), exported('a/b', 'b, c')];
  const seen = (namespace: string) => hostsOf(meshOf(resources).scopeOf(namespace, {}));
  assert.deepEqual(seen('a'), [fqdn('own.a'), fqdn('pub.a')]);
  assert.deepEqual(seen('b'), [fqdn('b.a'), fqdn('pub.a')]);
  const closed = meshOf([service('a/web')], { mesh: { defaultServiceExportTo: ['.'] } });
  assert.deepEqual([hostsOf(closed.scopeOf('a', {})), hostsOf(closed.scopeOf('b', {}))], [[fqdn('web.a')], []]);
});

test('namespaces without services visible only to them share one map, before and after a change', () => {
  const before = meshOf([service('a/web'), exported('b/own', '.')]);
  for (const namespace of ['a', 'b', 'c']) before.scopeOf(namespace, {});
  const { snapshot } = step(before, [service('a/new')]);
  assert.equal(snapshot.scopeOf('a', {}).services, snapshot.scopeOf('c', {}).services);
  assert.notEqual(snapshot.scopeOf('b', {}).services, snapshot.scopeOf('c', {}).services);
});

test('for one host in several namespaces, the proxy’s own namespace wins, then the oldest', () => {
  const entry = (path: string, created: number) => resource('ServiceEntry', path, { hosts: ['h.com'] }, { created });
  const snapshot = meshOf([entry('a/e', 1), entry('b/e', 2)]);
  const seen = (namespace: string) => snapshot.scopeOf(namespace, {}).services.get('h.com')?.namespace;
  assert.deepEqual([seen('a'), seen('b'), seen('c')], ['a', 'b', 'a']);
});

const sidecar = (path: string, hosts: readonly string[], spec: Record<string, unknown> = {}) =>
  resource('Sidecar', path, { egress: [{ hosts }], ...spec });

test('the Sidecar is chosen by selector, then for the namespace, then of the root namespace', () => {
  const snapshot = meshOf([
    sidecar('a/all', ['./*']),
    sidecar('a/web', ['*/*'], { workloadSelector: { labels: { app: 'web' } } }),
    sidecar('mesh-system/root', ['./*']),
  ]);
  assert.equal(snapshot.scopeOf('a', { app: 'web' }).id, 'a/web');
  assert.equal(snapshot.scopeOf('a', {}).id, 'a/all');
  assert.equal(snapshot.scopeOf('b', {}).id, 'b/mesh-system/root');
  assert.equal(snapshot.scopeById('b/mesh-system/root')?.sidecar, 'Sidecar/mesh-system/root');
  assert.equal(snapshot.scopeById('a/nothing'), undefined);
  assert.equal(snapshot.gatewayScope('a').id, 'a/');
});

test('egress hosts: own namespace, others, wildcards, none; `.` in a Sidecar of the root namespace means the proxy’s namespace', () => {
  const services = [service('a/web'), service('b/web'), service('b/db')];
  const external = resource('ServiceEntry', 'b/e', { hosts: ['x.foo.com'] });
  const seen = (...hosts: string[]) => hostsOf(meshOf([...services, external, sidecar('a/s', hosts)]).scopeOf('a', {}));
  assert.deepEqual(seen('./*'), [fqdn('web.a')]);
  assert.deepEqual(seen('b/*'), [fqdn('db.b'), fqdn('web.b'), 'x.foo.com']);
  assert.deepEqual(seen('*/*.foo.com'), ['x.foo.com']);
  assert.deepEqual(seen(`b/${fqdn('db.b')}`, './*'), [fqdn('db.b'), fqdn('web.a')]);
  assert.deepEqual(seen('~/*'), []);
  assert.equal(seen('*/*').length, 4);
  const root = meshOf([...services, sidecar('mesh-system/s', ['./*'])]);
  assert.deepEqual(hostsOf(root.scopeOf('a', {})), [fqdn('web.a')]);
});

test('egress hosts after `~` are not imported, whatever else imports them', () => {
  const services = [service('a/web'), service('b/web'), service('b/db'), service('c/db')];
  const external = resource('ServiceEntry', 'b/e', { hosts: ['x.foo.com', '*.bar.com'] });
  const seen = (...hosts: string[]) => hostsOf(meshOf([...services, external, sidecar('a/s', hosts)]).scopeOf('a', {}));
  const [own, web, db, other] = [fqdn('web.a'), fqdn('web.b'), fqdn('db.b'), fqdn('db.c')];
  assert.deepEqual(seen('*/*', '~b/*'), [other, own]);
  assert.deepEqual(seen('*/*', `~b/${db}`, '~b/*.com'), [other, own, web]);
  assert.deepEqual(seen('b/*', '~/*.foo.com', '~*/*.local'), ['*.bar.com']);
  assert.deepEqual(seen('b/*', '~/one.bar.com', '~/*.local'), ['*.bar.com', 'x.foo.com']);
  assert.deepEqual(seen(`b/${db}`, `~b/${db}`), []);
  assert.deepEqual(seen('*/*', '~./*', '~c/*').length, 4);
  assert.deepEqual(seen('b/*.local', '~/*'), [db, web]);
  // Of the root namespace, `.` is the proxy's namespace.
  const root = meshOf([...services, sidecar('mesh-system/s', ['*/*', '~./*'])]);
  assert.deepEqual(hostsOf(root.scopeOf('a', {})), [db, other, web]);
});

test('a service that was not visible appears when the Sidecar excludes it no more', () => {
  const before = meshOf([service('b/web'), sidecar('a/s', ['*/*', '~b/*'])]);
  assert.deepEqual(hostsOf(before.scopeOf('a', {})), []);
  const { snapshot } = step(before, [service('b/db'), sidecar('a/s', ['*/*', `~b/${fqdn('db.b')}`])]);
  assert.deepEqual(hostsOf(snapshot.scopeOf('a', {})), [fqdn('web.b')]);
});

test('a listener of one port has the services of that port; bind, capture mode and traffic policy are taken over', () => {
  const snapshot = meshOf([
    service('a/web'),
    service('a/db', { ports: [{ name: 'tcp', port: 3306 }] }),
    resource('Sidecar', 'a/s', {
      egress: [
        {
          port: { number: 3306, protocol: 'MYSQL', name: 'db' },
          bind: '127.0.0.1',
          captureMode: 'NONE',
          hosts: ['./*'],
        },
        { hosts: ['./*'] },
      ],
      outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' },
    }),
  ]);
  const scope = snapshot.scopeOf('a', {});
  const [first, second] = scope.egress;
  assert.deepEqual(first?.port, { number: 3306, protocol: 'MySQL', name: 'db' });
  assert.deepEqual([first?.bind, first?.captureMode], ['127.0.0.1', 'NONE']);
  assert.deepEqual(
    first?.services.sorted().map(([host]) => host),
    [fqdn('db.a')],
  );
  assert.equal(second?.services.size, 2);
  assert.equal(scope.outboundTrafficPolicy, 'REGISTRY_ONLY');
});

const route = (path: string, host: string, to: string, spec: Record<string, unknown> = {}, created?: number) =>
  resource(
    'VirtualService',
    path,
    { hosts: [host], http: [{ route: [{ destination: { host: to } }] }], ...spec },
    created === undefined ? {} : { created },
  );

test('listeners of several ports that import the same hosts have them matched once', () => {
  const ports = [80, 81, 90].map((number) => ({ number, protocol: 'HTTP', name: `http-${number}` }));
  const services = [
    service('a/web', { ports: [{ name: 'http', port: 80 }] }),
    service('b/db', {
      ports: [
        { name: 'http', port: 81 },
        { name: 'more', port: 80 },
      ],
    }),
    service('c/other', { ports: [{ name: 'http', port: 80 }] }),
  ];
  const routes = resource('VirtualService', 'a/web', { hosts: ['web'] });
  const egress = [...ports.map((port) => ({ port, hosts: ['./*', 'b/*'] })), { port: ports[0], hosts: ['c/*'] }];
  const scope = meshOf([...services, routes, resource('Sidecar', 'a/s', { egress })]).scopeOf('a', {});
  const seen = scope.egress.map((listener) => listener.services.sorted().map(([host]) => host));
  assert.deepEqual(seen, [[fqdn('db.b'), fqdn('web.a')], [fqdn('db.b')], [], [fqdn('other.c')]]);
  assert.deepEqual(hostsOf(scope), [fqdn('db.b'), fqdn('other.c'), fqdn('web.a')]);
  const [first, second, , last] = scope.egress;
  assert.equal(first?.virtualServices.length, 1);
  assert.equal(first?.virtualServices, second?.virtualServices);
  assert.deepEqual(last?.virtualServices, []);
});

test('a service that a visible virtual service routes to is included, and removed with it', () => {
  const before = meshOf([
    service('a/web'),
    service('b/db'),
    sidecar('a/s', ['./*']),
    route('a/v', 'web', fqdn('db.b')),
  ]);
  const scope = before.scopeOf('a', {});
  assert.deepEqual(hostsOf(scope), [fqdn('db.b'), fqdn('web.a')]);
  assert.equal(scope.egress[0]?.services.has(fqdn('db.b')), false);
  const { snapshot, changes } = step(before, [], ['VirtualService/a/v']);
  assert.deepEqual(hostsOf(snapshot.scopeOf('a', {})), [fqdn('web.a')]);
  assert.deepEqual([...(changes.scopes.get('a/s')?.hosts ?? [])], [fqdn('db.b')]);
  assert.deepEqual([...(changes.scopes.get('a/s')?.virtualServices.keys() ?? [])], ['VirtualService/a/v']);
});

test('a change recomputes only the scopes that depend on it', () => {
  const before = meshOf([service('a/web'), service('b/web'), sidecar('a/s', ['./*']), sidecar('b/s', ['./*'])]);
  const model = modelOf(before);
  for (const id of ['a/s', 'b/s']) model.acquire(id);
  const scope = model.snapshot.scopeOf('a', {});
  const redefined = service('b/web', { ports: [{ name: 'http', port: 81 }] });
  const { changes, snapshot } = model.apply({
    changes: [{ key: keyOf(redefined), before: undefined, after: redefined }],
    eventTime: 0,
  });
  assert.deepEqual([...changes.scopes.keys()], ['b/s']);
  assert.equal(snapshot.scopeOf('a', {}), scope);
  const widened = step(before, [sidecar('a/s', ['*/*'])]);
  assert.ok(!widened.changes.scopes.has('b/s'));
  assert.equal(widened.changes.scopes.get('a/s')?.everything, true);
});

const rule = (path: string, spec: Record<string, unknown>, created?: number) =>
  resource('DestinationRule', path, spec, created === undefined ? {} : { created });

test('destination rules: own namespace, then the service’s, then root; exportTo respected; most specific host first', () => {
  const lb = (simple: string) => ({ trafficPolicy: { loadBalancer: { simple } } });
  const snapshot = meshOf([
    service('b/web'),
    service('b/db'),
    rule('a/d', { host: fqdn('web.b'), ...lb('RANDOM') }),
    rule('b/d', { host: 'web', ...lb('ROUND_ROBIN') }),
    rule('b/db', { host: 'db', ...lb('ROUND_ROBIN'), exportTo: ['.'] }),
    rule('mesh-system/d', { host: '*.svc.cluster.local', ...lb('LEAST_CONN') }),
    rule('mesh-system/e', { host: '*', ...lb('PASSTHROUGH') }),
  ]);
  const found = (namespace: string, host: string) =>
    snapshot.scopeOf(namespace, {}).destinationRule(host)?.sources.join();
  assert.equal(found('a', fqdn('web.b')), 'DestinationRule/a/d');
  assert.equal(found('c', fqdn('web.b')), 'DestinationRule/b/d');
  assert.equal(found('b', fqdn('db.b')), 'DestinationRule/b/db');
  assert.equal(found('c', fqdn('db.b')), 'DestinationRule/mesh-system/d');
});

test('rules with limited visibility: each namespace gets those that are exported to it, merged', () => {
  const exported = (path: string, subset: string, exportTo: readonly string[], created: number) =>
    rule(path, { host: 'web', subsets: [{ name: subset }], exportTo }, created);
  const snapshot = meshOf([
    service('a/web'),
    exported('a/one', 'v1', ['b', 'd'], 1),
    exported('a/two', 'v2', ['c', 'd'], 2),
    exported('a/three', 'v3', ['.'], 3),
  ]);
  const subsets = (namespace: string) =>
    snapshot
      .scopeOf(namespace, {})
      .destinationRule(fqdn('web.a'))
      ?.subsets.map(({ name }) => name);
  assert.deepEqual(['a', 'b', 'c', 'd', 'e'].map(subsets), [
    ['v1', 'v2', 'v3'],
    ['v1'],
    ['v2'],
    ['v1', 'v2'],
    undefined,
  ]);
});

test('deleting the only rule of a namespace changes its own scope, and not those of others with the same services', () => {
  const before = meshOf([
    service('c/web'),
    resource('Namespace', '/b'),
    service('b/api'),
    rule('a/d', { host: fqdn('web.c') }),
  ]);
  assert.equal(before.scopeOf('a', {}).services, before.scopeOf('b', {}).services);
  const { changes } = step(before, [], ['DestinationRule/a/d']);
  assert.deepEqual([...changes.scopes.keys()], ['a/']);
  assert.deepEqual([...(changes.scopes.get('a/')?.destinationRules ?? [])], [fqdn('web.c')]);
});

test('a virtual service that moves from one egress listener to another is in the change set, before and after', () => {
  const listener = (number: number, host: string) => ({
    port: { number, protocol: 'HTTP', name: `p${number}` },
    hosts: [host],
  });
  const before = meshOf([
    resource('Sidecar', 'a/s', { egress: [listener(80, './one.com'), listener(81, './two.com')] }),
    route('a/v', 'one.com', 'x.com'),
  ]);
  const { changes } = step(before, [route('a/v', 'two.com', 'x.com')]);
  const said = changes.scopes.get('a/s')?.virtualServices.get('VirtualService/a/v');
  assert.deepEqual([said?.before?.hosts, said?.after?.hosts], [['one.com'], ['two.com']]);
});

test('rules of one namespace for one host are merged: all subsets, the first policy; duplicate subsets are counted', () => {
  const snapshot = meshOf([
    service('a/web'),
    rule(
      'a/new',
      { host: 'web', subsets: [{ name: 'v1' }, { name: 'v2' }], trafficPolicy: { loadBalancer: { simple: 'RANDOM' } } },
      2,
    ),
    rule('a/old', { host: fqdn('web.a'), subsets: [{ name: 'v1', labels: { version: 'v1' } }] }, 1),
    rule('a/some', { host: 'web', subsets: [{ name: 'v3' }], workloadSelector: { matchLabels: { app: 'x' } } }, 3),
  ]);
  const merged = snapshot.scopeOf('a', {}).destinationRule(fqdn('web.a'));
  assert.deepEqual(merged?.subsets, [{ name: 'v1', labels: { version: 'v1' } }, { name: 'v2' }]);
  assert.equal(merged?.trafficPolicy?.loadBalancer?.simple, 'RANDOM');
  assert.deepEqual(merged?.sources, ['DestinationRule/a/old', 'DestinationRule/a/new', 'DestinationRule/a/some']);
  assert.equal(snapshot.findings().duplicateSubsets, 1);
});

test('a rule with a selector is for workloads of its namespace only, and comes before those without', () => {
  const balanced = (simple: string) => ({ trafficPolicy: { loadBalancer: { simple } } });
  const selecting = (app: string) => ({ workloadSelector: { matchLabels: { app } } });
  const snapshot = meshOf([
    service('a/web'),
    service('a/db'),
    service('a/api'),
    rule('a/all', { host: 'web', subsets: [{ name: 'v1' }], ...balanced('RANDOM') }, 1),
    rule('a/some', { host: 'web', subsets: [{ name: 'v2' }], ...balanced('LEAST_REQUEST'), ...selecting('x') }, 2),
    rule('a/wide', { host: '*.svc.cluster.local', ...balanced('ROUND_ROBIN'), ...selecting('y') }, 1),
    rule('a/none', { host: 'db', ...balanced('RANDOM'), ...selecting('z') }, 1),
  ]);
  const found = (host: string, app: string, namespace = 'a') =>
    selectedRule(snapshot.scopeOf(namespace, {}).destinationRule(fqdn(host)), { app });
  const balancing = (...about: Parameters<typeof found>) => found(...about)?.trafficPolicy?.loadBalancer?.simple;
  assert.deepEqual([balancing('web.a', 'x'), balancing('web.a', 'other')], ['LEAST_REQUEST', 'RANDOM']);
  assert.deepEqual(
    found('web.a', 'x')?.subsets.map(({ name }) => name),
    ['v2', 'v1'],
  );
  // The rule of the closer host pattern is for all.
  assert.equal(balancing('web.a', 'y'), 'RANDOM');
  assert.deepEqual([balancing('api.a', 'y'), found('api.a', 'x')], ['ROUND_ROBIN', undefined]);
  // A closer pattern that does not select the proxy hides nothing.
  assert.deepEqual(
    [balancing('db.a', 'z'), balancing('db.a', 'y'), found('db.a', 'x')],
    ['RANDOM', 'ROUND_ROBIN', undefined],
  );
  assert.deepEqual([balancing('web.a', 'x', 'b'), found('api.a', 'y', 'b')], ['RANDOM', undefined]);
  assert.deepEqual(snapshot.ruleLabels(snapshot.scopeOf('a', {})), ['app=x', 'app=y', 'app=z']);
  assert.deepEqual(snapshot.ruleLabels(snapshot.scopeOf('b', {})), []);
});

test('virtual services: names resolved, delegates left out, oldest first, by gateway', () => {
  const http = [
    {
      match: [{ sourceLabels: { version: 'v1' }, gateways: ['g'] }, { sourceLabels: { app: 'x' } }],
      route: [{ destination: { host: 'db' } }],
    },
  ];
  const snapshot = meshOf([
    route('a/new', 'web', 'db', { gateways: ['mesh', './g', 'b/g'] }, 2),
    resource('VirtualService', 'a/old', { hosts: ['api'], http: http.map((each) => each) }, { created: 1 }),
    resource('VirtualService', 'a/delegate', { http: [{ route: [{ destination: { host: 'db' } }] }] }),
    route('a/hidden', 'web', 'db', { gateways: ['b/g'], exportTo: ['.'] }),
  ]);
  const scope = snapshot.scopeOf('a', {});
  const [old, recent, ...others] = scope.egress[0]?.virtualServices ?? [];
  assert.deepEqual([old?.name, recent?.name, others.length], ['old', 'new', 0]);
  assert.deepEqual(old?.hosts, [fqdn('api.a')]);
  assert.equal(old?.content.http?.[0]?.route?.[0]?.destination.host, fqdn('db.a'));
  assert.deepEqual(old?.content.http?.[0]?.match?.[0]?.gateways, ['a/g']);
  assert.deepEqual(recent?.gateways, ['mesh', 'a/g', 'b/g']);
  assert.deepEqual(
    snapshot.virtualServicesOfGateway('b/g').map(({ name }) => name),
    ['new'],
  );
  assert.deepEqual(snapshot.sourceLabels(scope.id), ['app=x']);
});

test('gateways are selected by labels, oldest first, and by namespace when so set', () => {
  const gateway = (path: string, created: number, selector?: Record<string, string>) =>
    resource('Gateway', path, selector === undefined ? {} : { selector }, { created });
  const resources = [
    gateway('a/g', 2, { istio: 'gw' }),
    gateway('b/g', 1, { mesh: 'gw' }),
    gateway('a/other', 1, { mesh: 'x' }),
  ];
  const names = (scopeGatewayToNamespace: boolean) =>
    meshOf(resources, { settings: { scopeGatewayToNamespace } })
      .gatewaysFor('a', { mesh: 'gw' })
      .map(({ meta }) => `${meta.namespace}/${meta.name}`);
  assert.deepEqual(names(false), ['b/g', 'a/g']);
  assert.deepEqual(names(true), ['a/g']);
});

test('a proxy of the Gateway API is selected by Gateways of its namespace alone', () => {
  const label = { 'gateway.networking.k8s.io/gateway-name': 'public' };
  const gateway = (path: string, selector: Record<string, string>) => resource('Gateway', path, { selector });
  const mesh = meshOf([gateway('a/own', label), gateway('b/named', label), gateway('b/all', {})]);
  const names = (labels: Record<string, string>) =>
    mesh.gatewaysFor('a', labels).map(({ meta }) => `${meta.namespace}/${meta.name}`);
  assert.deepEqual(names(label), ['a/own']);
  assert.deepEqual(names({}), ['b/all']);
});

test('a changed mesh configuration changes everything, an equal one nothing', () => {
  const before = meshOf([service('a/web'), rule('a/d', { host: 'web', subsets: [{ name: 'x' }, { name: 'x' }] })]);
  const same = applyChanges(before, {
    changes: [],
    mesh: structuredClone(before.mesh),
    networks: defaultMeshNetworks(),
  });
  assert.equal(same.changes.everything, false);
  const mesh = { ...before.mesh, defaultServiceExportTo: ['.'] };
  const { snapshot, changes } = applyChanges(before, { changes: [], mesh, version: 9 });
  assert.deepEqual([changes.everything, changes.toVersion, [...changes.scopes.keys()]], [true, 9, ['a/']]);
  assert.deepEqual(hostsOf(snapshot.scopeOf('b', {})), []);
  assert.equal(snapshot.findings().duplicateSubsets, 1);
});

test('the change set has configuration that differs in what generation reads', () => {
  const filter = (labels: Record<string, string>, priority: number) =>
    resource('EnvoyFilter', 'a/f', { priority }, { labels });
  const before = meshOf([filter({}, 1)]);
  assert.deepEqual([...step(before, [filter({ note: 'x' }, 1)]).changes.configs.keys()], []);
  assert.deepEqual([...step(before, [filter({}, 2)]).changes.configs.keys()], ['EnvoyFilter/a/f']);
  const peers = resource('PeerAuthentication', 'a/p', { mtls: { mode: 'STRICT' } });
  assert.deepEqual(
    [...step(before, [filter({}, 2), peers]).changes.configs.keys()],
    ['EnvoyFilter/a/f', 'PeerAuthentication/a/p'],
  );
});
