/** Flow control in both directions, with a client that sets its own windows. */
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

/** Bytes that the server's SETTINGS and first WINDOW_UPDATE allow a client. */
const RECEIVE_WINDOW_BYTES = 256 * 1024;

const LARGEST_PAYLOAD_BYTES = 16_384;

function download(client: RawClient, stream: number, bytes: number, chunk = 1000): void {
  client.headers(stream, request(DOWNLOAD, { 'x-bytes': String(bytes), 'x-chunk': String(chunk) }), FLAG_END_STREAM);
}

function widen(client: RawClient, stream: number, bytes: number): void {
  client.frame(FRAME.windowUpdate, 0, stream, number(bytes));
}

/** The stream was sent this many bytes and no more: a ping after them is answered. */
async function getsExactly(client: RawClient, stream: number, bytes: number): Promise<void> {
  await client.dataBytes(stream, bytes);
  await client.ping();
  assert.equal(client.dataOf(stream).length, bytes);
}

/** Sends this much DATA in frames of the largest size. */
function sendData(client: RawClient, stream: number, bytes: number): void {
  for (let left = bytes; left > 0; left -= LARGEST_PAYLOAD_BYTES)
    client.frame(FRAME.data, 0, stream, Buffer.alloc(Math.min(left, LARGEST_PAYLOAD_BYTES)));
}

test("data is sent up to the connection's window, and the rest when it grows", async () => {
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

test("data is sent up to the stream's window, while other streams continue", async () => {
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

test('a window of one byte at a time lets everything pass in the end', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 0]]);
  download(client, 1, 300, 7);
  await getsExactly(client, 1, 0);
  for (let bytes = 0; bytes < 300; bytes++) widen(client, 1, 1);
  assert.equal(await client.statusOf(1), 0);
  assert.deepEqual(client.dataOf(1), downloadContent(300));
  client.close();
});

test('an empty response needs no window', async () => {
  const client = await RawClient.connect(server.port, [[SETTING.initialWindowSize, 0]]);
  download(client, 1, 0);
  assert.equal(await client.statusOf(1), 0);
  client.close();
});

test('SETTINGS may make a window negative, which has to grow above 0 first', async () => {
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

test('the last of several sizes in one SETTINGS counts, also for new streams', async () => {
  const client = await RawClient.connect(server.port, [
    [SETTING.initialWindowSize, 0],
    [SETTING.initialWindowSize, 10],
  ]);
  download(client, 1, 100);
  await getsExactly(client, 1, 10);
  client.close();
});

test('frames have at most the smallest maximum, whatever the client allows', async () => {
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

test('many large responses take turns and are complete', async () => {
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

test('the window of an upload is returned as it is read', async () => {
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

test('data beyond the window of an unread stream ends the stream or its connection', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  sendData(client, 1, RECEIVE_WINDOW_BYTES + 1);
  assert.equal(await client.goawayCode(), ERROR.flowControl);
  await client.untilEnded();
});

test("unread bytes are returned to the connection's window when their stream ends", async () => {
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

test("data of a refused stream is returned to the connection's window", async () => {
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

test('padding counts against the windows and is returned', async () => {
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

test('a paused call is given the data and its end when it resumes, in order', async () => {
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

test('none of this was an internal error', () => assert.deepEqual(server.faults, []));
