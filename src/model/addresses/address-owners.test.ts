/** Ownership of addresses: who else names an address, in whatever order the documents arrive, does not get it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { endpoints, type MetaFields, meshOf, pod, resource, service, step } from '../testing/build.ts';
import type { Snapshot } from '../types/types.ts';

const SLICES = { settings: { useEndpointSlice: true } };
const HEADLESS = { clusterIP: 'None', ports: [{ name: 'http', port: 8080 }] };

/** A TCP ServiceEntry `evil/x` with these addresses. */
function entry(addresses: readonly string[], namespace = 'evil', fields: MetaFields = { created: 1 }): AnyResource {
  const ports = [{ number: 8080, name: 'tcp', protocol: 'TCP' }];
  const content = { hosts: [`x.${namespace}.example`], ports, addresses, resolution: 'STATIC' };
  return resource('ServiceEntry', `${namespace}/x`, { ...content, endpoints: [{ address: '192.0.2.66' }] }, fields);
}

function addressesOf(snapshot: Snapshot, namespace = 'evil'): readonly string[] | undefined {
  return snapshot.services.get(`${namespace}/x.${namespace}.example`)?.addresses;
}

function slice(path: string, of: string, addresses: readonly string[], fields: MetaFields = {}): AnyResource {
  const content = { addressType: 'IPv4', endpoints: [{ addresses }], ports: [{ name: 'http', port: 8080 }] };
  return resource('EndpointSlice', path, content, { ...fields, labels: { 'kubernetes.io/service-name': of } });
}

function node(name: string, ...addresses: string[]): AnyResource {
  const written = addresses.map((address) => ({ type: 'InternalIP', address }));
  return resource('Node', `/${name}`, { status: { addresses: [...written, { type: 'Hostname', address: name }] } });
}

function podWith(path: string, ip: string, { phase = 'Running', hostNetwork = false, cluster = '' }): AnyResource {
  const content = { spec: { hostNetwork }, status: { phase, podIP: ip } };
  return resource('Pod', path, content, cluster === '' ? {} : { cluster });
}

/** The snapshots of these documents in every order of arrival, one by one and together. */
function* inEveryOrder(documents: readonly AnyResource[], options = {}): Generator<Snapshot> {
  yield meshOf(documents, options);
  for (const order of permutations(documents))
    yield order.reduce((before, each) => step(before, [each]).snapshot, meshOf([], options));
}

function* permutations<T>(items: readonly T[]): Generator<T[]> {
  if (items.length === 0) yield [];
  for (const [index, item] of items.entries())
    for (const rest of permutations(items.toSpliced(index, 1))) yield [item, ...rest];
}

const P = '10.0.0.1';

/** Who has the address `P` besides a ServiceEntry of `evil`, and whether that loses it. */
const HOLDERS: readonly (readonly [
  name: string,
  documents: readonly AnyResource[],
  taken: boolean,
  options?: object,
])[] = [
  ['a Pod', [pod('shop/db', P)], true],
  ['a Pod of its own namespace', [pod('evil/own', P)], false],
  ['a Pod of its own namespace and another’s', [pod('evil/own', P), pod('shop/db', P)], true],
  ['a finished Pod', [podWith('shop/db', P, { phase: 'Succeeded' })], false],
  ['a failed Pod', [podWith('shop/db', P, { phase: 'Failed' })], false],
  ['a Pod of another cluster', [podWith('shop/db', P, { cluster: 'far' })], true],
  [
    'its own Pod of another cluster, and another’s',
    [podWith('evil/db', P, { cluster: 'far' }), pod('shop/db', P)],
    true,
  ],
  ['a Pod on the network of its node', [podWith('shop/db', P, { hostNetwork: true })], true],
  ['its own Pod on the network of a node', [podWith('evil/db', P, { hostNetwork: true })], true],
  ['a finished Pod on the network of its node', [podWith('shop/db', P, { hostNetwork: true, phase: 'Failed' })], false],
  ['a node', [node('n1', P)], true],
  ['a Service', [service('shop/web', { clusterIP: P })], true],
  ['Endpoints without a Pod', [service('shop/db', HEADLESS), endpoints('shop/db', [P])], false],
  ['Endpoints that name a Pod elsewhere', [endpoints('shop/db', [`${P}=db-0`]), pod('shop/db-0', '10.0.0.9')], false],
  ['an EndpointSlice without a Pod', [slice('shop/db-1', 'db', [P])], false, SLICES],
  ['the API server’s Endpoints', [endpoints('default/kubernetes', [P])], true],
  ['the API server’s EndpointSlice', [slice('default/kubernetes', 'kubernetes', [P])], true, SLICES],
  [
    'the API server of another cluster',
    [slice('default/kubernetes', 'kubernetes', [P], { cluster: 'far' })],
    true,
    SLICES,
  ],
  ['Endpoints of that name in another namespace', [endpoints('shop/kubernetes', [P])], false],
  ['a slice for that Service with another name', [slice('default/x', 'kubernetes', [P])], false, SLICES],
];

