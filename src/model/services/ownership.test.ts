/** Ownership of names: which of several documents with the same host or address the callers of each namespace get. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { defaultMeshConfig } from '../../resources/mesh-config.ts';
import { fqdn, type MetaFields, meshOf, resource, service, step } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { Snapshot } from '../types/types.ts';
import { mayClaimForOthers } from './ownership.ts';

const WEB = fqdn('web.shop');

function entry(path: string, hosts: readonly string[], more: object = {}, fields: MetaFields = {}): AnyResource {
  const ports = [{ number: 80, name: 'http', protocol: 'HTTP' }];
  const endpoints = [{ address: '192.0.2.66' }];
  return resource('ServiceEntry', path, { hosts, ports, resolution: 'STATIC', endpoints, ...more }, fields);
}

/** For callers in each of these namespaces, the namespace of the service that a host resolves to. */
function ownersOf(snapshot: Snapshot, host: string, callers = ['shop', 'evil', 'other']): (string | undefined)[] {
  return callers.map((namespace) => snapshot.scopeOf(namespace, {}).services.get(host)?.namespace);
}

function virtualService(path: string, hosts: readonly string[], more: object = {}): AnyResource {
  return resource('VirtualService', path, { hosts, http: [{ route: [{ destination: { host: 'x.evil' } }] }], ...more });
}

function routedBy(snapshot: Snapshot, namespace: string, labels = {}): string[] {
  return snapshot
    .scopeOf(namespace, labels)
    .egress.flatMap(({ virtualServices }) => virtualServices.map(({ key, hosts }) => `${key} ${hosts.join()}`));
}

test('an orchestrator Service owns its host, however a ServiceEntry of another namespace spells it', () => {
  for (const host of [WEB, WEB.toUpperCase(), `${WEB}.`, `Web.Shop.svc.Cluster.Local.`]) {
    const attack = [service('shop/web', {}, { created: 2000 }), entry('evil/web', [host], {}, { created: 1000 })];
    const snapshot = meshOf(attack);
    assert.deepEqual(ownersOf(snapshot, WEB), ['shop', 'shop', 'shop'], host);
    assert.deepEqual(
      snapshot.nameConflicts().map(({ message }) => message),
      [`ServiceEntry/evil/web: host ${WEB} belongs to Service/shop/web; the entry is ignored for this host`],
    );
    assert.equal(snapshot.findings().nameConflicts, 1);
    for (const order of [attack, attack.toReversed()]) {
      const stepped = order.reduce((before, each) => {
        ownersOf(before, WEB);
        return step(before, [each]).snapshot;
      }, meshOf([]));
      assert.deepEqual(ownersOf(stepped, WEB), ['shop', 'shop', 'shop']);
    }
  }
});

test('a Service that is not visible to callers is not replaced by another document', () => {
  const hidden = service('shop/web', {}, { annotations: { 'networking.mesh.io/exportTo': '.' } });
  assert.deepEqual(ownersOf(meshOf([hidden, entry('evil/web', [WEB])]), WEB), ['shop', undefined, undefined]);
});

test('a Sidecar that imports only the other namespace does not get the host from there', () => {
  const sidecar = resource('Sidecar', 'other/default', { egress: [{ hosts: ['evil/*'] }] });
  assert.deepEqual(ownersOf(meshOf([service('shop/web'), entry('evil/web', [WEB]), sidecar]), WEB), [
    'shop',
    'shop',
    undefined,
  ]);
});

test('other namespaces cannot define names of a namespace that has no Service for them', () => {
  const free = fqdn('free.shop');
  const claims = [free, fqdn('*.shop'), fqdn('*')];
  const snapshot = meshOf([entry('evil/x', claims)]);
  for (const host of claims) assert.deepEqual(ownersOf(snapshot, host), [undefined, 'evil', undefined], host);
  const own = meshOf([entry('shop/x', [free, fqdn('*.shop')])]);
  assert.deepEqual(ownersOf(own, free), ['shop', 'shop', 'shop']);
  const root = meshOf([entry('mesh-system/x', claims)]);
  for (const host of claims) assert.equal(ownersOf(root, host).at(-1), 'mesh-system', host);
});

