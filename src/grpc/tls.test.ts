/** Encrypted listeners: handshakes that succeed, fail or never end, and renewed certificates. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import { mock, type TestContext, test } from 'node:test';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { eventually } from '../../test/harness/eventually.ts';
import { DAY_MS, ecKey, makeCa, makeLeaf, pemOf } from '../security/testing/credentials.ts';
import { FLAG_END_HEADERS, FLAG_END_STREAM, FRAME, frame, SETTING } from './frames/frames.ts';
import { block, number, RawClient, request } from './testing/raw-client.ts';
import { costlyCalls, DOWNLOAD, downloadContent, SILENT, startServer, type TestServer } from './testing/server.ts';
import type { GrpcServerOptions, ListenerTls } from './types.ts';

const validity = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
const ca = makeCa({ name: 'ca', ...validity });

function identity(dnsName: string): { readonly key: string; readonly cert: string } {
  const keys = ecKey('P-256');
  const key = keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return { key, cert: pemOf(makeLeaf({ issuer: ca, keys, dnsNames: [dnsName], ...validity })) };
}

interface TlsServer extends TestServer {
  /** Replaces the certificate of new connections. */
  renew(dnsName: string): void;
}

async function startTls(
  t: TestContext,
  handshakeTimeout = 10_000,
  maxConnections = 1000,
  judges: Pick<ListenerTls, 'secured'> = {},
  more: Partial<GrpcServerOptions> = {},
): Promise<TlsServer> {
  let own = identity('one.test');
  const listeners = new Set<() => void>();
  const server = await startServer({
    maxConnections,
    ...more,
    listeners: [
      {
        host: '127.0.0.1',
        port: 0,
        tls: {
          options: { requestCert: true, rejectUnauthorized: true, handshakeTimeout },
          ...judges,
          context: () => ({ ...own, ca: ca.certificate }),
          onRenew: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
          },
        },
      },
    ],
  });
  t.after(() => {
    server.server.destroy();
    assert.equal(listeners.size, 0);
  });
  const renew = (dnsName: string): void => {
    own = identity(dnsName);
    for (const listener of listeners) listener();
  };
  return { ...server, renew };
}

function dial(port: number, options: ConnectionOptions = identity('client.test')): TLSSocket {
  const socket = connect({
    port,
    host: '127.0.0.1',
    ca: ca.certificate,
    ALPNProtocols: ['h2'],
    checkServerIdentity: () => undefined,
    ...options,
  });
  socket.on('error', () => {});
  return socket;
}

async function connected(port: number): Promise<{ readonly client: RawClient; readonly socket: TLSSocket }> {
  const socket = dial(port);
  await once(socket, 'secureConnect');
  return { client: new RawClient(socket), socket };
}

test('calls over TLS, of any size', async (t) => {
  const server = await startTls(t);
  const { client } = await connected(server.port);
  await client.begin([[SETTING.initialWindowSize, 2 ** 30]]);
  client.frame(FRAME.windowUpdate, 0, 0, number(2 ** 30));
  await client.echo(1);
  const sizes = [1, 4096, 4097, 16_384, 65_536, 65_600, 1_000_000];
  for (const [index, size] of sizes.entries()) {
    const fields = request(DOWNLOAD, { 'x-bytes': String(size), 'x-chunk': String(index % 2 === 0 ? 70_000 : 999) });
    client.headers(index * 2 + 3, fields, FLAG_END_STREAM);
  }
  for (const [index, size] of sizes.entries()) {
    assert.equal(await client.statusOf(index * 2 + 3), 0);
    assert.ok(client.dataOf(index * 2 + 3).equals(downloadContent(size)), `${size} bytes`);
  }
  client.close();
});

