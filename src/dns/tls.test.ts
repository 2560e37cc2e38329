/** DNS over TLS, server and client: who is verified, what happens when somebody cannot be, new certificates. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { type DecodedPacket, decode, encode } from 'dns-packet';
import { eventually } from '../../test/harness/eventually.ts';
import { certificateSet, type TestRoot, testRoot } from '../agent/identity/testing/certificates.ts';
import { CtlError } from '../core/errors.ts';
import {
  createForwarder,
  createNameTable,
  createTableResolver,
  type DnsClient,
  type DnsClientCertificates,
  startDnsServer,
  type TlsClientCertificates,
  tlsUpstream,
} from './index.ts';
import { recordingLog, silentLog } from './testing/clients.ts';
import { createFrameReader, framed } from './wire/frames.ts';
import { readQuery } from './wire/query.ts';

const NAME = 'dns.example.com';
const SPIFFE = 'spiffe://cluster.local/ns/shop/sa/web';
const TABLES = new Map([
  [SPIFFE, createNameTable([['web.example.com', { ips: ['10.0.0.1'] }]])],
  ['', createNameTable([['web.example.com', { ips: ['10.0.0.2'] }]])],
]);

const query = (id: number): Buffer =>
  encode({ type: 'query', id, flags: 0x100, questions: [{ name: 'web.example.com', type: 'A' }] });

const ipsOf = ({ answers = [] }: DecodedPacket) => answers.map((answer) => ('data' in answer ? answer.data : ''));

async function startTls(t: TestContext, root: TestRoot, clients?: DnsClientCertificates, idleMs = 20_000) {
  let set = certificateSet(root, NAME);
  const listeners = new Set<() => void>();
  const seen: DnsClient[] = [];
  const table = createTableResolver({
    scope: ({ identity = '' }) => ({ table: TABLES.get(identity) ?? assert.fail() }),
  });
  const server = await startDnsServer({
    listen: [
      {
        host: '127.0.0.1',
        port: 0,
        tls: {
          context: () => ({ key: set.key, cert: set.leaf, ca: root.pem }),
          onRenew: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
          },
          clients,
        },
      },
    ],
    resolvers: [
      {
        resolve(asked, client, next) {
          seen.push(client);
          return table.resolve(asked, client, next);
        },
      },
    ],
    clients: 'any',
    limits: { idleMs },
    log: silentLog,
  });
  t.after(() => server.close());
  const renew = () => {
    set = certificateSet(root, NAME);
    for (const listener of listeners) listener();
    return set.leaf;
  };
  return { server, seen, renew, port: Number(server.addresses[0]?.split(':')[1]) };
}

const identified = (required: boolean): DnsClientCertificates => ({
  required,
  identify(socket) {
    const { subjectaltname } = socket.getPeerCertificate();
    if (subjectaltname === undefined) return undefined;
    if (!socket.authorized) throw new CtlError('unauthenticated', 'unknown authority');
    return subjectaltname.replace(/^URI:/, '');
  },
});

/** Sends queries on a new connection; rejects when it closes before all are answered. */
async function ask(port: number, options: ConnectionOptions, count = 1): Promise<Buffer[]> {
  const socket: TLSSocket = connect({ port, host: '127.0.0.1', servername: NAME, ...options });
  try {
    await once(socket, 'secureConnect');
    for (let id = 0; id < count; id++) socket.write(framed(query(id)));
    const reader = createFrameReader(65_535);
    const received: Buffer[] = [];
    for await (const chunk of socket) {
      received.push(...(reader.read(chunk as Buffer) ?? []));
      if (received.length >= count) return received;
    }
    throw new Error('closed without a response');
  } finally {
    socket.destroy();
  }
}

const clientOf = (root: TestRoot) => {
  const { key, leaf } = certificateSet(root, SPIFFE);
  return { key, cert: leaf };
};

test('a client with a certificate of the mesh gets the names of its identity', async (t) => {
  const root = testRoot('mesh');
  const { port, seen } = await startTls(t, root, identified(false));
  const [withCertificate = Buffer.alloc(0)] = await ask(port, { ca: root.pem, ...clientOf(root) });
  assert.deepEqual(ipsOf(decode(withCertificate)), ['10.0.0.1']);
  const [without = Buffer.alloc(0)] = await ask(port, { ca: root.pem });
  assert.deepEqual(ipsOf(decode(without)), ['10.0.0.2']);
  assert.deepEqual(
    seen.map(({ protocol, identity }) => [protocol, identity]),
    [
      ['tls', SPIFFE],
      ['tls', undefined],
    ],
  );
});