test('the namespace that owns a host, by its name', () => {
  const settings = { domain: 'cluster.local', rootNamespace: 'root' };
  const context = { settings, mesh: { trustedConfigNamespaces: [] } };
  const rows: [host: string, namespace: string, may: boolean][] = [
    [WEB, 'shop', true],
    [WEB, 'evil', false],
    [WEB, 'root', true],
    ['web.shop.svc', 'evil', false],
    ['*.web.shop.svc.cluster.local', 'evil', false],
    ['*-web.shop.svc.cluster.local', 'evil', false],
    ['*op.svc.cluster.local', 'op', false],
    ['*.svc.cluster.local', 'shop', false],
    ['*.cluster.local', 'shop', false],
    ['*.local', 'shop', false],
    ['*', 'shop', false],
    ['*.local', 'root', true],
    ['web.evil.svc.cluster.local', 'evil', true],
    ['shop.svc.cluster.local', 'evil', false],
    ['api.example.com', 'evil', true],
    ['*.example.com', 'evil', true],
    ['cluster.local', 'evil', true],
  ];
  for (const [host, namespace, may] of rows) assert.equal(mayClaimForOthers(host, namespace, context), may, host);
});

test('callers get the ServiceEntry of their own namespace for a host, else the oldest one', () => {
  const [old, young] = [
    entry('zeta/x', ['api.example.com'], {}, { created: 1000 }),
    entry('evil/x', ['api.example.com'], {}, { created: 2000 }),
  ];
  const snapshot = meshOf([old, young]);
  assert.deepEqual(ownersOf(snapshot, 'api.example.com', ['zeta', 'evil', 'other']), ['zeta', 'evil', 'zeta']);
  assert.match(
    snapshot.nameConflicts()[0]?.message ?? '',
    /^ServiceEntry\/evil\/x: host api.example.com belongs to ServiceEntry\/zeta\/x/,
  );
  const { changes } = step(snapshot, [], ['ServiceEntry/zeta/x']);
  assert.deepEqual(changes.nameConflicts, []);
  assert.equal(step(meshOf([old]), [young]).changes.nameConflicts.length, 1);
});

test('a VirtualService routes names of other namespaces only for callers of its own namespace', () => {
  const snapshot = meshOf([
    service('shop/web'),
    virtualService('evil/all', [WEB]),
    virtualService('evil/some', [fqdn('*.shop'), 'api.example.com']),
    virtualService('mesh-system/root', [WEB]),
    virtualService('shop/own', ['web']),
  ]);
  const root = `VirtualService/mesh-system/root ${WEB}`;
  const own = `VirtualService/shop/own ${WEB}`;
  const some = 'VirtualService/evil/some api.example.com';
  assert.deepEqual(routedBy(snapshot, 'other'), [some, root, own]);
  assert.deepEqual(routedBy(snapshot, 'shop'), [some, root, own]);
  assert.deepEqual(routedBy(snapshot, 'evil'), [
    `VirtualService/evil/all ${WEB}`,
    `VirtualService/evil/some ${fqdn('*.shop')},api.example.com`,
    root,
    own,
  ]);
  assert.deepEqual(
    snapshot.nameConflicts().map(({ resource: loser }) => loser),
    ['VirtualService/evil/all', 'VirtualService/evil/some'],
  );
});

test('a VirtualService for a gateway keeps all its hosts', () => {
  const snapshot = meshOf([virtualService('evil/x', [WEB], { gateways: ['shop/edge'] })]);
  assert.deepEqual(
    snapshot.virtualServicesOfGateway('shop/edge').map(({ hosts }) => hosts),
    [[WEB]],
  );
  assert.deepEqual(snapshot.nameConflicts(), []);
});

