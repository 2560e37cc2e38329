/** The harness itself, with a real Envoy: the basis of the other end-to-end tests. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { JsonValue } from '../../src/protobuf/index.ts';
import {
  bootstrapJson,
  bridgeLinkAddress,
  createNetwork,
  type EchoReply,
  exchange,
  freePort,
  netnsUnavailable,
  redirectTraffic,
  request,
  startEcho,
  startEchoIn,
  startEnvoy,
  startTcpEcho,
  tempDir,
  validateBootstrap,
} from '../harness/index.ts';

const run = promisify(execFile);

const TYPE = 'type.googleapis.com/envoy.extensions.filters';

function socketAddress(address: string, port: number): JsonValue {
  return { socket_address: { address, port_value: port } };
}

function staticCluster(name: string, address: string, port: number): JsonValue {
  const endpoint = { endpoint: { address: socketAddress(address, port) } };
  return {
    name,
    type: 'STATIC',
    connect_timeout: '10s',
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [endpoint] }] },
  };
}

function tcpFilter(cluster: string): JsonValue {
  return {
    name: 'tcp',
    typed_config: { '@type': `${TYPE}.network.tcp_proxy.v3.TcpProxy`, stat_prefix: cluster, cluster },
  };
}

function httpFilter(cluster: string): JsonValue {
  return {
    name: 'http',
    typed_config: {
      '@type': `${TYPE}.network.http_connection_manager.v3.HttpConnectionManager`,
      stat_prefix: cluster,
      route_config: {
        virtual_hosts: [{ name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster } }] }],
      },
      http_filters: [{ name: 'router', typed_config: { '@type': `${TYPE}.http.router.v3.Router` } }],
    },
  };
}

function listener(name: string, address: string, port: number, filter: JsonValue): JsonValue {
  return { name, address: socketAddress(address, port), filter_chains: [{ filters: [filter] }] };
}

test('a real Envoy with a static configuration answers through the echo backends and stops', async (t) => {
  const [http, tcp, httpPort, tcpPort] = await Promise.all([
    startEcho(t, { name: 'echo-a' }),
    startTcpEcho(t, { name: 'echo-b' }),
    freePort('127.0.1.1'),
    freePort('127.0.1.1'),
  ]);
  const envoy = await startEnvoy(t, {
    id: 'sidecar~127.0.1.1~a.default~default.svc.cluster.local',
    metadata: { NAMESPACE: 'default', INTERCEPTION_MODE: 'NONE' },
    staticResources: {
      clusters: [staticCluster('a', http.address, http.port), staticCluster('b', tcp.address, tcp.port)],
      listeners: [
        listener('http', '127.0.1.1', httpPort, httpFilter('a')),
        listener('tcp', '127.0.1.1', tcpPort, tcpFilter('b')),
      ],
    },
  });

  const answer = await request({ address: '127.0.1.1', port: httpPort, host: 'a.example', path: '/x?y=1' });
  assert.equal(answer.status, 200);
  const reply = answer.json() as EchoReply;
  assert.deepEqual(
    [reply.name, reply.method, reply.path, reply.headers.host],
    ['echo-a', 'GET', '/x?y=1', 'a.example'],
  );
  assert.equal((await request({ address: '127.0.1.1', port: httpPort, path: '/?status=503' })).status, 503);
  assert.equal(await exchange({ address: '127.0.1.1', port: tcpPort, send: 'ping', until: 'ping' }), 'echo-b\nping');

  const stats = await envoy.stats('^http\\.a\\.downstream_rq_(total|5xx)$');
  assert.deepEqual(stats, { 'http.a.downstream_rq_5xx': 1, 'http.a.downstream_rq_total': 2 });
  const dump = await envoy.configDump();
  assert.ok(dump.configs.some((config) => String(config['@type']).endsWith('.BootstrapConfigDump')));
  assert.deepEqual(await envoy.stop(), { code: 0, signal: null });
});

test('validation accepts what Envoy runs, and rejects what it refuses with its message', async (t) => {
  const bootstrap = (cluster: string) =>
    bootstrapJson({
      id: 'x',
      adminAddress: '127.0.0.1',
      adminPort: 1,
      ads: { address: '127.0.0.1', port: 2, mode: 'delta' },
      staticResources: {
        clusters: [staticCluster('a', '127.0.0.1', 3)],
        listeners: [listener('l', '127.0.0.1', 4, tcpFilter(cluster))],
      },
    });
  await validateBootstrap(t, bootstrap('a'));
  await assert.rejects(validateBootstrap(t, bootstrap('')), /TcpProxy/);
});

test('a bootstrap with a field that Envoy does not know is an error before Envoy starts', () => {
  const clusters = [{ name: 'a', conect_timeout: '1s' }];
  assert.throws(
    () => bootstrapJson({ id: 'x', adminAddress: '127.0.0.1', adminPort: 1, staticResources: { clusters } }),
    /unknown field of envoy.config.cluster.v3.Cluster/,
  );
});

test('an Envoy that refuses its configuration fails the start with its own message', async (t) => {
  const staticResources = { listeners: [listener('l', '127.0.0.1', 1, tcpFilter('nowhere'))], clusters: [{}] };
  await assert.rejects(
    startEnvoy(t, { id: 'broken', staticResources }),
    /ended with code 1[\s\S]*ClusterValidationError/,
  );
});

const skip = (await netnsUnavailable()) ?? false;

test('without iptables, the reason for skipping says so', { skip }, async (t) => {
  const folder = await tempDir(t);
  await symlink((await run('which', ['ip'])).stdout.trim(), join(folder, 'ip'));
  const module = join(import.meta.dirname, '../harness/index.ts');
  const script = `import { netnsUnavailable } from ${JSON.stringify(module)}; console.log(await netnsUnavailable());`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { env: { PATH: folder } });
  assert.match(stdout, /^cannot make network namespaces: .*iptables.*\n$/);
});

test('the bridge of namespaces keeps its link address when some are added', { skip }, async (t) => {
  const network = await createNetwork(t);
  const neighbour = async (label: string) => {
    const { run } = await network.addNamespace(label);
    const [, gateway = ''] = /via (\S+)/.exec(await run('ip', 'route', 'show', 'default')) ?? [];
    // Nobody listens there: the namespace learns the address all the same.
    await run('curl', '-s', '--max-time', '20', `http://${gateway}:9`).catch(() => undefined);
    return /lladdr (\S+)/.exec(await run('ip', 'neigh', 'show', gateway))?.[1];
  };
  for (const label of ['first', 'second', 'third']) assert.equal(await neighbour(label), bridgeLinkAddress(0));
});

test('in network namespaces, redirected connections arrive at their original destination', { skip }, async (t) => {
  const network = await createNetwork(t);
  const [client, server] = [await network.addNamespace('client'), await network.addNamespace('server')];
  await startEchoIn(t, server, { name: 'far', protocol: 'http', address: server.address, port: 8080 });
  const proxyUid = 1337;
  const originalDst = {
    name: 'original-dst',
    typed_config: { '@type': `${TYPE}.listener.original_dst.v3.OriginalDst` },
  };
  const outbound = {
    name: 'outbound',
    address: socketAddress('0.0.0.0', 15001),
    listener_filters: [originalDst],
    filter_chains: [{ filters: [tcpFilter('original')] }],
  };
  const envoy = await startEnvoy(t, {
    id: 'redirected',
    namespace: client,
    uid: proxyUid,
    staticResources: {
      clusters: [{ name: 'original', type: 'ORIGINAL_DST', lb_policy: 'CLUSTER_PROVIDED', connect_timeout: '10s' }],
      listeners: [outbound],
    },
  });
  await redirectTraffic(client, { proxyUid });

  const text = await client.run('curl', '-sS', '--max-time', '20', `http://${server.address}:8080/through`);
  const reply = JSON.parse(text) as EchoReply;
  assert.deepEqual([reply.name, reply.path, reply.remote], ['far', '/through', client.address]);
  assert.equal((await envoy.stats('^tcp\\.original\\.downstream_cx_total$'))['tcp.original.downstream_cx_total'], 1);
});
