/**
 * Sidecars with redirected traffic, as on a node: network namespaces with iptables, and Envoys that accept outbound
 * connections at 15001 and inbound ones at 15006. Applications call each other by address and need no change.
 *
 *   client pod                                 server pods
 *   program ─▶ 15001 (Envoy, Delta) ─network─▶ 15006 (Envoy, SotW) ─▶ application
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import {
  createNetwork,
  type EchoReply,
  type Envoy,
  eventually,
  type Namespace,
  netnsUnavailable,
  programFile,
  redirectTraffic,
  startEchoIn,
  startEnvoy,
  tempDir,
} from '../harness/index.ts';
import { type ConfigDir, configDir, endpoints, pod, resource, service } from './support/config.ts';
import type { Mode } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

const PROXY_UID = 1337;
const ADMIN_PORT = 15000;
const PROGRAM = programFile('ctl-discovery');

/**
 * Connects, sends bytes other than HTTP, and prints the answer until it contains them. Runs inside a namespace.
 */
const EXCHANGE = `
const { connect } = require('node:net');
const socket = connect(Number(process.argv[2]), process.argv[1], () => socket.write('\\x00ping\\n'));
let text = '';
socket.setTimeout(20000, () => socket.destroy(new Error('nothing more')));
socket.on('data', (chunk) => {
  text += chunk;
  if (!text.endsWith('ping\\n')) return;
  process.stdout.write(text);
  socket.destroy();
});
socket.on('close', () => process.exit(text.endsWith('ping\\n') ? 0 : 1));
socket.on('error', () => process.exit(1));
`;

interface Pods {
  readonly config: ConfigDir;
  readonly control: Namespace;
  readonly client: Namespace;
  readonly one: Namespace;
  readonly two: Namespace;
  /** A machine without a proxy. */
  readonly outside: Namespace;
  readonly clientProxy: Envoy;
  readonly oneProxy: Envoy;
}

const owner = suiteOwner();
const shared = lazy<Pods>();
const pods = (): Pods => shared.get();

async function startDiscoveryIn(namespace: Namespace, folder: string): Promise<void> {
  const flags = ['--configDir', folder, '--grpcAddr', ':15010', '--httpAddr', ':8080', '--monitoringAddr', ':15014'];
  const child = await namespace.start('ctl-discovery', [
    'env',
    'ENABLE_CA_SERVER=false',
    process.execPath,
    PROGRAM,
    'discovery',
    ...flags,
  ]);
  await eventually(
    () => {
      child.assertRunning();
      return namespace.run('curl', '-sS', '--fail', '--max-time', '2', 'http://127.0.0.1:8080/ready');
    },
    { timeoutMs: 30_000, intervalMs: 100 },
  );
}

function startSidecar(namespace: Namespace, control: Namespace, name: string, mode: Mode): Promise<Envoy> {
  return startEnvoy(owner, {
    id: `sidecar~${namespace.address}~${name}.default~default.svc.cluster.local`,
    metadata: { NAMESPACE: 'default', LABELS: { app: name }, INTERCEPTION_MODE: 'REDIRECT' },
    mode,
    adminPort: ADMIN_PORT,
    adsAddress: control.address,
    adsPort: 15010,
    namespace,
    uid: PROXY_UID,
  });
}

/** Serves TLS at a port of a namespace, and answers requests inside it with a name. */
async function startTls(namespace: Namespace, name: string, port: number): Promise<void> {
  const program = `
    const [name, port, folder] = process.argv.slice(1);
    const read = (file) => require('node:fs').readFileSync(folder + '/' + file);
    const tls = { cert: read('tls.crt'), key: read('tls.key') };
    require('node:https').createServer(tls, (_, response) => response.end(name))
      .listen(Number(port), '0.0.0.0', () => console.log('ready'));`;
  const folder = join(import.meta.dirname, '../golden-harness/certs');
  const child = await namespace.start(`TLS ${name}`, [process.execPath, '-e', program, name, String(port), folder]);
  await eventually(() => assert.match(child.output(), /ready/));
}

