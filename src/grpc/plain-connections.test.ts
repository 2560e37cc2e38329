/**
 * Plain connections of a whole server. All of them are read into the same buffer (shared-reads.ts), so that unfinished
 * bytes of one are overwritten by the next: each is cut at another byte, and each is answered as if it were
 * alone. Each is a socket that replaces an accepted one, whose slot has to be released however it ends.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  FLAG_END_HEADERS,
  FLAG_END_STREAM,
  FLAG_PADDED,
  FRAME,
  frame,
  PREFACE,
  settingsFrame,
} from './frames/frames.ts';
import { block, message, RawClient, request } from './testing/raw-client.ts';
import { DOWNLOAD, ECHO, MIRROR, SILENT, startServer, type TestServer } from './testing/server.ts';
import type { StreamCall } from './types.ts';

const [MIRRORED, ECHOED, HELD] = [1, 3, 5];

/** Of the same length for all. */
function nameOf(index: number): string {
  return `client-${String(index).padStart(4, '0')}`;
}

/** All kinds of frames with effects on later ones; sent without waiting for the server's settings. */
function conversation(who: string): Buffer {
  const head = block(request(MIRROR, { 'x-who': who }));
  const padded = Buffer.concat([Buffer.from([3]), Buffer.from(`mirrored ${who}`), Buffer.alloc(3)]);
  return Buffer.concat([
    PREFACE,
    settingsFrame([]),
    frame(FRAME.headers, 0, MIRRORED, head.subarray(0, 20)),
    frame(FRAME.continuation, FLAG_END_HEADERS, MIRRORED, head.subarray(20)),
    frame(FRAME.headers, FLAG_END_HEADERS, ECHOED, block(request(ECHO))),
    frame(FRAME.data, 0, ECHOED, message(`echoed ${who}`).subarray(0, 9)),
    frame(FRAME.headers, FLAG_END_HEADERS, HELD, block(request(SILENT, { 'x-who': who }))),
    frame(FRAME.data, 0, HELD, Buffer.from(`held ${who}`)),
    frame(FRAME.data, FLAG_PADDED | FLAG_END_STREAM, MIRRORED, padded),
    frame(FRAME.data, FLAG_END_STREAM, ECHOED, message(`echoed ${who}`).subarray(9)),
    frame(FRAME.ping, 0, 0, Buffer.from(who.slice(-8))),
  ]);
}

/** Data of the stream that was kept. */
function heldOf(call: StreamCall): string {
  let text = '';
  call.read({
    data: (bytes) => {
      text += bytes.toString();
    },
    ended: () => {},
  });
  return text;
}

async function check(client: RawClient, who: string): Promise<void> {
  const { payload } = await client.next('ping');
  assert.equal(payload.toString(), who.slice(-8));
  assert.equal(await client.statusOf(MIRRORED), 0);
  assert.equal(client.dataOf(MIRRORED).toString(), `mirrored ${who}`);
  assert.equal(await client.statusOf(ECHOED), 0);
  assert.deepEqual(client.dataOf(ECHOED), message(`echoed ${who}`));
  assert.equal(
    client.frames.some(({ type }) => type === FRAME.goaway || type === FRAME.rstStream),
    false,
  );
}

function checkStreams({ streams }: TestServer, names: readonly string[]): void {
  const whoOf = (path: string): string[] =>
    streams
      .filter((call) => call.path === path)
      .map(({ metadata }) => metadata.get('x-who')[0] ?? '')
      .toSorted();
  assert.deepEqual(whoOf(MIRROR), names);
  assert.deepEqual(whoOf(SILENT), names);
  for (const call of streams)
    if (call.path === SILENT) assert.equal(heldOf(call), `held ${call.metadata.get('x-who')[0]}`);
}

async function server(t: TestContext, options: Parameters<typeof startServer>[0] = {}): Promise<TestServer> {
  const started = await startServer(options);
  t.after(() => started.server.destroy());
  return started;
}

test('unfinished bytes of one connection are not changed by others', async (t) => {
  const served = await server(t);
  const names = Array.from(conversation(nameOf(0)), (_, index) => nameOf(index));
  const all = await Promise.all(names.map(async (who) => ({ who, client: await RawClient.open(served.port) })));
  for (const [cut, { who, client }] of all.entries()) client.send(conversation(who).subarray(0, cut));
  // The last connection is read last: all bytes before it have been read.
  const last = await RawClient.connect(served.port);
  await last.ping();
  for (const [cut, { who, client }] of all.entries()) client.send(conversation(who).subarray(cut));
  for (const { who, client } of all) await check(client, who);
  checkStreams(served, names);
  assert.deepEqual([...served.refused, ...served.faults], []);
  for (const client of [last, ...all.map((one) => one.client)]) client.close();
});

test('a connection read byte by byte, in turn with another', async (t) => {
  const served = await server(t);
  const clients = [await RawClient.open(served.port), await RawClient.open(served.port)];
  const names = clients.map((_, index) => nameOf(index));
  const accepted = await RawClient.connect(served.port);
  for (let at = 0; at < conversation(nameOf(0)).length; at++) {
    for (const [index, client] of clients.entries()) client.send(conversation(nameOf(index)).subarray(at, at + 1));
    await accepted.ping();
  }
  for (const [index, client] of clients.entries()) await check(client, nameOf(index));
  checkStreams(served, names);
  for (const client of [accepted, ...clients]) client.close();
});

const ENDINGS: Readonly<Record<string, (client: RawClient) => void>> = {
  'the client ends it': ({ socket }) => void socket.end(),
  'the client resets it': ({ socket }) => void socket.resetAndDestroy(),
  'the client resets it after a call': (client) => {
    client.headers(MIRRORED, request(DOWNLOAD, { 'x-bytes': '5000000', 'x-chunk': '100000' }));
    client.socket.resetAndDestroy();
  },
  'the client ends it after half a frame': ({ socket }) =>
    void socket.end(conversation(nameOf(0)).subarray(PREFACE.length, -3)),
  'the server ends it': (client) => client.send(Buffer.alloc(100, 255)),
};

for (const [how, end] of Object.entries(ENDINGS))
  test(`a plain connection releases its slot, and the server does not wait for it: ${how}`, {
    timeout: 120_000,
  }, async (t) => {
    const served = await server(t, { maxConnections: 5 });
    // One address has at most four of five.
    for (let round = 0; round < 3; round++) {
      const clients: RawClient[] = [];
      while (clients.length < 4) {
        const client = await RawClient.open(served.port);
        // Those before it may not have closed yet.
        await client.begin().then(
          () => clients.push(client),
          () => client.close(),
        );
      }
      for (const client of clients) end(client);
      for (const client of clients) await client.untilEnded();
    }
    await served.server.drain();
    assert.deepEqual(served.faults, []);
  });

test('a server that is destroyed while a plain connection is read', async (t) => {
  const served = await server(t);
  const [client, other] = [await RawClient.connect(served.port), await RawClient.connect(served.port)];
  client.headers(HELD, request(SILENT));
  await client.ping();
  served.streams[0]?.read({ data: () => served.server.destroy(), ended: () => assert.fail('read on') });
  const data = frame(FRAME.data, 0, HELD, Buffer.from('x'));
  const headers = frame(FRAME.headers, FLAG_END_HEADERS, HELD + 2, block(request(SILENT)));
  client.send(Buffer.concat([data, frame(FRAME.data, FLAG_END_STREAM, HELD, Buffer.from('y')), headers]));
  await Promise.all([client.untilEnded(), other.untilEnded()]);
  await served.server.drain();
  assert.deepEqual([served.streams.length, served.faults], [1, []]);
});
