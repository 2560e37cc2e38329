/**
 * Hostile clients: each costs the server little and loses its connection, while another client is served.
 * Memory kept for a client that does not read is tested in connection.test.ts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  ERROR,
  FLAG_ACK,
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FRAME,
  frame,
  SETTING,
  settingsFrame,
} from './frames/frames.ts';
import { block, message, number, RawClient, request } from './testing/raw-client.ts';
import {
  costlyCalls,
  DOWNLOAD,
  ECHO,
  MIRROR,
  SILENT,
  startServer,
  type TestServer,
  UPLOAD,
  WAIT,
} from './testing/server.ts';
import type { GrpcServerOptions } from './types.ts';

/** More frames than any budget allows. */
const FLOOD = 5000;

/** Frames that a connection may send before it ends; see frame-budget.ts. */
const MAX_USELESS = 1000;

const END = FLAG_END_STREAM;

/** A server with a normal and a hostile client; at the end the normal client is still served. */
async function attack(
  t: TestContext,
  options: Partial<GrpcServerOptions>,
  run: (client: RawClient, server: TestServer) => Promise<void>,
): Promise<void> {
  const server = await startServer(options);
  t.after(() => server.server.destroy());
  const bystander = await RawClient.connect(server.port);
  bystander.answerPings();
  await bystander.echo(1);
  const client = await RawClient.connect(server.port);
  await run(client, server);
  await bystander.echo(3);
  assert.deepEqual(server.faults, []);
  for (const each of [bystander, client]) each.close();
}

/** Repeats frames, in as few writes as possible. */
function flood(client: RawClient, times: number, frames: (index: number) => Buffer): void {
  client.socket.cork();
  for (let index = 0; index < times; index++) client.send(frames(index));
  client.socket.uncork();
}

const REQUEST_BLOCK = block(request(WAIT));

function headersFrame(stream: number, flags = 0, payload = REQUEST_BLOCK): Buffer {
  return frame(FRAME.headers, FLAG_END_HEADERS | flags, stream, payload);
}

function resetFrame(stream: number): Buffer {
  return frame(FRAME.rstStream, 0, stream, number(ERROR.cancel));
}

const streamOf = (index: number): number => index * 2 + 1;