/** `web` is HTTP, `bytes` TCP, `any` has no protocol, `peers` is headless; pods `one` and `two` serve all of them. */
function services(one: string, two: string) {
  const ports = { web: ['http', 8080], bytes: ['tcp', 9000], any: ['any', 8080], peers: ['tcp', 9000] } as const;
  const vips = { web: '10.96.0.1', bytes: '10.96.0.2', any: '10.96.0.3', peers: 'None' } as const;
  return (['web', 'bytes', 'any', 'peers'] as const).flatMap((name) => {
    const [portName, targetPort] = ports[name];
    const port = name === 'peers' ? 9000 : name === 'bytes' ? 9000 : name === 'any' ? 7000 : 80;
    return [
      service(name, { clusterIP: vips[name], ports: [{ name: portName, port, targetPort }] }),
      endpoints(name, { one, two }, [{ name: portName, port: targetPort }]),
    ];
  });
}

async function start(): Promise<Pods> {
  const network = await createNetwork(owner);
  const control = await network.addNamespace('control');
  const client = await network.addNamespace('client');
  const one = await network.addNamespace('one');
  const two = await network.addNamespace('two');
  const outside = await network.addNamespace('outside');
  const config = configDir(await tempDir(owner));
  await config.apply(
    'services',
    pod('client', { ip: client.address, labels: { app: 'client' } }),
    pod('one', { ip: one.address, labels: { app: 'web', version: 'one' } }),
    pod('two', { ip: two.address, labels: { app: 'web', version: 'two' } }),
    ...services(one.address, two.address),
  );
  const echo = (namespace: Namespace, name: string, protocol: 'http' | 'http2' | 'tcp', port: number) =>
    startEchoIn(owner, namespace, { name, protocol, address: '0.0.0.0', port });
  await Promise.all([
    startDiscoveryIn(control, config.path),
    echo(one, 'one', 'http', 8080),
    echo(one, 'one', 'tcp', 9000),
    echo(one, 'bytes of one', 'tcp', 9100),
    echo(one, 'unlisted', 'http', 8088),
    echo(two, 'two', 'http', 8080),
    echo(two, 'two', 'tcp', 9000),
    echo(outside, 'outside', 'http', 8085),
    startTls(outside, 'outside', 80),
    echo(two, 'unlisted gRPC', 'http2', 80),
  ]);
  for (const namespace of [client, one]) await redirectTraffic(namespace, { proxyUid: PROXY_UID });
  const [clientProxy, oneProxy] = await Promise.all([
    startSidecar(client, control, 'client', 'delta'),
    startSidecar(one, control, 'one', 'sotw'),
  ]);
  return { config, control, client, one, two, outside, clientProxy, oneProxy };
}

before(async () => {
  if (skip === false) shared.set(await start());
});

/** A request of the client's application; rejects unless it is answered with 2xx. */
async function get(url: string, host: string): Promise<EchoReply> {
  const text = await pods().client.run('curl', '-sS', '--fail', '--max-time', '20', '-H', `Host: ${host}`, url);
  return JSON.parse(text) as EchoReply;
}

async function answeredBy(url: string, host: string, count = 6): Promise<string[]> {
  const names = new Set<string>();
  for (let i = 0; i < count; i++) names.add((await get(url, host)).name);
  return [...names].sort();
}

/** The greeting of a TCP echo. */
async function greeting(address: string, port: number): Promise<string> {
  const text = await pods().client.run(process.execPath, '-e', EXCHANGE, address, String(port));
  return text.slice(0, text.indexOf('\n'));
}

test('HTTP to a service address goes through both sidecars, and follows a VirtualService', { skip }, async () => {
  const { config, clientProxy, oneProxy } = pods();
  await eventually(async () => assert.deepEqual(await answeredBy('http://10.96.0.1/x', 'web'), ['one', 'two']));
  const { remote, local, path } = await get('http://10.96.0.1/x?y=1', 'web');
  assert.equal(path, '/x?y=1');
  assert.ok(remote.length > 0 && local.length > 0);
  const inbound = await oneProxy.stats('^http\\.inbound.*downstream_rq_total$');
  assert.ok(
    Object.values(inbound).some((count) => count > 0),
    JSON.stringify(inbound),
  );
  const outbound = await clientProxy.stats('^http\\.outbound_0\\.0\\.0\\.0_80\\.downstream_rq_total$');
  assert.ok(
    Object.values(outbound).some((count) => count > 0),
    JSON.stringify(outbound),
  );

  const subsets = ['one', 'two'].map((version) => ({ name: version, labels: { version } }));
  await config.apply('rules', resource('DestinationRule', 'web', { host: 'web', subsets }));
  for (const version of ['two', 'one']) {
    const http = [{ route: [{ destination: { host: 'web', subset: version } }] }];
    await config.apply('routes', resource('VirtualService', 'web', { hosts: ['web'], http }));
    await eventually(async () => assert.deepEqual(await answeredBy('http://10.96.0.1/', 'web'), [version]));
  }
  await config.remove('routes');
});

