/** What clients cannot do: hold connections, fill queues, send what is not a query, be answered from elsewhere. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type DecodedPacket, decode, encode } from 'dns-packet';
import { eventually } from '../../../test/harness/eventually.ts';
import { type DnsResolver, loopbackListeners, startDnsServer } from '../index.ts';
import { askTcp, askUdp, opt, recordingLog, silentLog } from '../testing/clients.ts';
import { startReply } from '../wire/reply.ts';
import { createHandler } from './handler.ts';
import type { DnsServerLimits } from './server.ts';

const query = (id: number, name = 'www.example.com'): Buffer =>
  encode({ type: 'query', id, flags: 0x100, questions: [{ name, type: 'A' }] });

const codeOf = (message: Buffer | undefined): unknown => Reflect.get(decode(message ?? Buffer.alloc(0)), 'rcode');

/** Answers names that begin with `slow` when told to. */
function slowResolver() {
  const waiting: (() => void)[] = [];
  let most = 0;
  const resolver: DnsResolver = {
    resolve(asked) {
      const response = startReply(asked, 0, 0);
      if (asked.name?.startsWith('slow') !== true) return response;
      return new Promise((resolve) => {
        waiting.push(() => resolve(response));
        most = Math.max(most, waiting.length);
      });
    },
  };
  const release = () => {
    for (const resume of waiting.splice(0)) resume();
  };
  return { resolver, waiting, release, most: () => most };
}

async function start(t: TestContext, limits: Partial<DnsServerLimits>) {
  const slow = slowResolver();
  const server = await startDnsServer({
    listen: [{ host: '127.0.0.1', port: 0 }],
    resolvers: [slow.resolver],
    clients: 'local',
    limits,
    log: silentLog,
  });
  t.after(() => {
    slow.release();
    return server.close();
  });
  return { ...slow, server, port: Number(server.addresses[0]?.split(':')[1]) };
}

async function connected(t: TestContext, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/** Also after a reset. */
const closed = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()));

test('a connection without a complete query is closed, however slowly its bytes arrive', async (t) => {
  const { port, server } = await start(t, { idleMs: 200 });
  const [idle, slow] = [await connected(t, port), await connected(t, port)];
  const drip = setInterval(() => slow.write(Buffer.from([0])), 20);
  t.after(() => clearInterval(drip));
  slow.write(Buffer.from([0x0f]));
  await Promise.all([closed(idle), closed(slow)]);
  await eventually(() => assert.equal(server.stats.connections, 0));
});

test('a connection that is in use is closed at its maximal age, after its queries have been answered', async (t) => {
  const { port, release, waiting } = await start(t, { maxAgeMs: 100 });
  const socket = await connected(t, port);
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const ended = once(socket, 'end');
  const message = query(7, 'slow.example.com');
  socket.write(Buffer.concat([Buffer.from([0, message.length]), message]));
  await eventually(() => assert.equal(waiting.length, 1));
  setTimeout(release, 300);
  await ended;
  assert.equal(Buffer.concat(received).readUInt16BE(2), 7);
  socket.end();
  await closed(socket);
});

test('a message that is too long or empty ends its connection', async (t) => {
  const { port } = await start(t, {});
  for (const length of [
    [0xff, 0xff],
    [0, 0],
  ]) {
    const socket = await connected(t, port);
    socket.write(Buffer.from(length));
    await closed(socket);
  }
});

test('one client has half of the connections, and may open others when they are closed', async (t) => {
  const { port, server } = await start(t, { maxConnections: 4 });
  const kept = [await connected(t, port), await connected(t, port)];
  await eventually(() => assert.equal(server.stats.connections, 2));
  await closed(await connected(t, port));
  assert.equal(server.stats.limited, 1);
  for (const socket of kept) socket.destroy();
  await eventually(() => assert.equal(server.stats.connections, 0));
  assert.equal((await askTcp(port, [query(1)])).length, 1);
});

test('queries of one connection wait for one another beyond the limit, and all are answered', async (t) => {
  const { port, release, most } = await start(t, { maxPipelined: 5 });
  const asked = askTcp(
    port,
    Array.from({ length: 23 }, (_, id) => query(id, `slow${id}.com`)),
  );
  let done = false;
  void asked.then(() => {
    done = true;
  });
  while (!done) {
    await setImmediate();
    release();
  }
  assert.deepEqual(
    (await asked).map((response) => response.readUInt16BE(0)).sort((x, y) => x - y),
    Array.from({ length: 23 }, (_, id) => id),
  );
  assert.equal(most(), 5);
});

test('a client that closes its half of the connection still gets its responses', async (t) => {
  const { port, release, waiting } = await start(t, {});
  const socket = await connected(t, port);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const message = query(3, 'slow.com');
  socket.end(Buffer.concat([Buffer.from([0, message.length]), message]));
  await eventually(() => assert.equal(waiting.length, 1));
  release();
  await closed(socket);
  assert.equal(Buffer.concat(chunks).readUInt16BE(2), 3);
});