const CALM: Readonly<Record<string, (client: RawClient) => void>> = {
  'rapid reset (CVE-2023-44487)': (client) =>
    flood(client, FLOOD, (index) => Buffer.concat([headersFrame(streamOf(index)), resetFrame(streamOf(index))])),
  'streams that the server has to reset for a window that is too large (CVE-2025-8671)': (client) =>
    flood(client, FLOOD, (index) =>
      Buffer.concat([
        headersFrame(streamOf(index)),
        frame(FRAME.windowUpdate, 0, streamOf(index), number(2 ** 31 - 1)),
      ]),
    ),
  'streams that the server has to reset for DATA after their end (CVE-2025-8671)': (client) =>
    flood(client, FLOOD, (index) =>
      Buffer.concat([headersFrame(streamOf(index), END), frame(FRAME.data, 0, streamOf(index), Buffer.alloc(1))]),
    ),
  'streams that the server has to reset for a window that grows by 0 (CVE-2025-8671)': (client) =>
    flood(client, FLOOD, (index) =>
      Buffer.concat([headersFrame(streamOf(index)), frame(FRAME.windowUpdate, 0, streamOf(index), number(0))]),
    ),
  'streams that the server has to reset for HEADERS after their end (CVE-2025-8671)': (client) =>
    flood(client, FLOOD, (index) =>
      Buffer.concat([
        headersFrame(streamOf(index), END, block(request(SILENT))),
        headersFrame(streamOf(index), END, block({ a: 'b' })),
      ]),
    ),
  'malformed requests': (client) =>
    flood(client, FLOOD, (index) => headersFrame(streamOf(index), 0, block({ a: 'b' }))),
  'requests beyond the limit of streams': (client) => flood(client, FLOOD, (index) => headersFrame(streamOf(index))),
  'DATA on streams that are over': (client) => {
    client.send(headersFrame(1));
    client.send(resetFrame(1));
    flood(client, FLOOD, (index) =>
      Buffer.concat([headersFrame(streamOf(index + 1)), resetFrame(streamOf(index + 1))]),
    );
  },
  'empty CONTINUATIONs (CVE-2024-27316)': (client) => {
    client.frame(FRAME.headers, 0, 1);
    flood(client, FLOOD, () => frame(FRAME.continuation, 0, 1, Buffer.alloc(0)));
  },
  'CONTINUATIONs without end (CVE-2024-27316)': (client) => {
    client.frame(FRAME.headers, 0, 1);
    flood(client, 100, () => frame(FRAME.continuation, 0, 1, Buffer.alloc(16_384)));
  },
  'empty DATA (CVE-2019-9518)': (client) => {
    client.send(headersFrame(1));
    flood(client, FLOOD, () => frame(FRAME.data, 0, 1, Buffer.alloc(0)));
  },
  'DATA that is nothing but padding (CVE-2019-9518)': (client) => {
    client.send(headersFrame(1));
    flood(client, FLOOD, () => frame(FRAME.data, 8, 1, Buffer.from([2, 0, 0])));
  },
  'pings (CVE-2019-9512)': (client) => flood(client, FLOOD, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))),
  'windows that grow byte by byte (CVE-2019-9511)': (client) => {
    client.send(settingsFrame([[SETTING.initialWindowSize, 0]]));
    client.headers(1, request(DOWNLOAD, { 'x-bytes': '100000', 'x-chunk': '100000' }), END);
    flood(client, FLOOD, () => frame(FRAME.windowUpdate, 0, 1, number(1)));
  },
  "a connection's window that grows byte by byte (CVE-2019-9511)": (client) =>
    flood(client, FLOOD, () => frame(FRAME.windowUpdate, 0, 0, number(1))),
  'requests that the server has to reset (CVE-2019-9514)': (client) =>
    flood(client, FLOOD, (index) => headersFrame(streamOf(index), 0, block({ ':method': 'POST' }))),
  'header fields without a name (CVE-2019-9516)': (client) =>
    flood(client, FLOOD, (index) =>
      headersFrame(streamOf(index), 0, block([...Object.entries(request(WAIT)), ['', '']])),
    ),
  'SETTINGS (CVE-2019-9515)': (client) => flood(client, FLOOD, () => settingsFrame([])),
  'SETTINGS that change all windows': (client) => {
    flood(client, 100, (index) => headersFrame(streamOf(index)));
    flood(client, FLOOD, (index) => settingsFrame([[SETTING.initialWindowSize, index]]));
  },
  'PRIORITY (CVE-2019-9513)': (client) =>
    flood(client, FLOOD, (index) => frame(FRAME.priority, 0, streamOf(index), Buffer.alloc(5, 1))),
  GOAWAYs: (client) => flood(client, FLOOD, () => frame(FRAME.goaway, 0, 0, Buffer.alloc(8))),
  'acknowledgements of SETTINGS that were not sent': (client) =>
    flood(client, FLOOD, () => frame(FRAME.settings, FLAG_ACK, 0, Buffer.alloc(0))),
  'answers to pings that were not sent': (client) =>
    flood(client, FLOOD, () => frame(FRAME.ping, FLAG_ACK, 0, Buffer.alloc(8))),
  'frames of unknown type': (client) => flood(client, FLOOD, () => frame(99, 0, 0, Buffer.alloc(0))),
};

for (const [what, deed] of Object.entries(CALM))
  test(`the connection ends: ${what}`, (t) =>
    attack(t, {}, async (client, server) => {
      deed(client);
      assert.equal(await client.goawayCode(), ERROR.enhanceYourCalm);
      await client.untilEnded();
      assert.ok(server.unary.length <= MAX_USELESS + 2, `${server.unary.length} calls were served`);
    }));

test('a client that opens too many streams is served up to the limit', (t) =>
  attack(t, { maxStreams: 50 }, async (client, server) => {
    flood(client, 80, (index) => headersFrame(streamOf(index), 0, block(request(SILENT))));
    for (let index = 50; index < 80; index++)
      assert.equal(await client.resetCode(streamOf(index)), ERROR.refusedStream);
    assert.equal(server.streams.length, 50);
    client.send(resetFrame(1));
    client.send(headersFrame(streamOf(80), 0, block(request(SILENT))));
    await client.ping();
    assert.equal(server.streams.length, 51);
  }));

test('thousands of concurrent streams are served when allowed, and leave nothing when their connection ends', (t) =>
  attack(t, { maxStreams: 5000 }, async (client, server) => {
    flood(client, 5000, (index) => headersFrame(streamOf(index), 0, block(request(SILENT))));
    await client.ping();
    assert.equal(server.streams.length, 5000);
    client.close();
    await new Promise<void>((resolve) => server.streams.at(-1)?.onClose(resolve));
    assert.ok(server.streams.every(({ closed }) => closed));
  }));

test('an HPACK bomb ends its stream, and the connection keeps its table', (t) =>
  attack(t, {}, async (client, server) => {
    const kept = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4000, 'x')]);
    const bomb = Buffer.concat([kept, Buffer.alloc(12_000, 0xbe)]);
    flood(client, 20, (index) => headersFrame(streamOf(index), 0, bomb));
    for (let index = 0; index < 20; index++)
      assert.equal(await client.resetCode(streamOf(index)), ERROR.enhanceYourCalm);
    client.send(headersFrame(101, 0, Buffer.concat([block(request(ECHO)), Buffer.from([0xbe])])));
    client.frame(FRAME.data, END, 101, message('a'));
    assert.equal(await client.statusOf(101), 0);
    assert.equal(server.unary.length, 2);
  }));