test('TCP to a service address arrives, even when the server speaks first', { skip }, async () => {
  await eventually(async () => {
    const names = new Set<string>();
    for (let i = 0; i < 8 && names.size < 2; i++) names.add(await greeting('10.96.0.2', 9000));
    assert.deepEqual([...names].sort(), ['one', 'two']);
  });
});

test('the address of a pod of a headless service reaches exactly this pod', { skip }, async () => {
  const { one, two } = pods();
  for (let i = 0; i < 3; i++) {
    assert.equal(await greeting(one.address, 9000), 'one');
    assert.equal(await greeting(two.address, 9000), 'two');
  }
});

test('on a port without a protocol HTTP is detected and routed, and everything else is forwarded as TCP', {
  skip,
}, async () => {
  const { config } = pods();
  await eventually(async () => assert.deepEqual(await answeredBy('http://10.96.0.3:7000/', 'any'), ['one', 'two']));
  const http = [
    { match: [{ uri: { prefix: '/moved' } }], rewrite: { uri: '/sniffed' }, route: [{ destination: { host: 'any' } }] },
  ];
  await config.apply(
    'routes',
    resource('VirtualService', 'any', {
      hosts: ['any'],
      http: [...http, { route: [{ destination: { host: 'any' } }] }],
    }),
  );
  await eventually(async () => assert.equal((await get('http://10.96.0.3:7000/moved', 'any')).path, '/sniffed'));
  await config.remove('routes');
  // The same port with a server that does not speak HTTP: neither sidecar may treat it as HTTP.
  const { one, two } = pods();
  const changed = services(one.address, two.address).filter(
    ({ kind, metadata }) => !(kind === 'Endpoints' && (metadata as { name: string }).name === 'any'),
  );
  await config.apply(
    'services',
    pod('client', { ip: pods().client.address, labels: { app: 'client' } }),
    pod('one', { ip: one.address, labels: { app: 'web', version: 'one' } }),
    pod('two', { ip: two.address, labels: { app: 'web', version: 'two' } }),
    ...changed,
    endpoints('any', { one: one.address }, [{ name: 'any', port: 9100 }]),
  );
  await eventually(async () => assert.equal(await greeting('10.96.0.3', 7000), 'bytes of one'));
});

