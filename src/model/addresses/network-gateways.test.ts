import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseMeshNetworks } from '../../resources/mesh-config.ts';
import { emptyMesh, resource, service, step } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { Snapshot } from '../types/types.ts';
import { MAX_GATEWAY_HOSTS, MAX_GATEWAYS } from './network-gateways.ts';

const PORT = 15443;
const GATEWAY = { registryServiceName: 'edge.b.svc.cluster.local', port: PORT };

function meshWith(far: Readonly<Record<string, unknown>>): Snapshot {
  const parsed = parseMeshNetworks({
    networks: { far, other: { gateways: [{ address: '192.0.2.200', port: PORT }] } },
  });
  assert.ok('value' in parsed);
  return emptyMesh({ networks: parsed.value });
}

const inFar = (...gateways: readonly object[]) => meshWith({ endpoints: [{ fromRegistry: 'east' }], gateways });

const balanced = (...ingress: readonly object[]) =>
  resource(
    'Service',
    'b/edge',
    {
      spec: { type: 'LoadBalancer', ports: [{ name: 'tls', port: PORT, nodePort: 31443 }] },
      status: { loadBalancer: { ingress } },
    },
    { cluster: 'east' },
  );

const gatewaysOf = (snapshot: Snapshot) =>
  snapshot.networkGateways.get('far')?.map(({ address, port }) => `${address}:${port}`);

/** A service with one endpoint in a network. */
const entry = (name: string, network: string) =>
  resource('ServiceEntry', `a/${name}`, {
    hosts: [`${name}.example`],
    resolution: 'STATIC',
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    endpoints: [{ address: '10.9.0.1', network }],
  });

describe('a gateway that is a Service', () => {
  test('has the addresses of its load balancer and its external IPs in the clusters of the network', () => {
    let mesh = inFar(GATEWAY);
    assert.deepEqual(gatewaysOf(mesh), []);
    assert.match(
      mesh.gatewayProblems.join(),
      /^networks\.far\.gateways\[0\]\.registryServiceName: there is no Service b\/edge of cluster east; proxies of other networks do not reach/,
    );
    // The same Service of the program's own cluster, which is not in the network.
    mesh = step(mesh, [service('b/edge', { type: 'LoadBalancer', externalIPs: ['192.0.2.9'] })]).snapshot;
    assert.deepEqual(gatewaysOf(mesh), []);
    mesh = step(mesh, [balanced()]).snapshot;
    assert.match(mesh.gatewayProblems.join(), /the Service b\/edge of cluster east has no external address/);
    mesh = step(mesh, [balanced({ ip: '192.0.2.1' }, { ip: '192.0.2.2' })]).snapshot;
    assert.deepEqual(gatewaysOf(mesh), ['192.0.2.1:15443', '192.0.2.2:15443']);
    assert.deepEqual(mesh.gatewayProblems, []);
    const external = service('b/edge', { externalIPs: ['192.0.2.3'] }, { cluster: 'east' });
    assert.deepEqual(gatewaysOf(step(mesh, [external]).snapshot), ['192.0.2.3:15443']);
  });

  test('has the addresses and the port of the nodes that its annotation selects', () => {
    const node = (name: string, address: string, labels: Readonly<Record<string, string>>) =>
      resource(
        'Node',
        `/${name}`,
        {
          status: {
            addresses: [
              { type: 'InternalIP', address: '10.0.0.1' },
              { type: 'ExternalIP', address },
            ],
          },
        },
        { cluster: 'east', labels },
      );
    const annotations = { 'traffic.istio.io/nodeSelector': '{"edge":"yes"}' };
    const ports = [{ name: 'tls', port: PORT, nodePort: 31443 }];
    const edge = service('b/edge', { type: 'NodePort', ports }, { cluster: 'east', annotations });
    const nodes = [node('n1', '192.0.2.1', { edge: 'yes' }), node('n2', '192.0.2.2', {})];
    const mesh = step(inFar(GATEWAY), [edge, ...nodes]).snapshot;
    assert.deepEqual(gatewaysOf(mesh), ['192.0.2.1:31443']);
    assert.deepEqual(gatewaysOf(step(mesh, [node('n2', '192.0.2.2', { edge: 'yes' })]).snapshot), [
      '192.0.2.1:31443',
      '192.0.2.2:31443',
    ]);
  });

  test('with more addresses than are used is reported', () => {
    const ingress = Array.from({ length: MAX_GATEWAYS + 1 }, (_, index) => ({ ip: `192.0.2.${index + 1}` }));
    const mesh = step(inFar(GATEWAY), [balanced(...ingress)]).snapshot;
    assert.equal(gatewaysOf(mesh)?.length, MAX_GATEWAYS);
    assert.deepEqual(mesh.gatewayProblems, [
      `networks.far.gateways[0].registryServiceName: Service b/edge of cluster east: of ${MAX_GATEWAYS + 1} addresses, the first ${MAX_GATEWAYS} are used`,
    ]);
  });

  test('changes only the services that have endpoints in its network', () => {
    const mesh = step(inFar(GATEWAY), [
      balanced({ ip: '192.0.2.1' }),
      entry('inside', 'far'),
      entry('beside', 'other'),
      entry('without', ''),
    ]).snapshot;
    const { changes, snapshot } = step(mesh, [balanced({ ip: '192.0.2.2' })]);
    assert.deepEqual([...changes.endpoints], ['a/inside.example']);
    assert.equal(changes.everything, false);
    assert.equal(snapshot.networkGateways.get('other'), mesh.networkGateways.get('other'));
    // A change of something else of the Service changes nothing.
    const relabelled = { ...balanced({ ip: '192.0.2.2' }), fingerprint: 'other' };
    const same = step(snapshot, [relabelled]);
    assert.equal(same.snapshot.networkGateways, snapshot.networkGateways);
    assert.deepEqual([...same.changes.endpoints], []);
  });

  test('that no cluster of the network can have is reported', () => {
    for (const [far, problem] of [
      [{ gateways: [GATEWAY] }, /expected a cluster \(endpoints\[\]\.fromRegistry\)/],
      [
        { endpoints: [{ fromRegistry: 'east' }], gateways: [{ registryServiceName: 'edge', port: PORT }] },
        /expected a Service, as <name>\.<namespace>\.svc\.cluster\.local, got "edge"/,
      ],
    ] as const) {
      const mesh = meshWith(far);
      assert.deepEqual(gatewaysOf(mesh), []);
      assert.match(mesh.gatewayProblems.join(), problem);
    }
  });
});

