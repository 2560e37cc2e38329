/** Endpoints by slice: what a change of one slice reads, and addresses that several slices name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { fqdn, meshOf, pod, resource, service, step } from '../testing/build.ts';
import type { Snapshot } from '../types/types.ts';

const KEY = `a/${fqdn('web.a')}`;
const SLICES = 20;
const PER_SLICE = 50;
const OPTIONS = { settings: { useEndpointSlice: true } };

interface Written {
  readonly address: string;
  readonly pod?: string;
  readonly ready?: boolean;
}

function slice(name: string, written: readonly Written[], of = 'web'): AnyResource {
  const endpoints = written.map(({ address, pod: named, ready = true }) => ({
    addresses: [address],
    conditions: { ready },
    ...(named !== undefined && { targetRef: { kind: 'Pod', name: named } }),
  }));
  const content = { addressType: 'IPv4', ports: [{ name: 'http', port: 8080 }], endpoints };
  return resource('EndpointSlice', `a/${name}`, content, { labels: { 'kubernetes.io/service-name': of } });
}

/** The slice, with a count of the reads of its endpoints. */
function counted(made: AnyResource, onRead: (name: string) => void): AnyResource {
  const content = new Proxy(made.content, {
    get: (target, key) => {
      if (key === 'endpoints') onRead(made.meta.name);
      return Reflect.get(target, key);
    },
  });
  return { ...made, content } as AnyResource;
}

const addresses = (snapshot: Snapshot, key = KEY) => snapshot.endpoints.get(key)?.map(({ address }) => address) ?? [];
const name = (index: number) => `web-${String(index).padStart(2, '0')}`;
const ip = (index: number, at: number) => `10.0.${index}.${at}`;

describe('a service of many slices', () => {
  const read: string[] = [];
  const sliceOf = (index: number, ready = true) => {
    const written = Array.from({ length: PER_SLICE }, (_, at) => ({
      address: ip(index, at),
      pod: `p-${index}-${at}`,
      ready: at === 0 ? ready : true,
    }));
    return counted(slice(name(index), written), (which) => read.push(which));
  };
  const indexes = Array.from({ length: SLICES }, (_, index) => index);
  const pods = indexes.flatMap((index) =>
    Array.from({ length: PER_SLICE }, (_, at) => pod(`a/p-${index}-${at}`, ip(index, at), { labels: { app: 'web' } })),
  );
  const before = meshOf([service('a/web'), ...pods, ...indexes.map((index) => sliceOf(index))], OPTIONS);

  test('a change of a slice reads that slice and no other', () => {
    assert.equal(before.endpoints.get(KEY)?.length, SLICES * PER_SLICE);
    read.length = 0;
    const { snapshot, changes } = step(before, [sliceOf(7, false)]);
    assert.deepEqual(new Set(read), new Set([name(7)]));
    assert.deepEqual([...changes.addresses], [`/${ip(7, 0)}`]);
    assert.equal(snapshot.findings().endpointsNotReady, 1);
    const [was, is] = [before, snapshot].map((each) => each.endpoints.get(KEY) ?? []);
    assert.equal(is?.filter((endpoint, index) => endpoint !== was?.[index]).length, 1);
  });

  test('a change of a pod reads the slice that names the pod', () => {
    read.length = 0;
    const labels = { app: 'web', version: 'v2' };
    const { snapshot } = step(before, [pod('a/p-3-5', ip(3, 5), { labels })]);
    assert.deepEqual(new Set(read), new Set([name(3)]));
    assert.deepEqual(snapshot.endpoints.get(KEY)?.find(({ address }) => address === ip(3, 5))?.labels, labels);
  });

  test('a deleted slice takes its endpoints along, and its reads no longer concern the service', () => {
    read.length = 0;
    const { snapshot } = step(before, [], [`EndpointSlice/a/${name(7)}`]);
    assert.deepEqual(new Set(read), new Set([name(7)]), 'whose addresses it named');
    read.length = 0;
    assert.equal(snapshot.endpoints.get(KEY)?.length, (SLICES - 1) * PER_SLICE);
    const { changes } = step(snapshot, [pod('a/p-7-5', ip(7, 5), { labels: { app: 'other' } })]);
    assert.deepEqual([...changes.endpoints], []);
    assert.deepEqual(read, []);
  });
});