test('queries beyond the limit fail at once, and names that are known are answered meanwhile', async (t) => {
  const { port, server, release, waiting } = await start(t, { maxWaiting: 4 });
  const slow = [1, 2].map((id) => askUdp(port, query(id, `slow${id}.com`)));
  await eventually(() => assert.equal(waiting.length, 2));
  assert.equal(codeOf(await askUdp(port, query(3, 'slow3.com'))), 'SERVFAIL');
  assert.equal(codeOf(await askUdp(port, query(4))), 'NOERROR');
  assert.equal(server.stats.limited, 1);
  release();
  assert.deepEqual((await Promise.all(slow)).map(codeOf), ['NOERROR', 'NOERROR']);
});

const CLIENT = { protocol: 'udp', address: '127.0.0.1', port: 4000, identity: undefined } as const;

function handlerOf(resolvers: readonly DnsResolver[], allows = true) {
  const log = recordingLog();
  const handler = createHandler({ resolvers, allows: () => allows, maxWaiting: 10, maxUdpBytes: 1232, log });
  const ask = async (bytes: Buffer): Promise<DecodedPacket | undefined> => {
    const response = await handler.handle(bytes, CLIENT);
    return response === undefined ? undefined : decode(response);
  };
  return { ask, log, stats: handler.stats };
}

const changed = (change: (bytes: Buffer) => void): Buffer => {
  const bytes = Buffer.from(query(9));
  change(bytes);
  return bytes;
};

for (const [what, bytes, rcode] of [
  ['another operation', changed((b) => b.writeUInt16BE(0x2900, 2)), 'NOTIMP'],
  ['no question', changed((b) => b.writeUInt16BE(0, 4)).subarray(0, 12), 'FORMERR'],
  ['two questions', changed((b) => b.writeUInt16BE(2, 4)), 'FORMERR'],
  ['an answer', changed((b) => b.writeUInt16BE(1, 6)), 'FORMERR'],
  ['bytes after its end', Buffer.concat([query(9), Buffer.alloc(1)]), 'FORMERR'],
  ['more than 4 KiB', Buffer.concat([query(9), Buffer.alloc(5000)]), 'FORMERR'],
  ['class CH', changed((b) => b.writeUInt16BE(3, b.length - 2)), 'REFUSED'],
  ['the transfer of a zone', changed((b) => b.writeUInt16BE(252, b.length - 4)), 'REFUSED'],
] as const)
  test(`a query with ${what} is answered ${rcode}`, async () => {
    const response = await handlerOf([]).ask(bytes);
    assert.deepEqual([Reflect.get(response ?? {}, 'rcode'), response?.id, response?.flag_qr], [rcode, 9, true]);
  });

test('EDNS of another version is answered BADVERS, two OPT records FORMERR', async () => {
  const { ask, stats } = handlerOf([]);
  const withOpts = (versions: readonly number[]) =>
    encode({
      type: 'query',
      id: 9,
      questions: [{ name: 'a.b', type: 'A' }],
      additionals: versions.map((version) => opt(1232, version)),
    });
  const [record] = (await ask(withOpts([1])))?.additionals ?? [];
  assert.ok(record?.type === 'OPT');
  assert.deepEqual([record.extendedRcode, record.ednsVersion], [1, 0]);
  assert.equal(Reflect.get((await ask(withOpts([0, 0]))) ?? {}, 'rcode'), 'FORMERR');
  assert.deepEqual(
    [...stats.responses],
    [
      ['BADVERS', 1],
      ['FORMERR', 1],
    ],
  );
});

test('responses, and messages shorter than a header, are not answered', async () => {
  const { ask } = handlerOf([]);
  assert.equal(await ask(changed((b) => b.writeUInt16BE(0x8100, 2))), undefined);
  assert.equal(await ask(Buffer.alloc(11)), undefined);
});

test('clients that are not allowed, and names that no resolver answers, are refused', async () => {
  const never: DnsResolver = { resolve: () => assert.fail('the client is not allowed') };
  assert.equal(Reflect.get((await handlerOf([never], false).ask(query(1))) ?? {}, 'rcode'), 'REFUSED');
  assert.equal(Reflect.get((await handlerOf([]).ask(query(1))) ?? {}, 'rcode'), 'REFUSED');
});

test('an internal error is answered SERVFAIL and logged as one', async () => {
  const broken: DnsResolver = { resolve: () => Promise.reject(new TypeError('broken')) };
  const { ask, log } = handlerOf([broken]);
  assert.equal(Reflect.get((await ask(query(1))) ?? {}, 'rcode'), 'SERVFAIL');
  assert.deepEqual(log.lines, ['error: no answer for www.example.com: broken']);
});

test('an address in use is one line; one that the machine does not have may be left out', async (t) => {
  const { port } = await start(t, {});
  const options = { resolvers: [], clients: 'local', log: silentLog } as const;
  await assert.rejects(startDnsServer({ ...options, listen: [{ host: '127.0.0.1', port }] }), {
    code: 'unavailable',
    message: `cannot listen on 127.0.0.1:${port} (EADDRINUSE)`,
  });
  const absent = { host: '192.0.2.1', port: 0 };
  await assert.rejects(
    startDnsServer({ ...options, listen: [absent] }),
    /cannot listen on 192\.0\.2\.1:0 \(EADDRNOTAVAIL\)/,
  );
  const server = await startDnsServer({ ...options, listen: [...loopbackListeners(0), { ...absent, optional: true }] });
  t.after(() => server.close());
  assert.match(server.addresses.join(), /^127\.0\.0\.1:\d+(,\[::1\]:\d+)?$/);
});