describe('an address that a ServiceEntry names', () => {
  for (const [name, documents, taken, options = {}] of HOLDERS) {
    it(`${taken ? 'belongs to' : 'is not taken by'} ${name}`, () => {
      const written = [P, `::ffff:${P}`, '10.0.0.2'];
      for (const snapshot of inEveryOrder([entry(written), ...documents], options)) {
        assert.deepEqual(addressesOf(snapshot), taken ? ['10.0.0.2'] : written);
        assert.equal(snapshot.findings().nameConflicts, taken ? 2 : 0);
        const freed = step(snapshot, [], documents.map(keyOf)).snapshot;
        assert.deepEqual(addressesOf(freed), written);
      }
    });
  }

  it('is that of the Service or Pod in every spelling, and ranges around it are not', () => {
    const written = [`${P}/32`, `::ffff:${P}`, '2001:DB8::1', '10.0.0.0/8', '10.0.0.2'];
    const status = { phase: 'Running', podIP: P, podIPs: [{ ip: P }, { ip: '2001:db8::1' }] };
    const snapshot = meshOf([entry(written), resource('Pod', 'shop/db', { spec: {}, status })]);
    assert.deepEqual(addressesOf(snapshot), ['10.0.0.0/8', '10.0.0.2']);
    assert.match(snapshot.nameConflicts()[0]?.message ?? '', /address 10\.0\.0\.1\/32 belongs to Pod\/shop\/db/);
  });

  it('stays with the namespace of the API server’s Service', () => {
    const snapshot = meshOf([entry([P], 'default'), endpoints('default/kubernetes', [P])]);
    assert.deepEqual(addressesOf(snapshot, 'default'), [P]);
  });
});

describe('a host that is an address', () => {
  const claim = (namespace: string) => {
    const ports = [{ number: 80, name: 'http', protocol: 'HTTP' }];
    return resource('ServiceEntry', `${namespace}/x`, { hosts: [P], ports, resolution: 'NONE' });
  };
  const seenBy = (snapshot: Snapshot) =>
    ['shop', 'evil', 'other'].map((name) => snapshot.scopeOf(name, {}).services.get(P)?.namespace);

  it('is not that of another namespace’s Pod for others', () => {
    for (const snapshot of inEveryOrder([claim('evil'), pod('shop/db', P)])) {
      assert.deepEqual(seenBy(snapshot), [undefined, 'evil', undefined]);
      assert.match(snapshot.nameConflicts()[0]?.message ?? '', /host 10\.0\.0\.1 belongs to Pod\/shop\/db; .* in evil/);
      assert.deepEqual(seenBy(step(snapshot, [], ['Pod/shop/db']).snapshot), ['evil', 'evil', 'evil']);
    }
  });

  it('is for all callers where the operator trusts its namespace, or the Pod is its own', () => {
    const mesh = { trustedConfigNamespaces: ['evil'] };
    assert.deepEqual(seenBy(meshOf([claim('evil'), pod('shop/db', P)], { mesh })), ['evil', 'evil', 'evil']);
    assert.deepEqual(seenBy(meshOf([claim('shop'), pod('shop/db', P)])), ['shop', 'shop', 'shop']);
  });
});

/** Whether the endpoints of a headless Service at the address `P` count as addresses of others. */
const NAMED: readonly (readonly [name: string, documents: readonly AnyResource[], ofOthers: boolean])[] = [
  ['nothing', [endpoints('evil/db', [P])], false],
  ['its own Pod', [endpoints('evil/db', [`${P}=own`]), pod('evil/own', P)], false],
  [
    'its own Pod, also of another cluster',
    [endpoints('evil/db', [`${P}=own`]), pod('evil/own', P), podWith('shop/db', P, { cluster: 'far' })],
    false,
  ],
  [
    'its own Pod on the network of its node',
    [endpoints('evil/db', [`${P}=own`]), podWith('evil/own', P, { hostNetwork: true }), node('n1', P)],
    false,
  ],
  ['another namespace’s Pod', [endpoints('evil/db', [P]), pod('shop/db', P)], true],
  [
    'a Pod that it takes for its own',
    [endpoints('evil/db', [`${P}=own`]), pod('evil/own', '10.0.0.7'), pod('shop/db', P)],
    true,
  ],
  [
    'a Pod with the address of its own finished Pod',
    [endpoints('evil/db', [`${P}=own`]), podWith('evil/own', P, { phase: 'Succeeded' }), pod('shop/db', P)],
    true,
  ],
  ['another cluster’s Pod', [endpoints('evil/db', [P]), podWith('shop/db', P, { cluster: 'far' })], true],
  ['a node', [endpoints('evil/db', [P]), node('n1', P)], true],
  [
    'a node that it takes for its Pod',
    [endpoints('evil/db', [`${P}=own`]), pod('evil/own', '10.0.0.7'), node('n1', P)],
    true,
  ],
  ['the API server', [endpoints('evil/db', [P]), endpoints('default/kubernetes', [P])], true],
  ['a Service', [endpoints('evil/db', [P]), service('shop/web', { clusterIP: P })], true],
];

describe('endpoints of a headless Service', () => {
  for (const [name, documents, ofOthers] of NAMED) {
    it(`at the address of ${name} ${ofOthers ? 'are' : 'are not'} at an address of others`, () => {
      for (const snapshot of inEveryOrder([service('evil/db', HEADLESS), ...documents])) {
        const found = snapshot.carriedEndpoints.get('evil/db.evil.svc.cluster.local') ?? [];
        assert.deepEqual(
          found.map((endpoint) => [endpoint.address, endpoint.addressOfOthers ?? false]),
          [[P, ofOthers]],
        );
      }
    });
  }
});