test('a header list that is too large, in small fields, ends its stream', (t) =>
  attack(t, {}, async (client) => {
    const fields = Array.from({ length: 2000 }, (_, index) => [`n${index}`, ''] as const);
    const list = block([...Object.entries(request(ECHO)), ...fields]);
    client.frame(FRAME.headers, 0, 1, list.subarray(0, 10_000));
    client.frame(FRAME.continuation, FLAG_END_HEADERS, 1, list.subarray(10_000));
    assert.equal(await client.resetCode(1), ERROR.enhanceYourCalm);
    await client.echo(3);
  }));

test('a client that sends hundreds of costly calls at once does not delay others', async (t) => {
  const { services, handled } = costlyCalls();
  const server = await startServer({ services });
  t.after(() => server.server.destroy());
  const [bystander, client] = [await RawClient.connect(server.port), await RawClient.connect(server.port)];
  const calls = 500;
  flood(client, calls, (index) => headersFrame(streamOf(index), END, block(request(SILENT))));
  await bystander.ping();
  assert.ok(handled() < calls, 'the bystander had to wait for all of them');
  for (let index = 0; index < calls; index++) assert.equal(await client.statusOf(streamOf(index)), 0);
  assert.equal(handled(), calls);
  for (const each of [bystander, client]) each.close();
});

test('a large token is not an attack', (t) =>
  attack(t, {}, async (client) => {
    const headers = block(request(ECHO, { authorization: `Bearer ${'t'.repeat(30_000)}` }));
    client.frame(FRAME.headers, 0, 1, headers.subarray(0, 16_384));
    client.frame(FRAME.continuation, FLAG_END_HEADERS, 1, headers.subarray(16_384));
    client.frame(FRAME.data, END, 1, message('a'));
    assert.equal(await client.statusOf(1), 0);
  }));

