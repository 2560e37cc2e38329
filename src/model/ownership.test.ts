/** Ownership of names: which of several documents with the same host or address the callers of each namespace get. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultMeshConfig } from '../resources/mesh-config.ts';
import type { AnyResource } from '../resources/types.ts';
import { mayClaimForOthers } from './ownership.ts';
import { endpoints, fqdn, type MetaFields, meshOf, pod, resource, service, step } from './testing/build.ts';
import { applyChanges } from './testing/steps.ts';
import type { Snapshot } from './types.ts';

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

test('of several ServiceEntries for one host, callers get that of their own namespace, else the oldest', () => {
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

test('ServiceEntries of other namespaces cannot use the virtual IP of a Service', () => {
  const written = ['10.96.0.1', '10.96.0.1/32', '::ffff:10.96.0.1', '10.96.0.7', '10.0.0.0/8'];
  const tcp = { ports: [{ number: 80, name: 'tcp', protocol: 'TCP' }], addresses: written };
  const addressesOf = (snapshot: Snapshot, key: string) => snapshot.services.get(key)?.addresses;
  const alone = meshOf([entry('evil/x', ['x.example.com'], tcp)]);
  assert.deepEqual(addressesOf(alone, 'evil/x.example.com'), written);
  const { snapshot } = step(alone, [service('shop/web')]);
  assert.deepEqual(addressesOf(snapshot, 'evil/x.example.com'), ['10.96.0.7', '10.0.0.0/8']);
  assert.equal(snapshot.findings().nameConflicts, 3);
  const freed = step(snapshot, [], ['Service/shop/web']).snapshot;
  assert.deepEqual(addressesOf(freed, 'evil/x.example.com'), written);
  const own = meshOf([service('shop/web'), entry('shop/x', ['x.example.com'], tcp)]);
  assert.deepEqual(addressesOf(own, 'shop/x.example.com'), written);
});

test('ServiceEntries of other namespaces cannot use the address of a Pod', () => {
  const written = ['10.0.0.1', '::ffff:10.0.0.1', '2001:DB8::1', '10.0.0.2'];
  const tcp = { ports: [{ number: 80, name: 'tcp', protocol: 'TCP' }], addresses: written };
  const addressesOf = (snapshot: Snapshot) => snapshot.services.get('evil/x.example.com')?.addresses;
  const alone = meshOf([entry('evil/x', ['x.example.com'], tcp)]);
  const status = { phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: '2001:db8::1' }] };
  const running = resource('Pod', 'shop/db-0', { spec: {}, status });
  const { snapshot } = step(alone, [running]);
  assert.deepEqual(addressesOf(snapshot), ['10.0.0.2']);
  assert.match(snapshot.nameConflicts()[0]?.message ?? '', /address 10\.0\.0\.1 belongs to Pod\/shop\/db-0/);
  const finished = resource('Pod', 'shop/db-0', { spec: {}, status: { ...status, phase: 'Succeeded' } });
  for (const next of [step(snapshot, [finished]), step(snapshot, [], ['Pod/shop/db-0'])])
    assert.deepEqual(addressesOf(next.snapshot), written);
  assert.deepEqual(addressesOf(meshOf([entry('evil/x', ['x.example.com'], tcp), running])), ['10.0.0.2']);
  const onNode = resource('Pod', 'shop/db-0', { spec: { hostNetwork: true }, status });
  assert.deepEqual(addressesOf(step(alone, [onNode]).snapshot), written);
  const own = resource('Pod', 'evil/db-0', { spec: {}, status });
  assert.deepEqual(addressesOf(step(alone, [own]).snapshot), written);
  // Clusters may have the same addresses: to have one of them in some cluster gives nobody the traffic to another's
  // pod.
  const elsewhere = resource('Pod', 'evil/db-0', { spec: {}, status }, { cluster: 'far' });
  for (const pod of [own, elsewhere]) assert.deepEqual(addressesOf(step(alone, [pod, running]).snapshot), ['10.0.0.2']);
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

const HEADLESS = { clusterIP: 'None', ports: [{ name: 'http', port: 8080 }] };
const tcpAt = (...addresses: string[]) => ({ ports: [{ number: 8080, name: 'tcp', protocol: 'TCP' }], addresses });

test('an address range that contains pods of a headless Service does not apply to its ports, whichever document is older', () => {
  const claims = tcpAt('10.0.0.0/30', '10.1.0.0/16', '::ffff:10.0.0.0/126');
  const documents = [
    service('shop/db', HEADLESS),
    endpoints('shop/db', ['10.0.0.1=db-0']),
    entry('evil/x', ['x.example.com'], claims),
  ];
  const heldBy = (snapshot: Snapshot, key = 'evil/x.example.com') =>
    snapshot.services.get(key)?.excludedRanges?.map(({ range, port, owner }) => `${range} ${port} ${owner}`);
  const expected = ['10.0.0.0/30 8080 Endpoints/shop/db'];
  for (const order of [documents, documents.toReversed()]) {
    const stepped = order.reduce((before, each) => step(before, [each]).snapshot, meshOf([]));
    assert.deepEqual(heldBy(stepped), expected);
    const { snapshot: moved, changes } = step(stepped, [endpoints('shop/db', ['10.0.0.9=db-0'])]);
    assert.equal(heldBy(moved), undefined);
    assert.ok(changes.services.has('evil/x.example.com'));
    assert.deepEqual([...step(moved, [endpoints('shop/db', ['10.0.0.10=db-0'])]).changes.services], []);
    assert.equal(heldBy(step(stepped, [service('shop/db')]).snapshot), undefined);
    const otherPort = service('shop/db', { ...HEADLESS, ports: [{ name: 'http', port: 80 }] });
    assert.equal(heldBy(step(stepped, [otherPort]).snapshot), undefined);
    assert.equal(heldBy(step(stepped, [], ['Service/shop/db']).snapshot), undefined);
  }
  const plainTcp = service('shop/db', { ...HEADLESS, ports: [{ name: 'tcp', port: 8080 }] });
  assert.equal(heldBy(meshOf([...documents, plainTcp])), undefined, 'its pods have listeners of their own');
  assert.deepEqual(
    heldBy(meshOf([...documents, plainTcp], { settings: { headlessPodListeners: false } })),
    expected,
    'they have none',
  );
  const own = meshOf([...documents, entry('shop/x', ['x.example.com'], claims)]);
  assert.equal(heldBy(own, 'shop/x.example.com'), undefined);
  const merged = meshOf([...documents, entry('evil/y', ['x.example.com'], { ...claims, addresses: ['10.0.0.0/8'] })]);
  assert.deepEqual(heldBy(merged), [...expected, '10.0.0.0/8 8080 Endpoints/shop/db']);
});

test('a ServiceEntry does not get addresses that endpoints of another namespace have; the oldest document decides', () => {
  const written = ['192.0.2.7', '192.0.2.8'];
  const addressesOf = (snapshot: Snapshot) => snapshot.services.get('evil/x.example.com')?.addresses;
  const claimant = entry('evil/x', ['x.example.com'], tcpAt(...written));
  const db = [service('shop/db', HEADLESS), endpoints('shop/db', ['192.0.2.7'], ['192.0.2.9'])];
  for (const order of [
    [...db, claimant],
    [claimant, ...db],
  ]) {
    const stepped = order.reduce((before, each) => step(before, [each]).snapshot, meshOf([]));
    assert.deepEqual(addressesOf(stepped), ['192.0.2.8']);
    assert.match(stepped.nameConflicts()[0]?.message ?? '', /address 192\.0\.2\.7 belongs to Endpoints\/shop\/db/);
    assert.deepEqual(addressesOf(step(stepped, [endpoints('shop/db', [])]).snapshot), written);
    assert.deepEqual(addressesOf(step(stepped, [pod('evil/x', '192.0.2.7')]).snapshot), written);
    assert.deepEqual(addressesOf(step(stepped, [endpoints('evil/x', ['192.0.2.7'])]).snapshot), written, 'evil < shop');
    const young = resource('Endpoints', 'evil/x', { subsets: [{ addresses: [{ ip: '192.0.2.7' }] }] }, { created: 1 });
    assert.deepEqual(addressesOf(step(stepped, [young]).snapshot), ['192.0.2.8']);
  }
  const slice = resource(
    'EndpointSlice',
    'shop/db-1',
    { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.8'] }], ports: [] },
    { labels: { 'kubernetes.io/service-name': 'db' } },
  );
  const sliced = meshOf([claimant, ...db, slice], { settings: { useEndpointSlice: true } });
  assert.deepEqual(addressesOf(sliced), ['192.0.2.7']);
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
