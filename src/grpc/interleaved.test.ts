/**
 * Plain connections that speak by turns: all of them are read into the same memory (shared-reads.ts), so whatever one has left unfinished
 * is written over by the next. Each is cut at another byte, and each is answered as if it had been alone.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, FRAME, frame, PREFACE, settingsFrame } from './frames.ts';
import { block, message, RawClient, request } from './testing/raw-client.ts';
import { ECHO, MIRROR, SILENT, startServer, type TestServer } from './testing/server.ts';
import type { StreamCall } from './types.ts';

const [MIRRORED, ECHOED, HELD] = [1, 3, 5];

/** Of equal length for all. */
function nameOf(index: number): string {
  return `client-${String(index).padStart(4, '0')}`;
}

/** All kinds of frames that bring something which is needed later; the server's settings are not waited for. */
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

/** What was held of the stream. */
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

async function server(t: TestContext): Promise<TestServer> {
  const started = await startServer();
  t.after(() => started.server.destroy());
  return started;
}

test('what one connection has not finished is not touched by what others say', async (t) => {
  const served = await server(t);
  const names = Array.from(conversation(nameOf(0)), (_, index) => nameOf(index));
  const all = await Promise.all(names.map(async (who) => ({ who, client: await RawClient.open(served.port) })));
  for (const [cut, { who, client }] of all.entries()) client.send(conversation(who).subarray(0, cut));
  // Whoever comes last is heard last: all that was said before has been read.
  const last = await RawClient.connect(served.port);
  await last.ping();
  for (const [cut, { who, client }] of all.entries()) client.send(conversation(who).subarray(cut));
  for (const { who, client } of all) await check(client, who);
  checkStreams(served, names);
  assert.deepEqual([...served.refused, ...served.faults], []);
  for (const client of [last, ...all.map((one) => one.client)]) client.close();
});

test('a connection that is spoken to byte by byte, by turns with another', async (t) => {
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
