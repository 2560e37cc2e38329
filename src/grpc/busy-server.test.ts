/**
 * A server that was busy for longer than its timeouts: what its clients sent meanwhile counts,
 * although it is read afterwards. The clients run in a thread of their own, so that they are not blocked.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { FLAG_END_HEADERS, FRAME, frame, PREFACE, SETTING, settingsFrame } from './frames/frames.ts';
import { block, number, request } from './testing/raw-client.ts';
import { SILENT, startServer, type TestServer } from './testing/server.ts';

/** Sends the given bytes, answers pings after a while, and reports the end of its connection. */
const CLIENT = `
  const { connect } = require('node:net');
  const { parentPort, workerData: { port, begin, answersAfterMs } } = require('node:worker_threads');
  const socket = connect(port, '127.0.0.1', () => socket.write(begin));
  socket.on('error', () => {});
  socket.on('close', () => parentPort.postMessage('closed'));
  let rest = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (;;) {
      const end = 9 + (rest.length < 9 ? Infinity : rest.readUIntBE(0, 3));
      if (end > rest.length) return;
      const frame = Buffer.from(rest.subarray(0, end));
      rest = rest.subarray(end);
      if (frame[3] !== 6 || frame[4] !== 0) continue;
      parentPort.postMessage('pinged');
      frame[4] = 1;
      setTimeout(() => socket.write(frame), answersAfterMs);
    }
  });
`;

const ANSWERS_AFTER_MS = 50;
const BUSY_MS = 1500;
/** Enough also for a client that is not scheduled at once. */
const PATIENCE_MS = 1000;
const ROUNDS = 3;

/** Blocks the thread for this time. */
function beBusy(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A client with one call and the largest windows. */
async function start(t: TestContext, server: TestServer): Promise<{ closed: boolean; pinged: () => void }> {
  t.after(() => server.server.destroy());
  const begin = Buffer.concat([
    PREFACE,
    settingsFrame([[SETTING.initialWindowSize, 2 ** 30]]),
    frame(FRAME.windowUpdate, 0, 0, number(2 ** 30)),
    frame(FRAME.headers, FLAG_END_HEADERS, 1, block(request(SILENT))),
  ]);
  const worker = new Worker(CLIENT, {
    eval: true,
    workerData: { port: server.port, begin, answersAfterMs: ANSWERS_AFTER_MS },
  });
  t.after(() => worker.terminate());
  const state = { closed: false, pinged: () => {} };
  worker.on('message', (message) => {
    if (message === 'closed') state.closed = true;
    state.pinged();
  });
  await once(worker, 'online');
  while (server.streams.length === 0) await pause(5);
  return state;
}

test('pings that were answered in time do not count as unanswered', async (t) => {
  const server = await startServer({ keepaliveIntervalMs: 20, keepaliveTimeoutMs: PATIENCE_MS });
  const client = await start(t, server);
  for (let round = 0; round < ROUNDS && !client.closed; round++) {
    // A ping was sent, and its answer arrives meanwhile.
    await new Promise<void>((resolve) => {
      client.pinged = resolve;
    });
    beBusy();
  }
  await pause(50);
  assert.equal(client.closed, false);
  assert.equal(server.streams[0]?.closed, false);
});