describe('an address that two slices name', () => {
  const first = slice('web-1', [{ address: '10.0.0.1', ready: false }, { address: '10.0.0.2' }]);
  const second = slice('web-2', [{ address: '10.0.0.1' }, { address: '10.0.0.3' }]);
  const both = meshOf([service('a/web'), first, second], OPTIONS);
  const healths = (snapshot: Snapshot) => snapshot.endpoints.get(KEY)?.map(({ health }) => health);

  test('is served as the first of them defines it, and as the other does when that is deleted', () => {
    assert.deepEqual(addresses(both), ['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    assert.deepEqual([healths(both)?.[0], both.findings().endpointsNotReady], ['unhealthy', 1]);
    const { snapshot } = step(both, [], ['EndpointSlice/a/web-1']);
    assert.deepEqual([addresses(snapshot), healths(snapshot)?.[0]], [['10.0.0.1', '10.0.0.3'], 'healthy']);
    assert.equal(snapshot.findings().endpointsNotReady, 0);
    assert.deepEqual(healths(step(snapshot, [first]).snapshot)?.[0], 'unhealthy');
  });

  test('stays the same object when it moves to another slice, also in later changes', () => {
    const moved = step(both, [slice('web-1', [{ address: '10.0.0.2' }]), slice('web-3', [{ address: '10.0.0.4' }])]);
    const before = moved.snapshot.endpoints.get(KEY) ?? [];
    const renamed = step(moved.snapshot, [slice('web-9', [{ address: '10.0.0.4' }])], ['EndpointSlice/a/web-3']);
    assert.deepEqual([...renamed.changes.endpoints], []);
    assert.equal(renamed.snapshot.endpoints.get(KEY), moved.snapshot.endpoints.get(KEY));
    const { snapshot } = step(renamed.snapshot, [], ['EndpointSlice/a/web-9']);
    assert.deepEqual(addresses(snapshot), ['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    assert.equal(before.length, 4);
  });

  test('is removed with a slice that names another service', () => {
    const { snapshot } = step(both, [service('a/other'), slice('web-1', [{ address: '10.0.0.2' }], 'other')]);
    assert.deepEqual(addresses(snapshot), ['10.0.0.1', '10.0.0.3']);
    assert.deepEqual(addresses(snapshot, `a/${fqdn('other.a')}`), ['10.0.0.2']);
  });
});

test('a slice and a policy about the workloads of another one change together: both count', () => {
  const proxied = (path: string, at: string) => pod(path, at, { labels: { 'security.mesh.io/tlsMode': 'mesh' } });
  const [one, two] = [slice('web-1', [{ address: '10.0.0.1', pod: 'p1' }]), slice('web-2', [])];
  const pods = [proxied('a/p1', '10.0.0.1'), proxied('a/p2', '10.0.0.2')];
  const before = meshOf([service('a/web'), one, two, ...pods], OPTIONS);
  const off = resource('PeerAuthentication', 'a/off', { mtls: { mode: 'DISABLE' } });
  const { snapshot } = step(before, [slice('web-2', [{ address: '10.0.0.2', pod: 'p2' }]), off]);
  assert.deepEqual(
    snapshot.endpoints.get(KEY)?.map(({ address, tlsReady }) => [address, tlsReady]),
    [
      ['10.0.0.1', false],
      ['10.0.0.2', false],
    ],
  );
});

test('the first of two entries for an address in one slice is used', () => {
  const twice = slice('web-1', [{ address: '10.0.0.1' }, { address: '10.0.0.1', ready: false }]);
  const health = (made: AnyResource) =>
    meshOf([service('a/web'), made], OPTIONS)
      .endpoints.get(KEY)
      ?.map((each) => each.health);
  assert.deepEqual(health(twice), ['healthy']);
  assert.deepEqual(health(slice('web-1', [{ address: '10.0.0.1', ready: false }, { address: '10.0.0.1' }])), [
    'unhealthy',
  ]);
});

test('a pod that two slices name is still a dependency after one of them stops naming it', () => {
  const [first, second] = [
    slice('web-1', [{ address: '10.0.0.1', pod: 'p' }]),
    slice('web-2', [{ address: '10.0.0.2', pod: 'p' }]),
  ];
  const both = meshOf([service('a/web'), first, second, pod('a/p', '10.0.0.1')], OPTIONS);
  const { snapshot } = step(both, [slice('web-1', [{ address: '10.0.0.1' }])]);
  const labels = { version: 'v2' };
  const relabelled = step(snapshot, [pod('a/p', '10.0.0.1', { labels })]).snapshot;
  assert.deepEqual(
    relabelled.endpoints.get(KEY)?.map((endpoint) => endpoint.labels),
    [labels, labels],
  );
});

test('a port that has another number is served under that at the same addresses, though the endpoints are as before', () => {
  const spec = (port: number) => ({ ports: [{ name: 'http', port }] });
  const before = meshOf([service('a/web', spec(80)), slice('web-1', [{ address: '10.0.0.1' }])], OPTIONS);
  const { snapshot, changes } = step(before, [service('a/web', spec(81))]);
  assert.equal(snapshot.endpoints.get(KEY), before.endpoints.get(KEY));
  assert.deepEqual(
    snapshot.instancesAt('', '10.0.0.1').map(({ port }) => port.port),
    [81],
  );
  assert.deepEqual([...changes.addresses], ['/10.0.0.1']);
});

test('a proxy finds its services by its IPv6 address in any spelling', () => {
  const snapshot = meshOf([service('a/web'), slice('web-1', [{ address: '2001:DB8:0:0::01' }])], OPTIONS);
  for (const written of ['2001:db8::1', '2001:0db8:0000::0001'])
    assert.equal(snapshot.instancesAt('', written).length, 1, written);
  const gone = step(snapshot, [slice('web-1', [{ address: '2001:db8::2' }])]).snapshot;
  assert.equal(gone.instancesAt('', '2001:db8::1').length, 0);
});

test('removing a port at an address keeps the other ports of the service there', () => {
  const spec = {
    ports: [
      { name: 'http', port: 80 },
      { name: 'admin', port: 81 },
    ],
  };
  const endpointsOn = (...names: readonly string[]) =>
    resource('Endpoints', 'a/web', {
      subsets: [
        { addresses: [{ ip: '10.0.0.1' }], ports: names.map((each, index) => ({ name: each, port: 8080 + index })) },
      ],
    });
  const ports = (snapshot: Snapshot) => snapshot.instancesAt('', '10.0.0.1').map(({ port }) => port.name);
  const before = meshOf([service('a/web', spec), endpointsOn('http', 'admin')]);
  assert.deepEqual(ports(before), ['http', 'admin']);
  assert.deepEqual(ports(step(before, [endpointsOn('http')]).snapshot), ['http']);
});