describe('a gateway with a host name', () => {
  const resolved = (mesh: Snapshot, hosts: Readonly<Record<string, readonly string[]>>) =>
    applyChanges(mesh, { changes: [], resolvedHosts: new Map(Object.entries(hosts)) });

  test('has the addresses to which it resolves', () => {
    const mesh = step(inFar({ address: 'Gateway.example.', port: PORT }), [entry('inside', 'far')]).snapshot;
    assert.deepEqual(mesh.gatewayHosts, ['gateway.example']);
    // It is not known yet: that is no problem of the author.
    assert.deepEqual([gatewaysOf(mesh), mesh.gatewayProblems], [[], []]);
    const { snapshot, changes } = resolved(mesh, { 'gateway.example': ['192.0.2.1', '2001:db8::1'] });
    assert.deepEqual(gatewaysOf(snapshot), ['192.0.2.1:15443', '2001:db8::1:15443']);
    assert.deepEqual([...changes.endpoints], ['a/inside.example']);
    const gone = resolved(snapshot, { 'gateway.example': [] }).snapshot;
    assert.deepEqual(gatewaysOf(gone), []);
    assert.match(gone.gatewayProblems.join(), /host name gateway\.example has no address; proxies of other networks/);
  });

  test('of a load balancer is resolved, too', () => {
    const mesh = step(inFar(GATEWAY), [balanced({ hostname: 'lb.example' }, { ip: '192.0.2.5' })]).snapshot;
    assert.deepEqual([mesh.gatewayHosts, gatewaysOf(mesh)], [['lb.example'], ['192.0.2.5:15443']]);
    assert.deepEqual(gatewaysOf(resolved(mesh, { 'lb.example': ['192.0.2.4'] }).snapshot), [
      '192.0.2.4:15443',
      '192.0.2.5:15443',
    ]);
  });

  test('is not resolved beyond the limit, nor where it is no host name', () => {
    const gateways = Array.from({ length: MAX_GATEWAY_HOSTS + 1 }, (_, index) => ({
      address: `g${index}.example`,
      port: PORT,
    }));
    const mesh = inFar(...gateways, { address: 'no name', port: PORT });
    assert.equal(mesh.gatewayHosts.length, MAX_GATEWAY_HOSTS);
    assert.equal(mesh.gatewayProblems.length, 2);
    assert.match(
      mesh.gatewayProblems.join('\n'),
      /g100\.example is not resolved[\s\S]*expected an IP address or a host name/,
    );
  });
});

test('networks whose gateways have IP addresses need no documents', () => {
  const mesh = inFar({ address: '192.0.2.7', port: PORT });
  assert.deepEqual([gatewaysOf(mesh), mesh.gatewayHosts, mesh.gatewayProblems], [['192.0.2.7:15443'], [], []]);
});
