/**
 * A mesh of two clusters, each with a real API server, and real Envoys: endpoints of both get traffic, even while the
 * other cluster cannot be reached and while its credentials are replaced.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectTcp, createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { type Relay, startRelay } from '../../src/kubernetes/testing/relay.ts';
import { sidecar, startProxy } from '../e2e/support/mesh.ts';
import { startTraffic } from '../e2e/support/steady-traffic.ts';
import { tally } from '../e2e/support/traffic.ts';
import {
  createScope,
  type Discovery,
  type Envoy,
  eventually,
  exchange,
  inOwnNetwork,
  netnsUnavailable,
  type Owner,
  request,
  startDiscovery,
  startEcho,
  startEnvoy,
  startTcpEcho,
} from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  remoteKubeconfig,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;
const PORT = 7490;
const GATEWAY_PORT = 15443;
const NAMESPACE = 'shop';
const [CLIENT, NEAR, LATE] = ['10.244.11.11', '10.244.11.21', '10.244.11.22'] as const;
const [FAR, MOVED, GATEWAY] = ['10.244.12.21', '10.244.12.22', '10.244.12.99'] as const;

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', namespace: NAMESPACE },
  spec: { ports: [{ name: 'http', port: PORT, protocol: 'TCP' }] },
};
const slice = (addresses: readonly string[]) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'web-1', namespace: NAMESPACE, labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: PORT, protocol: 'TCP' }],
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
});
const TCP_PORT = 7491;
/** A Service for connections, with an address that is chosen, and its endpoint. */
const tcpService = (name: string, clusterIP: string, endpoint: string) => [
  {
    ...service,
    metadata: { name, namespace: NAMESPACE },
    spec: { clusterIP, ports: [{ name: 'tcp', port: TCP_PORT, protocol: 'TCP' }] },
  },
  {
    ...slice([endpoint]),
    metadata: { name: `${name}-1`, namespace: NAMESPACE, labels: { 'kubernetes.io/service-name': name } },
    ports: [{ name: 'tcp', port: TCP_PORT, protocol: 'TCP' }],
  },
];
const API_PORT = 7492;
const kubernetesSlice = (address: string) => ({
  ...slice([address]),
  metadata: { name: 'kubernetes', namespace: 'default', labels: { 'kubernetes.io/service-name': 'kubernetes' } },
  ports: [{ name: 'https', port: API_PORT, protocol: 'TCP' }],
});
/** Leads connections to an address to an API server. */
async function leadTo(owner: Owner, address: string, { url }: Kubernetes): Promise<void> {
  const server = createServer((socket) => {
    const upstream = connectTcp(Number(new URL(url).port), '127.0.0.1');
    for (const end of [socket, upstream]) end.on('error', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  });
  owner.after(() => void server.close());
  server.listen(API_PORT, address);
  await once(server, 'listening');
}
const remoteSecret = (kubeconfig: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'remote-east', namespace: 'mesh-system', labels: { 'mesh.io/multiCluster': 'true' } },
  stringData: { east: kubeconfig },
});

/** The user of the Envoy that takes redirected connections. */
const PROXY_UID = 1337;

/**
 * Leads connections to an address, or to one port of it, to the port for redirected ones of an Envoy. Those of the
 * Envoy are not redirected: until it has the Service, it passes a connection on to the original address, again and
 * again.
 */
async function redirect(owner: Owner, address: string, port?: number): Promise<void> {
  const run = (command: string, ...args: readonly string[]) => promisify(execFile)(command, args);
  const connections = [
    ...['--match', 'owner', '!', '--uid-owner', `${PROXY_UID}`],
    '--destination',
    address,
    '--protocol',
    'tcp',
    ...(port === undefined ? [] : ['--dport', `${port}`]),
  ];
  const rule = ['OUTPUT', ...connections, '--jump', 'REDIRECT', '--to-ports', '15001'];
  // The namespace has no route to it otherwise. Tests that run at the same time have API servers at other ports of it.
  await run('ip', 'address', 'replace', `${address}/32`, 'dev', 'lo');
  await run('iptables', '--table', 'nat', '--append', ...rule);
  owner.after(async () => void (await run('iptables', '--table', 'nat', '--delete', ...rule)));
}