test('a client that sends hundreds of costly calls at once does not delay others, and all are answered', async (t) => {
  const { services, handled } = costlyCalls();
  const server = await startTls(t, 10_000, 1000, {}, { services });
  const [{ client: bystander }, { client }] = [await connected(server.port), await connected(server.port)];
  for (const each of [bystander, client]) await each.begin();
  const calls = 500;
  const head = block(request(SILENT));
  const flags = FLAG_END_HEADERS | FLAG_END_STREAM;
  const flood = Array.from({ length: calls }, (_, index) => frame(FRAME.headers, flags, index * 2 + 1, head));
  client.send(Buffer.concat(flood));
  await bystander.ping();
  assert.ok(handled() < calls, 'the bystander had to wait for all of them');
  for (let index = 0; index < calls; index++) assert.equal(await client.statusOf(index * 2 + 1), 0);
  for (const each of [bystander, client]) each.close();
});

test("a call has its connection's certificate", async (t) => {
  const server = await startTls(t);
  const { client } = await connected(server.port);
  await client.begin();
  client.headers(1, request(SILENT));
  await client.ping();
  const certificate = server.streams[0]?.connection.secured?.getPeerX509Certificate();
  assert.match(certificate?.subjectAltName ?? '', /client\.test/);
  client.close();
});

test('a client whose certificate is refused or cannot be read is disconnected, and others are served', async (t) => {
  const verdicts = [false, new Error('what it has shown cannot be read'), true];
  const secured = (): boolean => {
    const verdict = verdicts.shift() ?? true;
    if (typeof verdict === 'boolean') return verdict;
    throw verdict;
  };
  const server = await startTls(t, 10_000, 1000, { secured });
  await Promise.all([dial(server.port), dial(server.port)].map((socket) => once(socket, 'close')));
  const { client } = await connected(server.port);
  await client.begin();
  await client.echo(1);
  client.close();
  assert.deepEqual(server.faults.map(String), ['Error: what it has shown cannot be read']);
});

test('a renewed certificate is used for new connections, and old ones stay open', async (t) => {
  const server = await startTls(t);
  const first = await connected(server.port);
  await first.client.begin();
  server.renew('two.test');
  const second = await connected(server.port);
  await second.client.begin();
  assert.match(first.socket.getPeerX509Certificate()?.subjectAltName ?? '', /one\.test/);
  assert.match(second.socket.getPeerX509Certificate()?.subjectAltName ?? '', /two\.test/);
  await first.client.echo(1);
  await second.client.echo(1);
  for (const { client } of [first, second]) client.close();
});

const stranger = makeCa({ name: 'stranger', ...validity });

function strangerIdentity(): ConnectionOptions {
  const keys = ecKey('P-256');
  const key = keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return { key, cert: pemOf(makeLeaf({ issuer: stranger, keys, ...validity })) };
}

for (const [what, options] of [
  ['without a certificate', {}],
  ['with a certificate of another authority', strangerIdentity()],
  ['without HTTP/2', { ...identity('client.test'), ALPNProtocols: ['http/1.1'] }],
  ['without any protocol', { ...identity('client.test'), ALPNProtocols: undefined }],
] as const)
  test(`a client ${what} is refused, others are not`, async (t) => {
    const server = await startTls(t);
    const socket = dial(server.port, options as ConnectionOptions);
    await new Promise((resolve) => socket.once('close', resolve));
    const { client } = await connected(server.port);
    await client.begin();
    await client.echo(1);
    client.close();
  });

test('handshakes that never end time out', async (t) => {
  const server = await startTls(t, 400);
  const half = await RawClient.open(server.port);
  half.send(Buffer.from([22, 3, 1, 0, 200, 1]));
  const silent = await RawClient.open(server.port);
  for (const each of [half, silent]) await each.untilEnded();
  const { client } = await connected(server.port);
  await client.begin();
  await client.echo(1);
  client.close();
});

test('connections that have sent a part of a record hold no slot', { timeout: 120_000 }, async (t) => {
  const server = await startTls(t, 120_000);
  // Without timers, no slot ends early.
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const held = Array.from({ length: 200 }, (_, index) => {
    const socket = connectPlain({ port: server.port, host: '127.0.0.1', localAddress: `127.0.1.${1 + (index % 50)}` });
    socket.write(Buffer.from([22]));
    return socket;
  });
  t.after(() => {
    for (const socket of held) socket.destroy();
  });
  await Promise.all(held.map((socket) => once(socket, 'connect')));
  const { client } = await connected(server.port);
  await client.begin();
  await client.echo(1);
  client.close();
});

