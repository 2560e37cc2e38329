/** Windows of both directions, seen by a client that says itself how large they are. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DEFAULT_WINDOW_BYTES, ERROR, FLAG_END_STREAM, FRAME, SETTING, settingsFrame } from './frames/frames.ts';
import { number, RawClient, request } from './testing/raw-client.ts';
import { DOWNLOAD, downloadContent, MIRROR, SILENT, startServer, type TestServer, UPLOAD } from './testing/server.ts';

let server: TestServer;

before(async () => {
  server = await startServer({ maxStreams: 1000 });
});

after(() => server.server.destroy());

/** What our SETTINGS and first WINDOW_UPDATE let a client send. */
const RECEIVE_WINDOW_BYTES = 256 * 1024;

const LARGEST_PAYLOAD_BYTES = 16_384;

function download(client: RawClient, stream: number, bytes: number, chunk = 1000): void {
  client.headers(stream, request(DOWNLOAD, { 'x-bytes': String(bytes), 'x-chunk': String(chunk) }), FLAG_END_STREAM);
}

function widen(client: RawClient, stream: number, bytes: number): void {
  client.frame(FRAME.windowUpdate, 0, stream, number(bytes));
}

/** The stream has got so many bytes and gets no more, as a ping shows that is answered behind them. */
async function getsExactly(client: RawClient, stream: number, bytes: number): Promise<void> {
  await client.dataBytes(stream, bytes);
  await client.ping();
  assert.equal(client.dataOf(stream).length, bytes);
}

/** Sends as much DATA as asked for, in frames of the largest size. */
function sendData(client: RawClient, stream: number, bytes: number): void {
  for (let left = bytes; left > 0; left -= LARGEST_PAYLOAD_BYTES)
    client.frame(FRAME.data, 0, stream, Buffer.alloc(Math.min(left, LARGEST_PAYLOAD_BYTES)));
}

test("no more is sent than the connection's window lets, and the rest when it lets more", async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 2 ** 30]]);
  download(client, 1, 200_000);
  await getsExactly(client, 1, DEFAULT_WINDOW_BYTES);
  widen(client, 0, 1);
  await getsExactly(client, 1, DEFAULT_WINDOW_BYTES + 1);
  widen(client, 0, 2 ** 30);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(200_000));
  client.close();
});

test("no more is sent than the stream's window lets, while others go on", async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 100]]);
  widen(client, 0, 2 ** 30);
  download(client, 1, 1000);
  await getsExactly(client, 1, 100);
  await client.echo(3);
  widen(client, 1, 900);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(1000));
  client.close();
});

test('a window of one byte at a time lets all through in the end', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 0]]);
  download(client, 1, 300, 7);
  await getsExactly(client, 1, 0);
  for (let bytes = 0; bytes < 300; bytes++) widen(client, 1, 1);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(300));
  client.close();
});

test('an answer of nothing needs no window', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 0]]);
  download(client, 1, 0);
  assert.equal(await client.statusOf(1), 0);
  client.close();
});

test('SETTINGS may take a window below nothing, which has to be filled first', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 1000]]);
  download(client, 1, 2000);
  await getsExactly(client, 1, 1000);
  client.send(settingsFrame([[SETTING.initialWindowSize, 0]]));
  widen(client, 1, 999);
  await getsExactly(client, 1, 1000);
  widen(client, 1, 2);
  await getsExactly(client, 1, 1001);
  client.send(settingsFrame([[SETTING.initialWindowSize, 500]]));
  await getsExactly(client, 1, 1501);
  widen(client, 1, 499);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(2000));
  client.close();
});

test('the last of several sizes in one SETTINGS counts, also for streams to come', async () => {
  const client = await RawClient.connect(server.port, [
    [SETTING.initialWindowSize, 0],
    [SETTING.initialWindowSize, 10],
  ]);
  download(client, 1, 100);
  await getsExactly(client, 1, 10);
  client.close();
});

test('frames are never larger than any client takes, whatever it would take', async () => {
  const client = await RawClient.connect(server.port, [
    [SETTING.initialWindowSize, 2 ** 30],
    [SETTING.maxFrameSize, 2 ** 20],
  ]);
  widen(client, 0, 2 ** 30);
  download(client, 1, 500_000, 100_000);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(500_000));
  assert.ok(client.frames.every(({ payload }) => payload.length <= LARGEST_PAYLOAD_BYTES));
  client.close();
});