test('a client without a certificate, or with one of another authority, is refused where one is required', async (t) => {
  const [root, other] = [testRoot('mesh'), testRoot('other')];
  const { port, seen, server } = await startTls(t, root, identified(true));
  await assert.rejects(ask(port, { ca: root.pem }));
  await assert.rejects(ask(port, { ca: root.pem, ...clientOf(other) }));
  await assert.rejects(ask(port, { ca: root.pem, ...clientOf(root), ALPNProtocols: ['h2'] }));
  assert.equal(seen.length, 0);
  await eventually(() => assert.equal(server.stats.connections, 0));
  assert.equal((await ask(port, { ca: root.pem, ...clientOf(root), ALPNProtocols: ['dot'] }, 20)).length, 20);
});

test('a new certificate is used for new connections', async (t) => {
  const root = testRoot('mesh');
  const { port, renew } = await startTls(t, root);
  await ask(port, { ca: root.pem });
  const leaf = renew();
  const socket = connect({ port, host: '127.0.0.1', servername: NAME, ca: root.pem });
  await once(socket, 'secureConnect');
  assert.equal(socket.getPeerX509Certificate()?.toString(), `${leaf.trim()}\n`);
  socket.destroy();
});

function forwarderTo(t: TestContext, port: number, certificates: () => TlsClientCertificates, host = '127.0.0.1') {
  const log = recordingLog();
  const upstream = tlsUpstream({ server: { host, port }, serverName: NAME, certificates, log });
  const forwarder = createForwarder({ upstream, log, limits: { maxEntries: 0 } });
  t.after(() => forwarder.close());
  const client: DnsClient = { protocol: 'udp', address: '127.0.0.1', port: 4000, identity: undefined };
  const resolve = async (id = 1) => {
    const read = readQuery(query(id));
    assert.ok('bytes' in read);
    return decode(await forwarder.resolve(read, client, () => assert.fail()));
  };
  return { resolve, log, warnings: () => log.lines.filter((line) => line.startsWith('warn')) };
}

test('names are asked over TLS, on one connection, with the certificate of the client', async (t) => {
  const root = testRoot('mesh');
  const { port, seen } = await startTls(t, root, identified(true));
  const { resolve } = forwarderTo(t, port, () => ({ ca: root.pem, ...clientOf(root) }));
  for (let count = 0; count < 3; count++) assert.deepEqual(ipsOf(await resolve()), ['10.0.0.1']);
  assert.equal(new Set(seen.map((client) => client.port)).size, 1);
});

test('after the server has closed an idle connection the next query opens another', async (t) => {
  const root = testRoot('mesh');
  const { port, server, seen } = await startTls(t, root, undefined, 50);
  const { resolve } = forwarderTo(t, port, () => ({ ca: root.pem }));
  assert.deepEqual(ipsOf(await resolve()), ['10.0.0.2']);
  await eventually(() => assert.equal(server.stats.connections, 0));
  assert.deepEqual(ipsOf(await resolve()), ['10.0.0.2']);
  assert.equal(new Set(seen.map((client) => client.port)).size, 2);
});

test('a server whose certificate is not valid gets no query, and is logged once', async (t) => {
  const [root, other] = [testRoot('mesh'), testRoot('other')];
  const { port, seen } = await startTls(t, root);
  const { resolve, warnings } = forwarderTo(t, port, () => ({ ca: other.pem }));
  for (let count = 0; count < 3; count++) await assert.rejects(resolve(), /over TLS/);
  assert.equal(seen.length, 0);
  assert.equal(warnings().filter((line) => line.includes('cannot be used')).length, 1, warnings().join('\n'));
});

test('a server whose certificate is for another name gets no query', async (t) => {
  const root = testRoot('mesh');
  const { port, seen } = await startTls(t, root);
  const log = recordingLog();
  const upstream = tlsUpstream({ server: { host: '127.0.0.1', port }, certificates: () => ({ ca: root.pem }), log });
  const forwarder = createForwarder({ upstream, log });
  t.after(() => forwarder.close());
  const read = readQuery(query(1));
  assert.ok('bytes' in read);
  const client: DnsClient = { protocol: 'udp', address: '127.0.0.1', port: 4000, identity: undefined };
  await assert.rejects(async () => forwarder.resolve(read, client, () => assert.fail()), /altnames/);
  assert.equal(seen.length, 0);
});
