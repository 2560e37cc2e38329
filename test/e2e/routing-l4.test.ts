/** TCP and TLS routing: an edit moves connections to another service, over SotW and over Delta. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { createServer } from 'node:tls';
import { startDns, startTcpEcho } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { type MeshProxy, MODES, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { eventuallyAll, greeting, tlsGreeting } from './support/traffic.ts';

const TCP_PORT = 7490;
const TLS_PORT = 7443;
const DNS_PORT = 7453;

const owner = suiteOwner();
const shared = lazy<TestMesh & { readonly clients: readonly MeshProxy[] }>();
const address = planMesh();
const certificates = join(import.meta.dirname, '../golden-harness/certs');

async function startTls(name: string, at: string): Promise<void> {
  const key = readFileSync(join(certificates, 'tls.key'));
  const cert = readFileSync(join(certificates, 'tls.crt'));
  const server = createServer({ key, cert }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.end(`${name}\n`);
  });
  await new Promise<void>((resolve) => server.listen(TLS_PORT, at, resolve));
  owner.after(() => {
    server.close();
  });
}

function tcpService(name: string, at: string) {
  return [
    service(name, { ports: [{ name: 'tcp', port: TCP_PORT }] }),
    endpoints(name, [at], [{ name: 'tcp', port: TCP_PORT }]),
  ];
}

/** A host outside the mesh with which clients themselves use TLS. */
function tlsHost(name: string, at: string) {
  return resource('ServiceEntry', name, {
    hosts: [`${name}.example`],
    location: 'MESH_EXTERNAL',
    resolution: 'STATIC',
    ports: [{ number: TLS_PORT, name: 'tls', protocol: 'TLS' }],
    endpoints: [{ address: at }],
  });
}

before(async () => {
  await startTcpEcho(owner, { name: 'tcp-a', address: address(21), port: TCP_PORT });
  await startTcpEcho(owner, { name: 'tcp-b', address: address(22), port: TCP_PORT });
  await startTls('tls-a', address(23));
  await startTls('tls-b', address(24));
  const names = { 'a.wild.example': [address(23)], 'b.wild.example': [address(24)] };
  await startDns(owner, { address: address(25), port: DNS_PORT, names });
  const dnsServer = { address: address(25), port: DNS_PORT };
  const egress = [
    { number: TCP_PORT, protocol: 'TCP', hosts: ['./tcp-a.default.svc.cluster.local'] },
    { number: TLS_PORT, protocol: 'TLS', hosts: ['./tls-a.example', './tls-b.example', './*.wild.example'] },
    // Imported, so that a route can use it; its port is not used by a test.
    { number: 7491, protocol: 'TCP', hosts: ['./tcp-b.default.svc.cluster.local'] },
  ];
  const planned = MODES.map((mode, index) => ({ name: `client-${mode}`, mode, address: address(10 + index) }));
  const mesh = await startMesh(owner, address, {
    files: {
      clients: planned.map((client) => sidecar(client.name, { address: client.address, egress })),
      tcp: [...tcpService('tcp-a', address(21)), ...tcpService('tcp-b', address(22))],
      tls: [tlsHost('tls-a', address(23)), tlsHost('tls-b', address(24))],
    },
  });
  const clients = await Promise.all(planned.map((client) => mesh.startProxy({ ...client, dnsServer })));
  shared.set({ ...mesh, clients });
});

test('a TCP connection reaches its service, with a TCP route another one, without it its own again', async () => {
  const { config, clients } = shared.get();
  const reaches = (name: string) =>
    eventuallyAll(clients, async (client) => assert.equal(await greeting(client.address, TCP_PORT), name));
  await reaches('tcp-a');
  const route = [{ destination: { host: 'tcp-b', port: { number: TCP_PORT } } }];
  await config.apply('route', resource('VirtualService', 'tcp-a', { hosts: ['tcp-a'], tcp: [{ route }] }));
  await reaches('tcp-b');
  await config.remove('route');
  await reaches('tcp-a');
});

test('TLS connections are routed by server name without decryption, and an unknown name is refused', async () => {
  const { clients } = shared.get();
  await eventuallyAll(clients, async (client) => {
    assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-a.example'), 'tls-a');
    assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-b.example'), 'tls-b');
    await assert.rejects(tlsGreeting(client.address, TLS_PORT, 'other.example'));
  });
});

test('a TLS route by server name moves one name and no other', async () => {
  const { config, clients } = shared.get();
  const match = [{ port: TLS_PORT, sniHosts: ['tls-a.example'] }];
  const route = [{ destination: { host: 'tls-b.example', port: { number: TLS_PORT } } }];
  await config.apply(
    'route',
    resource('VirtualService', 'tls-a', { hosts: ['tls-a.example'], tls: [{ match, route }] }),
  );
  await eventuallyAll(clients, async (client) => {
    assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-a.example'), 'tls-b');
    assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-b.example'), 'tls-b');
  });
  await config.remove('route');
  await eventuallyAll(clients, async (client) => {
    assert.equal(await tlsGreeting(client.address, TLS_PORT, 'tls-a.example'), 'tls-a');
  });
});

test('weights spread connections over two services', async () => {
  const { config, clients } = shared.get();
  const port = { number: TCP_PORT };
  const route = [
    { destination: { host: 'tcp-a', port }, weight: 50 },
    { destination: { host: 'tcp-b', port }, weight: 50 },
  ];
  await config.apply('route', resource('VirtualService', 'tcp-a', { hosts: ['tcp-a'], tcp: [{ route }] }));
  await eventuallyAll(clients, async (client) => {
    const seen = new Set<string>();
    for (let i = 0; i < 40 && seen.size < 2; i++) seen.add(await greeting(client.address, TCP_PORT));
    assert.deepEqual([...seen].sort(), ['tcp-a', 'tcp-b']);
  });
});

test('TLS connections to names that match a wildcard go where the proxy resolves them, others are refused', async () => {
  const { config, clients } = shared.get();
  const ports = [{ number: TLS_PORT, name: 'tls', protocol: 'TLS' }];
  const wild = { hosts: ['*.wild.example'], location: 'MESH_EXTERNAL', resolution: 'DYNAMIC_DNS', ports };
  await config.apply('wild', resource('ServiceEntry', 'wild', wild));
  await eventuallyAll(clients, async ({ address: at }) => {
    assert.equal(await tlsGreeting(at, TLS_PORT, 'a.wild.example'), 'tls-a');
    assert.equal(await tlsGreeting(at, TLS_PORT, 'b.wild.example'), 'tls-b');
  });
  for (const { address: at } of clients) await assert.rejects(tlsGreeting(at, TLS_PORT, 'none.wild.example'));
  await config.remove('wild');
});
