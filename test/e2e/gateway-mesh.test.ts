/**
 * Gateways with a certificate of the mesh: AUTO_PASSTHROUGH, by which sidecars of one network reach services of
 * another, and MESH_MUTUAL, which accepts only workloads of the mesh. Real agents, Envoys, redirection and openssl, in
 * network namespaces.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { stringify } from 'yaml';
import {
  type Agent,
  eventually,
  netnsUnavailable,
  startAgent,
  startDnsIn,
  tempDir,
  writeResolvConf,
} from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { httpOutcome } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

const PASSING = 15443;
const HTTPS = 8443;
const FILES = 8444;
/** Faster to make than an RSA key. */
const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
const GATEWAY_NAME = 'gateway.far.example';
/** The default of `--clusterID`. */
const CLUSTER = 'Orchestrator';

interface Shared {
  readonly world: IdentityWorld;
  /** In network `near`, without a route to the addresses of `far`. */
  readonly client: Workload;
  /** In network `far`, beside the gateway. */
  readonly server: Workload;
  /** In network `far`; the gateway's hosts do not cover it. */
  readonly hidden: Workload;
  /** Without proxy. */
  readonly plain: Workload;
  readonly edge: Workload;
  readonly gateway: Agent;
  /** Replaces the networks configuration: the gateways of network `far`, and its cluster. */
  readonly setNetworks: (gateways: readonly Document[], fromRegistry?: string) => Promise<void>;
  /** Key and certificate of the client's identity. */
  readonly certificates: string;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner);
  const folder = await tempDir(owner);
  await chmod(folder, 0o755);
  const networksFile = join(folder, 'networks.yaml');
  const certificates = join(folder, 'certificates');
  await mkdir(certificates);
  await chmod(certificates, 0o777);
  await writeFile(networksFile, 'networks: {}\n');
  await world.stopDiscovery();
  await writeResolvConf(owner, world.control, `nameserver ${world.control.address}\n`);
  await world.startDiscovery({}, ['--networksConfig', networksFile]);
  const near = { MESH_META_NETWORK: 'near', OUTPUT_CERTS: certificates };
  const far = { MESH_META_NETWORK: 'far' };
  const [client, server, hidden, plain, edge] = await Promise.all([
    world.addWorkload({ name: 'client', namespace: 'foo', proxied: true, env: near }),
    world.addWorkload({ name: 'server', namespace: 'foo', proxied: true, env: far }),
    world.addWorkload({ name: 'hidden', namespace: 'bar', proxied: true, env: far }),
    world.addWorkload({ name: 'plain', namespace: 'foo', proxied: false }),
    world.addWorkload({ name: 'edge', namespace: 'edge', proxied: false }),
  ]);
  const gateway = await startAgent(owner, {
    name: 'edge',
    role: 'router',
    podNamespace: 'edge',
    netns: edge.netns,
    discoveryAddress: `${world.control.address}:15012`,
    env: {
      ...far,
      SERVICE_ACCOUNT: 'edge',
      CA_TOKEN_FILE: edge.tokenFile,
      CA_ROOT_CA: join(world.caDir, 'root-cert.pem'),
    },
  });
  const { address } = world.control;
  const names = { [GATEWAY_NAME]: [edge.netns.address] };
  await startDnsIn(owner, world.control, { label: 'control', addresses: [address], names });
  const setNetworks: Shared['setNetworks'] = async (gateways, fromRegistry) => {
    const ranges = [server, hidden].map(({ netns }) => ({ fromCidr: `${netns.address}/32` }));
    const networks = {
      far: { endpoints: fromRegistry === undefined ? ranges : [{ fromRegistry }], gateways },
      near: { endpoints: [{ fromCidr: `${client.netns.address}/32` }] },
    };
    await writeFile(`${networksFile}.new`, stringify({ networks }));
    await rename(`${networksFile}.new`, networksFile);
  };
  await setNetworks([{ address: edge.netns.address, port: PASSING }]);
  for (const { netns } of [server, hidden]) {
    await client.netns.run('ip', 'route', 'add', 'blackhole', `${netns.address}/32`);
  }
  shared.set({ world, client, server, hidden, plain, edge, gateway, setNetworks, certificates });
});

function gateway(name: string, port: number, protocol: string, hosts: readonly string[], tls: Document): Document {
  const servers = [{ port: { number: port, name, protocol }, hosts, tls }];
  return resource('Gateway', name, { selector: { app: 'edge' }, servers }, 'edge');
}

const hostOf = ({ name, namespace }: Workload) => `${name}.${namespace}.svc.cluster.local`;