test('a thousand pings, cancelled calls and the like over time are not an attack', (t) =>
  attack(t, {}, async (client) => {
    flood(client, 300, (index) => Buffer.concat([headersFrame(streamOf(index)), resetFrame(streamOf(index))]));
    flood(client, 300, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    await client.echo(1001);
  }));

test('DATA byte by byte for a call that does not read takes no more memory than its bytes', (t) =>
  attack(t, {}, async (client, server) => {
    client.send(headersFrame(1, 0, block(request(SILENT))));
    flood(client, 50_000, () => frame(FRAME.data, 0, 1, Buffer.alloc(1, 'a')));
    client.frame(FRAME.data, END, 1);
    await client.ping();
    let bytes = 0;
    let pieces = 0;
    await new Promise<void>((resolve) =>
      server.streams[0]?.read({
        data: (piece) => {
          bytes += piece.length;
          pieces++;
        },
        ended: resolve,
      }),
    );
    assert.deepEqual([bytes, pieces], [50_000, 1]);
  }));

test('a request that stays incomplete is refused after a timeout', (t) =>
  attack(t, { requestTimeoutMs: 30 }, async (client, server) => {
    client.headers(1, request(ECHO));
    client.frame(FRAME.data, 0, 1, message('abc').subarray(0, 6));
    assert.equal(await client.statusOf(1), 4);
    assert.equal(await client.resetCode(1), ERROR.none);
    assert.equal(server.refused.length, 1);
    await client.echo(3);
  }));

test('the number of incomplete requests is limited', (t) =>
  attack(t, { maxIncomplete: 10 }, async (client) => {
    for (let index = 0; index < 10; index++) client.headers(streamOf(index), request(ECHO));
    client.headers(21, request(ECHO));
    assert.equal(await client.statusOf(21), 8);
    client.send(resetFrame(1));
    client.frame(FRAME.data, END, 3, message('a'));
    assert.equal(await client.statusOf(3), 0);
    await client.echo(23);
  }));

test('a stream window that stays at 0 ends the call after a timeout', (t) =>
  attack(t, { sendTimeoutMs: 40 }, async (client, server) => {
    client.send(settingsFrame([[SETTING.initialWindowSize, 0]]));
    client.headers(1, request(DOWNLOAD, { 'x-bytes': '1000' }), END);
    client.headers(3, request(SILENT));
    assert.equal(await client.resetCode(1), ERROR.cancel);
    assert.deepEqual(
      server.streams.map(({ closed }) => closed),
      [true, false],
    );
    await client.ping();
  }));

test('a connection window that stays at 0 ends the calls that wait for it', (t) =>
  attack(t, { sendTimeoutMs: 40 }, async (client, server) => {
    client.send(settingsFrame([[SETTING.initialWindowSize, 2 ** 30]]));
    for (let index = 0; index < 10; index++)
      client.headers(streamOf(index), request(DOWNLOAD, { 'x-bytes': '1000000', 'x-chunk': '1000000' }), END);
    for (let index = 0; index < 10; index++) assert.equal(await client.resetCode(streamOf(index)), ERROR.cancel);
    assert.ok(server.streams.every(({ closed }) => closed));
    await client.ping();
  }));

test('a client that never reads is disconnected', (t) =>
  attack(t, { sendTimeoutMs: 100 }, async (client, server) => {
    client.send(settingsFrame([[SETTING.initialWindowSize, 2 ** 30]]));
    client.frame(FRAME.windowUpdate, 0, 0, number(2 ** 30));
    client.socket.pause();
    for (let index = 0; index < 5; index++)
      client.headers(streamOf(index), request(DOWNLOAD, { 'x-bytes': '20000000', 'x-chunk': '20000000' }), END);
    while (server.streams.length < 5) await new Promise((resolve) => setImmediate(resolve));
    await Promise.all(server.streams.map((call) => new Promise<void>((resolve) => call.onClose(resolve))));
    client.socket.resume();
    await client.untilEnded();
  }));

test('pings of a client that does not read end its connection', (t) =>
  attack(t, { sendTimeoutMs: 100 }, async (client, server) => {
    client.socket.pause();
    client.send(headersFrame(1, 0, block(request(SILENT))));
    flood(client, FLOOD, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    while (server.streams.length < 1) await new Promise((resolve) => setImmediate(resolve));
    await new Promise<void>((resolve) => server.streams[0]?.onClose(resolve));
    assert.match(server.refused[0]?.message ?? '', /too many useless frames/);
  }));

test('a client that sends nothing, or only a part of the preface, or only the preface, is disconnected', async (t) => {
  // So much that the last connection is used in time on a crowded machine, too.
  const server = await startServer({ idleMs: 1_000 });
  t.after(() => server.server.destroy());
  const silent = await RawClient.open(server.port);
  const part = await RawClient.open(server.port);
  part.send(Buffer.from('PRI * HT'));
  const begun = await RawClient.connect(server.port);
  for (const client of [silent, part, begun]) await client.untilEnded();
  const later = await RawClient.connect(server.port);
  await later.echo(1);
  later.close();
});

test('a client that does not answer pings is disconnected, one that does is not', (t) =>
  attack(t, { keepaliveIntervalMs: 20, keepaliveTimeoutMs: 60 }, async (client, server) => {
    const dead = await RawClient.connect(server.port);
    dead.headers(1, request(SILENT));
    await dead.ping();
    client.headers(1, request(SILENT));
    client.answerPings();
    await dead.untilEnded();
    await client.echo(3);
    assert.deepEqual(
      server.streams.map(({ closed }) => closed),
      [true, false],
    );
  }));

test('more calls than the budget of useless frames are not an attack', (t) =>
  attack(t, { maxStreams: 2000 }, async (client, server) => {
    flood(client, 2 * MAX_USELESS, (index) =>
      Buffer.concat([
        headersFrame(streamOf(index), 0, block(request(ECHO))),
        frame(FRAME.data, 0, streamOf(index), message('a')),
        frame(FRAME.data, END, streamOf(index), Buffer.alloc(0)),
      ]),
    );
    assert.equal(await client.statusOf(streamOf(2 * MAX_USELESS - 1)), 0);
    const ends = client.frames.filter(({ type, flags }) => type === FRAME.headers && (flags & END) !== 0);
    assert.equal(ends.length, 2 * MAX_USELESS);
    assert.equal(server.unary.length, 2 * MAX_USELESS + 1);
  }));

test('no address gets all connections', (t) =>
  attack(t, { maxConnections: 8 }, async (_client, server) => {
    const clients: RawClient[] = [];
    for (let count = 0; count < 8; count++) clients.push(await RawClient.open(server.port));
    const last = clients.at(-1);
    await last?.untilEnded();
    assert.ok(server.refused.length > 0);
    for (const each of clients) each.close();
  }));

test('a call that never ends, and one that is not read, do not delay others of their connection', (t) =>
  attack(t, {}, async (client) => {
    client.headers(1, request(SILENT));
    client.frame(FRAME.data, 0, 1, Buffer.alloc(16_384));
    client.headers(3, request(UPLOAD));
    client.frame(FRAME.data, 0, 3, Buffer.alloc(16_384));
    client.headers(5, request(MIRROR));
    client.frame(FRAME.data, END, 5, message('b'));
    assert.equal(await client.statusOf(5), 0);
    await client.echo(7);
  }));