test('a VirtualService routes addresses, and TLS servers of other namespaces, only for its own callers', () => {
  const route = [{ destination: { host: 'x.evil' } }];
  const hosts = ['10.0.0.1', '2001:db8::1', 'x.evil', WEB];
  const tls = [
    { match: [{ sniHosts: [WEB] }], route },
    { match: [{ sniHosts: ['web.shop.svc.cluster.local', 'x.evil'] }, { sniHosts: [WEB.toUpperCase()] }], route },
  ];
  const snapshot = meshOf([virtualService('evil/x', hosts, { tls })]);
  const seen = (namespace: string) => snapshot.scopeOf(namespace, {}).egress[0]?.virtualServices[0];
  assert.deepEqual(seen('evil')?.hosts, hosts);
  assert.deepEqual(seen('evil')?.content.tls, tls);
  assert.deepEqual(seen('other')?.hosts, ['x.evil']);
  assert.deepEqual(seen('other')?.content.tls, [{ match: [{ sniHosts: ['x.evil'] }], route }]);
  assert.match(
    snapshot.nameConflicts()[0]?.message ?? '',
    /host 10\.0\.0\.1 is an address; its routes apply only to callers in evil/,
  );
});

/** Attempts of `central` and `evil` to route `web.shop`, and to define another name of `shop`. */
const CLAIMS = ['central', 'evil'].flatMap((namespace) => [
  virtualService(`${namespace}/routes`, [WEB]),
  entry(`${namespace}/free`, [fqdn(`${namespace}.shop`)]),
]);

test('documents of namespaces that the operator trusts apply to all callers, as those of the root namespace', () => {
  const meshes = {
    central: { trustedConfigNamespaces: ['central', 'absent'] },
    all: { trustedConfigNamespaces: ['*'] },
    none: {},
  };
  const expected: Record<string, string[]> = { central: ['central'], all: ['central', 'evil'], none: [] };
  for (const name of ['central', 'all', 'none'] as const) {
    const snapshot = meshOf([service('shop/web'), ...CLAIMS], { mesh: meshes[name] });
    const trusted = expected[name] ?? [];
    assert.deepEqual(
      routedBy(snapshot, 'other'),
      trusted.map((namespace) => `VirtualService/${namespace}/routes ${WEB}`),
      name,
    );
    for (const namespace of ['central', 'evil']) {
      const owner = trusted.includes(namespace) ? namespace : undefined;
      assert.equal(ownersOf(snapshot, fqdn(`${namespace}.shop`), ['other'])[0], owner, name);
    }
    assert.equal(snapshot.findings().nameConflicts, 2 * (2 - trusted.length), name);
  }
});

test('the Service stays in force for its host, and settings of hosts are not those of trusted namespaces', () => {
  const rule = (path: string) => resource('DestinationRule', path, { host: WEB, subsets: [{ name: path }] });
  const snapshot = meshOf([service('shop/web'), entry('central/web', [WEB]), rule('central/x')], {
    mesh: { trustedConfigNamespaces: ['central'] },
  });
  assert.deepEqual(ownersOf(snapshot, WEB), ['shop', 'shop', 'shop']);
  assert.equal(snapshot.scopeOf('other', {}).destinationRule(WEB), undefined);
});

test('a change of the trusted namespaces takes effect at once, and reports and ends conflicts', () => {
  const untrusting = meshOf([service('shop/web'), ...CLAIMS]);
  for (const namespace of ['shop', 'other']) assert.deepEqual(routedBy(untrusting, namespace), []);
  const mesh = { ...defaultMeshConfig(), trustedConfigNamespaces: ['central'] };
  const { snapshot: trusting, changes } = applyChanges(untrusting, { changes: [], mesh });
  assert.deepEqual(routedBy(trusting, 'other'), [`VirtualService/central/routes ${WEB}`]);
  assert.deepEqual(changes.nameConflicts, []);
  assert.equal(trusting.findings().nameConflicts, 2);
  const back = applyChanges(trusting, { changes: [], mesh: defaultMeshConfig() });
  assert.deepEqual(routedBy(back.snapshot, 'other'), []);
  assert.deepEqual(
    back.changes.nameConflicts.map(({ resource: loser }) => loser),
    ['ServiceEntry/central/free', 'VirtualService/central/routes'],
  );
});