/** How often the gateway has connected to a cluster that passes connections on. */
async function passedOn(server: Workload): Promise<number> {
  const cluster = `outbound_.80_._.${hostOf(server)}`;
  const stats = await shared.get().gateway.admin(`/clusters`);
  const counts = [...stats.matchAll(/^(.*)::[^:]*:\d+::cx_total::(\d+)$/gm)];
  return counts.filter(([, name]) => name === cluster).reduce((sum, [, , count]) => sum + Number(count), 0);
}

/** The owner of the certificate that a TLS client of the gateway receives; undefined: no handshake. */
async function shownIdentity(serverName: string, alpn: readonly string[]): Promise<string | undefined> {
  const { plain, edge } = shared.get();
  const address = `${edge.netns.address}:${PASSING}`;
  const names = alpn.length === 0 ? '' : `-alpn ${alpn.join(',')}`;
  const client = `openssl s_client -connect ${address} -servername '${serverName}' ${names} </dev/null 2>&1`;
  const script = `${client} | openssl x509 -noout -ext subjectAltName 2>&1; true`;
  return /URI:(\S+)/.exec(await plain.netns.run('sh', '-c', script))?.[1];
}

test('AUTO_PASSTHROUGH: a sidecar reaches a service of another network with its own identity', {
  skip,
}, async () => {
  const { world, client, server, hidden } = shared.get();
  const call = (to: Workload) => httpOutcome(client, to, ['-m', '20', `http://${to.serviceAddress}/`]);
  // Without the gateway the service is unreachable.
  assert.notEqual(await call(server), '200 mtls');
  await world.config.apply(
    'passing',
    gateway('passing', PASSING, 'TLS', ['*.foo.svc.cluster.local'], { mode: 'AUTO_PASSTHROUGH' }),
  );
  await eventually(async () => assert.equal(await call(server), '200 mtls'), { timeoutMs: 30_000 });
  assert.ok((await passedOn(server)) > 0);
  // In a namespace that the server's hosts do not cover.
  assert.notEqual(await call(hidden), '200 mtls');
});

test('AUTO_PASSTHROUGH: only names of services that it covers, and only mutual TLS of the mesh', { skip }, async () => {
  const { server, hidden, plain } = shared.get();
  const mesh = ['istio-http/1.1', 'istio'];
  assert.equal(await shownIdentity(`outbound_.80_._.${hostOf(server)}`, mesh), server.identity);
  for (const [name, alpn] of [
    [`outbound_.80_._.${hostOf(hidden)}`, mesh],
    [`outbound_.80_._.${hostOf(server)}`, []],
    [`outbound_.80_._.${hostOf(server)}`, ['h2']],
    [`outbound_.4711_._.${hostOf(server)}`, mesh],
    [`outbound|80||${hostOf(server)}`, mesh],
    [hostOf(server), mesh],
    ['xds-grpc', mesh],
    ['BlackHoleCluster', mesh],
  ] as const) {
    assert.equal(await shownIdentity(name, alpn), undefined, `${name} with ${alpn.join()}`);
  }
  // A service without a proxy accepts no mutual TLS, so the gateway has no route to it.
  const before = await passedOn(plain);
  assert.equal(await shownIdentity(`outbound_.80_._.${hostOf(plain)}`, mesh), undefined);
  assert.equal(await passedOn(plain), before);
});

test('the gateway of a network may be a host name or a Service', { skip }, async () => {
  const { world, client, server, edge, setNetworks } = shared.get();
  const call = () => httpOutcome(client, server, ['-m', '20', `http://${server.serviceAddress}/`]);
  const isReached = () => eventually(async () => assert.equal(await call(), '200 mtls'), { timeoutMs: 30_000 });
  const isLeftOut = () => eventually(async () => assert.match(await call(), /^503/), { timeoutMs: 30_000 });
  const service = (ingress: readonly Document[]): Document => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'passing', namespace: 'edge' },
    spec: { type: 'LoadBalancer', ports: [{ name: 'tls', port: PASSING }] },
    status: { loadBalancer: { ingress } },
  });
  // Nothing is there: so that the next address is known to be in use.
  await setNetworks([{ address: 'unknown.example', port: PASSING }]);
  await isLeftOut();
  await setNetworks([{ address: GATEWAY_NAME, port: PASSING }]);
  await isReached();
  await setNetworks([{ registryServiceName: 'passing.edge.svc.cluster.local', port: PASSING }], CLUSTER);
  await isLeftOut();
  await world.config.apply('service', service([{ ip: edge.netns.address }]));
  await isReached();
  await world.config.apply('service', service([]));
  await isLeftOut();
  await world.config.apply('service', service([{ hostname: GATEWAY_NAME }]));
  await isReached();
  await setNetworks([{ address: edge.netns.address, port: PASSING }]);
});