test('many large answers at once take turns and come whole', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 2 ** 30]]);
  widen(client, 0, 2 ** 30);
  const streams = Array.from({ length: 20 }, (_, index) => index * 2 + 1);
  client.socket.cork();
  for (const stream of streams) download(client, stream, 1_000_000, 50_000 + stream);
  client.socket.uncork();
  const content = downloadContent(1_000_000);
  for (const stream of streams) {
    assert.equal(await client.statusOf(stream), 0);
    assert.ok(client.dataOf(stream).equals(content));
  }
  const ended = client.frames.findIndex(({ flags, stream }) => stream === 1 && (flags & FLAG_END_STREAM) !== 0);
  assert.ok(client.frames.slice(0, ended).some(({ type, stream }) => type === FRAME.data && stream === 39));
  client.close();
});

test('an upload gets its window back as it is read', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(UPLOAD));
  const rounds = 10;
  for (let round = 0; round < rounds; round++) {
    sendData(client, 1, RECEIVE_WINDOW_BYTES / 2);
    await client.next('windowUpdate', ({ stream }) => stream === 1);
  }
  client.frame(FRAME.data, FLAG_END_STREAM, 1);
  assert.equal(await client.statusOf(1), 0);
  assert.equal(client.dataOf(1).toString(), String((rounds * RECEIVE_WINDOW_BYTES) / 2));
  client.close();
});

test('more than the window of a stream that nobody reads ends the stream, or its connection', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  sendData(client, 1, RECEIVE_WINDOW_BYTES + 1);
  assert.equal(await client.goawayCode(), ERROR.flowControl);
  await client.untilEnded();
});

test('what nobody has read is given back to the connection when its stream ends', async () => {
  const client = await RawClient.connect(server.port);
  for (let stream = 1; stream < 20; stream += 2) {
    client.headers(stream, request(SILENT));
    sendData(client, stream, RECEIVE_WINDOW_BYTES / 2);
    client.frame(FRAME.rstStream, 0, stream, number(ERROR.cancel));
    await client.next('windowUpdate', (update) => update.stream === 0);
  }
  await client.echo(101);
  client.close();
});

test('what comes on a stream that was refused is given back to the connection', async () => {
  const client = await RawClient.connect(server.port);
  for (let stream = 1; stream < 20; stream += 2) {
    client.headers(stream, request('/no/such'));
    assert.equal(await client.statusOf(stream), 12);
    sendData(client, stream, RECEIVE_WINDOW_BYTES / 2);
    await client.next('windowUpdate', (update) => update.stream === 0);
  }
  await client.echo(101);
  client.close();
});

test('padding counts and is given back', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(UPLOAD));
  const padded = Buffer.alloc(LARGEST_PAYLOAD_BYTES);
  padded[0] = 255;
  for (let frames = 0; frames < 64; frames++) {
    client.frame(FRAME.data, 0x8, 1, padded);
    if (frames % 8 === 7) await client.next('windowUpdate', ({ stream }) => stream === 1);
  }
  client.frame(FRAME.data, FLAG_END_STREAM, 1);
  assert.equal(await client.statusOf(1), 0);
  assert.equal(client.dataOf(1).toString(), String(64 * (LARGEST_PAYLOAD_BYTES - 256)));
  client.close();
});

test('a call that pauses gets what came meanwhile when it goes on, in order and with its end', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  for (let byte = 0; byte < 200; byte++) client.frame(FRAME.data, 0, 1, Buffer.from([byte]));
  client.frame(FRAME.data, FLAG_END_STREAM, 1, Buffer.from([200]));
  await client.ping();
  const call = server.streams.at(-1);
  assert.ok(call !== undefined);
  const got: number[] = [];
  const ended = new Promise<void>((resolve) => call.read({ data: (bytes) => got.push(...bytes), ended: resolve }));
  await ended;
  assert.deepEqual(
    got,
    Array.from({ length: 201 }, (_, index) => index),
  );
  client.close();
});

test('both directions of a stream at once', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 2 ** 30]]);
  widen(client, 0, 2 ** 30);
  client.headers(1, request(MIRROR));
  const content = downloadContent(1_000_000);
  const half = RECEIVE_WINDOW_BYTES / 2;
  for (let at = 0; at < content.length; at += half) {
    const end = Math.min(content.length, at + half);
    for (let from = at; from < end; from += LARGEST_PAYLOAD_BYTES)
      client.frame(FRAME.data, 0, 1, content.subarray(from, Math.min(end, from + LARGEST_PAYLOAD_BYTES)));
    if (end - at === half) await client.next('windowUpdate', ({ stream }) => stream === 1);
  }
  client.frame(FRAME.data, FLAG_END_STREAM, 1);
  assert.equal(await client.statusOf(1), 0);
  assert.ok(client.dataOf(1).equals(content));
  client.close();
});

test('nothing of all this was a fault of the server', () => assert.deepEqual(server.faults, []));