test('plain text on an encrypted listener is closed', async (t) => {
  const server = await startTls(t);
  const plain = await RawClient.open(server.port);
  plain.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'));
  await plain.untilEnded();
});

test('connections that end before HTTP/2 begins are counted by reason', async (t) => {
  const server = await startTls(t, 400);
  const ended = async (reason: string): Promise<void> => {
    await eventually(() => assert.ok(server.endedEarly.length > 0));
    assert.deepEqual(server.endedEarly.splice(0), [reason]);
  };
  const silent = await RawClient.open(server.port);
  await silent.untilEnded();
  await ended('timeout');
  const half = await RawClient.open(server.port);
  half.send(Buffer.from([22, 3, 1, 0, 200, 1]));
  await half.untilEnded();
  await ended('timeout');
  const leaving = await RawClient.open(server.port);
  leaving.send(Buffer.from([22, 3, 1, 0, 200, 1]));
  leaving.socket.end();
  await ended('client');
  const scanner = await RawClient.open(server.port);
  scanner.close();
  await ended('client');
  const plain = await RawClient.open(server.port);
  plain.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'));
  await ended('handshake');
  dial(server.port, {});
  await ended('handshake');
  dial(server.port, { ...identity('client.test'), ALPNProtocols: undefined });
  await ended('refused');
  const { client: mute } = await connected(server.port);
  await mute.next('settings');
  mute.close();
  await ended('no_preface');
  const last = await connected(server.port);
  await last.client.begin();
  last.client.close();
  assert.deepEqual(server.endedEarly, []);
});

test('connections beyond the limit are counted', async (t) => {
  const server = await startTls(t, 10_000, 5);
  const open = await Promise.all([1, 2, 3, 4].map(() => connected(server.port)));
  for (const { client } of open) await client.begin();
  await (await RawClient.open(server.port)).untilEnded();
  assert.deepEqual(server.endedEarly, ['limit']);
  for (const { client } of open) client.close();
});

test('a client that sends much before its handshake begins is disconnected', async (t) => {
  const server = await startTls(t);
  const client = await RawClient.open(server.port);
  client.send(Buffer.alloc(1_000_000, 22));
  await client.untilEnded();
});

test('connections release their slot however they end', async (t) => {
  const server = await startTls(t, 400, 5);
  const endings: readonly (() => Promise<void>)[] = [
    async () => {
      const { client, socket } = await connected(server.port);
      await client.begin();
      socket.end();
      await client.untilEnded();
    },
    async () => {
      const { client, socket } = await connected(server.port);
      client.headers(1, request(DOWNLOAD, { 'x-bytes': '5000000', 'x-chunk': '100000' }));
      socket.destroy();
    },
    async () => {
      const { client } = await connected(server.port);
      client.send(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
      await client.untilEnded();
      client.close();
    },
    async () => {
      const socket = dial(server.port, { ...identity('client.test'), ALPNProtocols: ['http/1.1'] });
      await once(socket, 'close').catch(() => {});
    },
    async () => {
      const socket = dial(server.port, {});
      await once(socket, 'close').catch(() => {});
    },
    async () => {
      const plain = await RawClient.open(server.port);
      plain.send(Buffer.from('no handshake'));
      await plain.untilEnded();
      plain.close();
    },
    async () => {
      const silent = await RawClient.open(server.port);
      await silent.untilEnded();
      silent.close();
    },
  ];
  for (let round = 0; round < 2; round++) for (const end of endings) await end();
  const { client } = await connected(server.port);
  await client.begin();
  await client.echo(1);
  client.close();
  assert.deepEqual(
    server.refused.filter(({ code }) => code === 'resource_exhausted'),
    [],
  );
});