test('MESH_MUTUAL: only workloads of the mesh are accepted', { skip }, async () => {
  const { world, server, plain, edge, certificates } = shared.get();
  await world.config.apply(
    'mutual',
    // The name of the mode in existing configuration.
    gateway('mutual', HTTPS, 'HTTPS', ['web.example'], { mode: 'ISTIO_MUTUAL' }),
    resource(
      'VirtualService',
      'web',
      {
        hosts: ['web.example'],
        gateways: ['edge/mutual'],
        http: [{ route: [{ destination: { host: hostOf(server), port: { number: 80 } } }] }],
      },
      'edge',
    ),
  );
  const curl = async (...more: readonly string[]): Promise<string> => {
    const script = 'curl -sk -m 20 -o /dev/null -w "%{http_code}" "$@"; true';
    const to = ['--connect-to', `web.example:443:${edge.netns.address}:${HTTPS}`, 'https://web.example/'];
    return plain.netns.run('sh', '-c', script, 'curl', ...more, ...to);
  };
  const mine = ['--cert', join(certificates, 'cert-chain.pem'), '--key', join(certificates, 'key.pem')];
  await eventually(async () => assert.equal(await curl(...mine), '200'), { timeoutMs: 30_000 });
  assert.equal(await curl(), '000');
  const folder = await tempDir(owner);
  const foreign = [join(folder, 'cert.pem'), join(folder, 'key.pem')] as const;
  const name = '/CN=stranger';
  await plain.netns.run(
    ...['openssl', 'req', '-x509', ...EC_KEY, '-nodes', '-subj', name, '-days', '1'],
    ...['-out', foreign[0], '-keyout', foreign[1]],
  );
  assert.equal(await curl('--cert', foreign[0], '--key', foreign[1]), '000');
});

test('a missing certificate file affects only its own server, and a new file needs no new listener', {
  skip,
}, async () => {
  const { world, server, plain, edge, gateway: agent } = shared.get();
  const folder = await tempDir(owner);
  await chmod(folder, 0o755);
  const [there, later] = ['there', 'later'].map((name) => ({
    serverCertificate: join(folder, `${name}.pem`),
    privateKey: join(folder, `${name}.key`),
  }));
  assert.ok(there !== undefined && later !== undefined);
  const make = async ({ serverCertificate, privateKey }: typeof there, name: string): Promise<void> => {
    await plain.netns.run(
      ...['openssl', 'req', '-x509', ...EC_KEY, '-nodes', '-subj', `/CN=${name}`, '-days', '1'],
      ...['-out', `${serverCertificate}.new`, '-keyout', `${privateKey}.new`],
    );
    await rename(`${privateKey}.new`, privateKey);
    await rename(`${serverCertificate}.new`, serverCertificate);
  };
  /** The name in the server's certificate. */
  const shown = async (host: string): Promise<string | undefined> => {
    const client = `openssl s_client -connect ${edge.netns.address}:${FILES} -servername ${host} </dev/null 2>&1`;
    const script = `${client} | openssl x509 -noout -subject 2>&1; true`;
    return /CN ?= ?(\S+)/.exec(await plain.netns.run('sh', '-c', script))?.[1];
  };
  await make(there, 'first');
  const servers = [
    {
      port: { number: FILES, name: 'there', protocol: 'HTTPS' },
      hosts: ['there.example'],
      tls: { mode: 'SIMPLE', ...there },
    },
    {
      port: { number: FILES, name: 'later', protocol: 'HTTPS' },
      hosts: ['later.example'],
      tls: { mode: 'SIMPLE', ...later },
    },
  ];
  await world.config.apply(
    'files',
    resource('Gateway', 'files', { selector: { app: 'edge' }, servers }, 'edge'),
    resource(
      'VirtualService',
      'files',
      {
        hosts: ['*.example'],
        gateways: ['edge/files'],
        http: [{ route: [{ destination: { host: hostOf(server), port: { number: 80 } } }] }],
      },
      'edge',
    ),
  );
  await eventually(async () => assert.equal(await shown('there.example'), 'first'), { timeoutMs: 30_000 });
  assert.equal(await shown('later.example'), undefined);
  const listeners = async () => /^listener_manager.listener_modified: (\d+)$/m.exec(await agent.admin('/stats'))?.[1];
  const before = await listeners();
  await make(later, 'second');
  await make(there, 'third');
  await eventually(
    async () => assert.deepEqual([await shown('later.example'), await shown('there.example')], ['second', 'third']),
    { timeoutMs: 30_000 },
  );
  assert.equal(await listeners(), before);
});