test('on a port of HTTP services, requests and TLS to unregistered addresses are forwarded or refused', {
  skip,
}, async () => {
  const { config, client, outside, two } = pods();
  const curl = (...args: string[]) => client.run('curl', '-sS', '--fail', '--max-time', '20', ...args);
  const secure = () => curl('-k', `https://${outside.address}:80/`);
  const http2 = () => curl('--http2-prior-knowledge', '-H', 'Host: unlisted', `http://${two.address}/`);
  await eventually(async () => assert.equal(await secure(), 'outside'));
  await eventually(async () => assert.equal((JSON.parse(await http2()) as EchoReply).name, 'unlisted gRPC'));
  await config.apply(
    'sidecar',
    resource('Sidecar', 'default', { outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' }, egress: [{ hosts: ['./*'] }] }),
  );
  await eventually(() => assert.rejects(secure()));
  await eventually(() => assert.rejects(http2()));
  assert.equal((await get('http://10.96.0.1/', 'web')).path, '/');
  await config.remove('sidecar');
  await eventually(async () => assert.equal(await secure(), 'outside'));
});

test('calls to an unregistered address are forwarded, unless a Sidecar allows registered ones only', {
  skip,
}, async () => {
  const { config, outside } = pods();
  const url = `http://${outside.address}:8085/through`;
  await eventually(async () => assert.equal((await get(url, 'outside')).name, 'outside'));
  await config.apply(
    'sidecar',
    resource('Sidecar', 'default', { outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' }, egress: [{ hosts: ['./*'] }] }),
  );
  await eventually(async () => assert.rejects(get(url, 'outside')));
  assert.equal((await get('http://10.96.0.1/', 'web')).path, '/');
  await config.remove('sidecar');
  await eventually(async () => assert.equal((await get(url, 'outside')).name, 'outside'));
});

/** Documents of an egress gateway at a machine: it sends the requests for all hosts to a server there. */
function egressGateway(address: string) {
  const backend = 'backend.test';
  return [
    pod('egress', { ip: address, labels: { app: 'egress' } }),
    service('egress', {
      clusterIP: '10.96.0.9',
      ports: [{ name: 'http', port: 80, targetPort: 8888 }],
      selector: { app: 'egress' },
    }),
    endpoints('egress', { egress: address }, [{ name: 'http', port: 8888 }]),
    resource('Gateway', 'egress', {
      selector: { app: 'egress' },
      servers: [{ port: { number: 8888, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
    }),
    resource('ServiceEntry', 'backend', {
      hosts: [backend],
      ports: [{ number: 8099, name: 'http', protocol: 'HTTP', targetPort: 8085 }],
      resolution: 'STATIC',
      endpoints: [{ address }],
    }),
    resource('VirtualService', 'egress', {
      hosts: ['*'],
      gateways: ['egress'],
      http: [{ headers: { request: { set: { 'x-through': 'egress' } } }, route: [{ destination: { host: backend } }] }],
    }),
  ];
}

test('pools of a Sidecar and of a DestinationRule limit the connections to the application', { skip }, async () => {
  const { config, client, one } = pods();
  const status = async () => {
    const url = `http://${one.address}:8080/?delayMs=1000`;
    return await client.run('curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', '-H', 'Host: one', url);
  };
  const statuses = async () => new Set(await Promise.all(Array.from({ length: 6 }, status)));
  assert.deepEqual([...(await statuses())], ['200']);
  const pool = { tcp: { maxConnections: 1 }, http: { http1MaxPendingRequests: 1 } };
  // The client calls an address, for which it has no rule: the server's side alone limits.
  const limits = [
    resource('Sidecar', 'limit', { workloadSelector: { labels: { version: 'one' } }, inboundConnectionPool: pool }),
    resource('DestinationRule', 'limit', { host: 'web', trafficPolicy: { connectionPool: pool } }),
  ];
  for (const limit of limits) {
    await config.apply('limit', limit);
    await eventually(async () => assert.deepEqual([...(await statuses())].sort(), ['200', '503']));
    await config.remove('limit');
    await eventually(async () => assert.deepEqual([...(await statuses())], ['200']));
  }
});

test('calls to unregistered addresses go to the egress proxy of a Sidecar, and fail where it does not exist', {
  skip,
}, async () => {
  const { config, outside } = pods();
  const control = pods().control.address;
  await config.apply('egress', ...egressGateway(outside.address));
  await startEnvoy(owner, {
    id: `router~${outside.address}~egress.default~default.svc.cluster.local`,
    metadata: { NAMESPACE: 'default', LABELS: { app: 'egress' } },
    adminPort: ADMIN_PORT,
    adsAddress: control,
    adsPort: 15010,
    namespace: outside,
  });
  const unknownTo = (host: string) =>
    config.apply(
      'sidecar',
      resource('Sidecar', 'default', {
        outboundTrafficPolicy: { mode: 'ALLOW_ANY', egressProxy: { host, port: { number: 80 } } },
        egress: [{ hosts: ['./web.default.svc.cluster.local'] }],
      }),
    );
  await unknownTo('egress.default.svc.cluster.local');
  // Port 80 has HTTP services, so that these are requests; at 8085 they are bytes. Nothing has the address.
  for (const port of [80, 8085]) {
    const reply = await eventually(() => get(`http://198.51.100.7:${port}/out`, 'nowhere.test'));
    assert.equal(reply.name, 'outside');
    assert.equal(reply.headers['x-through'], 'egress');
    assert.equal(reply.headers.host, 'nowhere.test');
  }
  const existing = `http://${outside.address}:8085/`;
  assert.equal((await get(existing, 'outside')).headers['x-through'], 'egress');
  await unknownTo('missing.default.svc.cluster.local');
  await eventually(() => assert.rejects(get(existing, 'outside')));
  await eventually(() => assert.rejects(get(`http://${outside.address}/`, 'outside'), /503/));
  assert.equal((await get('http://10.96.0.1/', 'web')).path, '/');
  await config.remove('sidecar');
  await config.remove('egress');
});

test('calls to a port of the workload that no service names reach it', { skip }, async () => {
  const { one } = pods();
  await eventually(async () => assert.equal((await get(`http://${one.address}:8088/`, 'one')).name, 'unlisted'));
});