describe('a mesh of two clusters', { skip }, () => {
  const owner = createScope();
  let near: Kubernetes;
  let far: Kubernetes;
  let relay: Relay;
  let discovery: Discovery;
  let client: Envoy;
  /** A proxy of the other cluster. */
  let east: Envoy;

  /** A kubeconfig of the other cluster, by way of the relay. */
  const kubeconfig = async () => {
    const text = await remoteKubeconfig(far);
    return text.replace(far.url, `https://127.0.0.1:${relay.port}`);
  };

  before(async () => {
    [near, far] = await Promise.all([
      startKubernetes(owner, { definitions: true }),
      startKubernetes(owner, { controllerManager: true, ownIdentity: true }),
    ]);
    relay = await startRelay(Number(new URL(far.url).port));
    owner.after(() => relay.close());
    for (const [name, address, port = PORT] of [
      ['near', NEAR],
      ['late', LATE],
      ['far', FAR],
      ['moved', MOVED],
      ['gateway', GATEWAY, GATEWAY_PORT],
    ] as const) {
      await startEcho(owner, { name, address, port });
    }
    const egress = [
      { number: PORT, protocol: 'HTTP' },
      { number: 443, protocol: 'TLS' },
    ];
    const workload = sidecar('client', { address: CLIENT, namespace: NAMESPACE, egress });
    const flags = ['--kubeconfig', await discoveryKubeconfig(owner, near)];
    await near.api.apply([namespace, service, slice([NEAR]), workload]);
    await far.api.apply([namespace, service, slice([FAR])]);
    await near.api.apply([remoteSecret(await kubeconfig())]);
    discovery = await startDiscovery(owner, { flags, env: { CTL_USE_ENDPOINT_SLICE: 'true', CENTRAL_MESHD: 'true' } });
    const proxy = { name: 'client', address: CLIENT, mode: 'delta', namespace: NAMESPACE } as const;
    client = await startProxy(owner, discovery.ports.grpc, proxy);
  });
  after(() => owner.close());

  const target = { address: CLIENT, port: PORT, host: 'web' };
  const answers = (...expected: readonly string[]) =>
    eventually(async () => assert.deepEqual(Object.keys(await tally(target, 8)).sort(), [...expected].sort()), {
      timeoutMs: 60_000,
    });
  const logged = (line: RegExp) =>
    eventually(() => assert.match(discovery.output(), line), { timeoutMs: 60_000, what: String(line) });
  const statusOfFar = async () => {
    const { sources } = (await discovery.http('/debug/configz')).json() as {
      sources: readonly { id: string; cluster: string; synced: boolean; health: { ok: boolean; reason?: string } }[];
    };
    return sources.find(({ cluster }) => cluster === 'east');
  };

  test('the first configuration has the endpoints of both clusters, and changes of both are followed', async () => {
    assert.deepEqual(Object.keys(await tally(target, 8)).sort(), ['far', 'near']);
    assert.deepEqual(await statusOfFar(), {
      id: 'kubernetes/east',
      cluster: 'east',
      synced: true,
      health: { ok: true },
    });
    await far.api.apply([slice([MOVED])]);
    await answers('near', 'moved');
    await far.api.apply([slice([FAR])]);
    await answers('near', 'far');
  });

  test('a proxy of the other cluster reaches Services by the addresses that they have there', {
    skip: !inOwnNetwork() && 'redirects connections in a network namespace of its own, as `npm test` has',
  }, async () => {
    const [own, other, nearDb, farCache] = ['10.127.11.70', '10.127.11.71', '10.244.11.31', '10.244.12.31'] as const;
    await startTcpEcho(owner, { name: 'db', address: nearDb, port: TCP_PORT });
    await startTcpEcho(owner, { name: 'cache', address: farCache, port: TCP_PORT });
    // The address of `db` here is that of `cache` there.
    await near.api.apply(tcpService('db', own, nearDb));
    await far.api.apply([...tcpService('db', other, nearDb).slice(0, 1), ...tcpService('cache', own, farCache)]);
    east = await startEnvoy(owner, {
      id: `sidecar~10.244.12.11~east.${NAMESPACE}~${NAMESPACE}.svc.cluster.local`,
      metadata: { NAMESPACE, LABELS: { app: 'east' }, INTERCEPTION_MODE: 'REDIRECT', CLUSTER_ID: 'east' },
      mode: 'delta',
      adsPort: discovery.ports.grpc,
      uid: PROXY_UID,
    });
    for (const address of [own, other]) await redirect(owner, address);
    const answer = async (address: string) => {
      const text = await exchange({ address, port: TCP_PORT, send: 'ping', until: 'ping', timeoutMs: 5000 });
      return text.split('\n')[0];
    };
    await eventually(async () => assert.deepEqual([await answer(other), await answer(own)], ['db', 'cache']), {
      timeoutMs: 60_000,
    });
  });

  test('no call to kubernetes.default leaves its cluster', {
    skip: !inOwnNetwork() && 'redirects connections in a network namespace of its own, as `npm test` has',
  }, async () => {
    // These API servers do not list themselves as endpoints.
    for (const [cluster, address] of [
      [near, '10.244.11.41'],
      [far, '10.244.12.41'],
    ] as const) {
      await leadTo(owner, address, cluster);
      await cluster.api.apply([kubernetesSlice(address)]);
    }
    const kubernetes = await far.api.request({ path: '/api/v1/namespaces/default/services/kubernetes' });
    const { spec } = kubernetes.json() as { spec: { clusterIP: string } };
    // Only one proxy of this network takes redirected connections: that of the other cluster.
    await redirect(owner, spec.clusterIP, 443);
    const servername = 'kubernetes.default.svc.cluster.local';
    const isOf = async ({ ca }: Kubernetes, host: string) => {
      const socket = connect({ host, port: 443, ca, servername, checkServerIdentity: () => undefined });
      try {
        await once(socket, 'secureConnect');
        return socket.authorized;
      } finally {
        socket.destroy();
      }
    };
    for (const [cluster, host] of [
      [far, spec.clusterIP],
      [near, CLIENT],
    ] as const) {
      await eventually(() => isOf(cluster, host), { timeoutMs: 60_000 });
      for (let call = 0; call < 8; call++) assert.ok(await isOf(cluster, host));
    }
    const endpoints = async (proxy: Envoy) =>
      [
        ...(await proxy.admin('/clusters')).matchAll(/^outbound\|443\|\|kubernetes\.default\..*::(.*)::cx_active/gm),
      ].map(([, address]) => address);
    assert.deepEqual(await endpoints(client), [`10.244.11.41:${API_PORT}`]);
    assert.deepEqual(await endpoints(east), [`10.244.12.41:${API_PORT}`]);
  });

  test('no request fails while the other cluster is unreachable, and the local one is followed', async () => {
    const traffic = startTraffic([target]);
    relay.cut();
    await logged(/cluster east: the API server .* cannot be reached: .*; what was read stays in force/);
    assert.equal((await statusOfFar())?.health.ok, false);
    await near.api.apply([slice([NEAR, LATE])]);
    await answers('near', 'late', 'far');
    await far.api.apply([slice([MOVED])]);
    await near.api.apply([slice([NEAR])]);
    await answers('near', 'far');
    relay.restore();
    await answers('near', 'moved');
    await far.api.apply([slice([FAR])]);
    await answers('near', 'far');
    assert.deepEqual(await traffic.stop(), []);
  });

  test('no request fails while credentials are replaced, also by some that do not work', async () => {
    const traffic = startTraffic([target]);
    const wrong = (await kubeconfig()).replace(/"token": "[^"]*"/, '"token": "wrong"');
    await near.api.apply([remoteSecret(wrong)]);
    await eventually(async () => assert.match((await statusOfFar())?.health.reason ?? '', /not in force yet: .*401/), {
      timeoutMs: 60_000,
    });
    await far.api.apply([slice([MOVED])]);
    await answers('near', 'moved');
    await near.api.apply([remoteSecret(await kubeconfig())]);
    await eventually(async () => assert.deepEqual((await statusOfFar())?.health, { ok: true }), { timeoutMs: 60_000 });
    await far.api.apply([slice([FAR])]);
    await answers('near', 'far');
    assert.deepEqual(await traffic.stop(), []);
  });

  test('tokens of the other cluster prove an identity, while that cluster accepts them', async () => {
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'web', namespace: NAMESPACE } };
    await far.api.apply([account]);
    const statusWith = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await request({ port: discovery.ports.http, path: '/debug/registryz', headers })).status;
    };
    const newToken = () => far.serviceAccountToken({ namespace: NAMESPACE, name: 'web', audiences: ['mesh-ca'] });
    const token = await newToken();
    assert.equal(await statusWith(token), 200);
    const unused = await newToken();
    await far.api.delete(account);
    assert.equal(await statusWith(unused), 401);
    assert.equal(await statusWith(`${token.slice(0, token.lastIndexOf('.'))}.AAAA`), 401);
  });

  test('endpoints of another network are reached through its gateway', async () => {
    const networks = `networks:
  near: {endpoints: [{fromRegistry: Orchestrator}], gateways: [{address: 10.244.11.99, port: ${GATEWAY_PORT}}]}
  far: {endpoints: [{fromRegistry: east}], gateways: [{address: ${GATEWAY}, port: ${GATEWAY_PORT}}]}
`;
    const configMap = (meshNetworks: string) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'meshd', namespace: 'mesh-system' },
      data: { meshNetworks },
    });
    await near.api.apply([configMap(networks)]);
    await answers('near', 'gateway');
    await near.api.apply([configMap('networks: {}')]);
    await answers('near', 'far');
  });

  test('a removed Secret takes the endpoints of its cluster away, and a new one brings them back', async () => {
    const traffic = startTraffic([target]);
    await near.api.delete(remoteSecret(''));
    await eventually(async () => assert.equal(await statusOfFar(), undefined), { timeoutMs: 60_000 });
    await answers('near');
    await near.api.apply([remoteSecret(await kubeconfig())]);
    await answers('near', 'far');
    assert.deepEqual(await traffic.stop(), []);
  });

  test('a damaged kubeconfig is refused with one line, and what was read before stays in force', async () => {
    await near.api.apply([remoteSecret('{"clusters": "hidden-text"}')]);
    await logged(
      /Secret mesh-system\/remote-east, key east: clusters: expected a list; the previous kubeconfig stays in use/,
    );
    assert.doesNotMatch(discovery.output(), /hidden-text/);
    const shown = (await discovery.http('/debug/configz')).body;
    assert.match(shown, /"id": "Secret mesh-system\/remote-east, key east"/);
    assert.doesNotMatch(shown, /hidden-text/);
    await answers('near', 'far');
  });
});
