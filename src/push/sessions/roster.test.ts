import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { Snapshot } from '../../model/types/types.ts';
import { workloadText } from '../proxies/index.ts';
import { collectGarbage, inline, Mesh, meshResource, parse, service, sidecar } from '../testing/mesh.ts';
import { Roster } from './roster.ts';
import type { Session } from './session.ts';

const WORKLOADS = ['web', 'db', 'api', 'cart'];
const REPLICAS = 25;

/** A mesh with many proxies, and a count of those whose policies were worked out. */
async function countedMesh() {
  const mesh = new Mesh(inline, [service('shop', 'web')]);
  let count = 0;
  mesh.distorted = (snapshot): Snapshot => ({
    ...snapshot,
    policiesOf: (namespace, labels) => {
      count++;
      return snapshot.policiesOf(namespace, labels);
    },
  });
  const proxies = WORKLOADS.flatMap((app, workload) =>
    Array.from({ length: REPLICAS }, (_, replica) => {
      const node = sidecar(`10.0.${workload}.${replica}`, 'shop');
      return mesh.connect({ ...node, id: `${node.id}~${replica}`, labels: { app } });
    }),
  );
  await Promise.all(proxies.map(({ session }) => session.ready));
  const placed = (kind: string, spec: object, namespace = 'shop'): number => {
    count = 0;
    const metadata = { name: 'policy', namespace };
    const apiVersion = kind === 'Sidecar' ? 'networking.mesh.io/v1alpha3' : 'security.mesh.io/v1beta1';
    mesh.change([parse({ apiVersion, kind, metadata, spec })]);
    return count;
  };
  return { mesh, proxies, placed };
}

const selecting = (app: string) => ({ selector: { matchLabels: { app } } });

test('workloads have different strings, also where one follows the other with the same object of labels', () => {
  const labels = { app: 'web' };
  const workloads = [
    { namespace: 'shop', labels },
    { namespace: 'other', labels },
    { namespace: 'other', labels: { app: 'db' } },
  ];
  assert.deepEqual(workloads.map(workloadText), [
    'shop [["app","web"]]',
    'other [["app","web"]]',
    'other [["app","db"]]',
  ]);
});

describe('proxies that a changed policy concerns', () => {
  it('are those of the workloads that it selects or selected before', async () => {
    const { mesh, placed } = await countedMesh();
    assert.equal(placed('AuthorizationPolicy', selecting('nobody')), 0);
    assert.equal(placed('AuthorizationPolicy', selecting('web')), REPLICAS);
    assert.equal(placed('AuthorizationPolicy', selecting('db')), 2 * REPLICAS);
    assert.equal(placed('AuthorizationPolicy', {}), WORKLOADS.length * REPLICAS);
    assert.equal(placed('RequestAuthentication', selecting('nobody'), 'mesh-system'), 0);
    assert.equal(placed('RequestAuthentication', selecting('api'), 'mesh-system'), REPLICAS);
    assert.equal(placed('PeerAuthentication', { ...selecting('nobody'), mtls: { mode: 'STRICT' } }), 0);
    assert.equal(placed('PeerAuthentication', { ...selecting('cart'), mtls: { mode: 'STRICT' } }), REPLICAS);
    await mesh.settled();
    assert.deepEqual(mesh.failures, []);
  });

  it('do not include closed sessions', async () => {
    const { proxies, placed } = await countedMesh();
    for (const { session } of proxies) if (session.node.labels.app === 'web') session.close();
    assert.equal(placed('AuthorizationPolicy', selecting('web')), 0);
    assert.equal(placed('AuthorizationPolicy', {}), (WORKLOADS.length - 1) * REPLICAS);
    assert.equal(placed('Sidecar', { egress: [{ hosts: ['./*'] }] }), (WORKLOADS.length - 1) * REPLICAS);
  });
});

describe('proxies of other localities', () => {
  it('are those that state a locality which appears or disappears', async () => {
    const { mesh } = await countedMesh();
    const entry = (locality: string) =>
      meshResource('WorkloadEntry', 'shop', 'vm', { address: '10.9.0.1', labels: { app: 'vm' }, locality });
    mesh.change([
      meshResource('ServiceEntry', 'shop', 'vm', {
        hosts: ['vm.example'],
        ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
        resolution: 'STATIC',
        workloadSelector: { labels: { app: 'vm' } },
      }),
      meshResource('DestinationRule', 'shop', 'vm', {
        host: 'vm.example',
        trafficPolicy: { outlierDetection: { consecutive5xxErrors: 5 } },
      }),
    ]);
    const placed: string[] = [];
    const before = mesh.distorted;
    mesh.distorted = (snapshot) => ({
      ...before(snapshot),
      policiesOf: (namespace, labels) => {
        placed.push(labels.app ?? '');
        return snapshot.policiesOf(namespace, labels);
      },
    });
    for (const locality of ['r1/z1', 'r2/z2']) {
      const node = { ...sidecar('10.0.0.1', 'shop'), locality, labels: { app: locality } };
      mesh.connect({ ...node, id: `${node.id}~${locality}` });
    }
    for (const [locality, concerned] of [
      ['r1/z1', ['r1/z1']],
      ['r2/z9', ['r1/z1', 'r2/z2']],
      ['r9', ['r2/z2']],
    ] as const) {
      placed.length = 0;
      mesh.change([entry(locality)]);
      assert.deepEqual([...new Set(placed)].sort(), concerned, locality);
    }
  });
});

describe('proxies at an address where another service is served', () => {
  const pod = (name: string, network: string, version: string) =>
    parse({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'shop', labels: { version, 'topology.mesh.io/network': network } },
      spec: { containers: [] },
      status: { phase: 'Running', podIP: '10.0.0.1' },
    });
  const served = (name: string, of: string, ports: object[]) =>
    parse({
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: { name, namespace: 'shop' },
      subsets: [{ addresses: [{ ip: '10.0.0.1', targetRef: { kind: 'Pod', name: of } }], ports }],
    });

  it('are those on the network of the address', async () => {
    const { mesh } = await countedMesh();
    const http = [{ name: 'http', port: 8080 }];
    mesh.change([service('shop', 'api'), pod('web-0', 'n1', '1'), pod('api-0', 'n2', '1')]);
    mesh.change([served('web', 'web-0', http), served('api', 'api-0', http)]);
    const placed: string[] = [];
    const before = mesh.distorted;
    mesh.distorted = (snapshot) => ({
      ...before(snapshot),
      policiesOf: (namespace, labels) => {
        placed.push(labels.app ?? '');
        return snapshot.policiesOf(namespace, labels);
      },
    });
    for (const network of ['n1', 'n2']) {
      const node = { ...sidecar('10.0.0.1', 'shop'), network, labels: { app: network } };
      mesh.connect({ ...node, id: `${node.id}~${network}` });
    }
    placed.length = 0;
    mesh.change([served('api', 'api-0', [{ name: 'http', port: 9090 }])]);
    assert.deepEqual([...new Set(placed)], ['n2']);
    placed.length = 0;
    mesh.change([pod('api-0', 'n3', '1')]);
    assert.deepEqual([...new Set(placed)], ['n2'], 'networks that come and go concern those that say they are in them');
  });
});

test('a closed session is freed, with all facts that were read for it', async () => {
  const roster = new Roster();
  const gone = (() => {
    const session = { node: sidecar('10.0.0.1', 'shop') } as Session;
    roster.add(session);
    roster.note(session, ['Gateways', 'address /10.0.0.1']);
    roster.note(session, ['networks', 'address /10.0.0.2']);
    roster.delete(session);
    roster.note(session, ['Gateways']);
    return new WeakRef(session);
  })();
  await collectGarbage();
  assert.equal(gone.deref(), undefined);
  assert.equal(roster.all.size, 0);
});
