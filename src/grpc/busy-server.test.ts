/**
 * A server that was busy with something else for longer than its patience: what its clients did meanwhile counts,
 * although it is only read now. They live in a thread of their own, since they are not busy.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { FLAG_END_HEADERS, FRAME, frame, PREFACE, SETTING, settingsFrame } from './frames/frames.ts';
import { block, number, request } from './testing/raw-client.ts';
import { SILENT, startServer, type TestServer } from './testing/server.ts';

/** Says what it is given, answers pings after a while, and tells when its connection has ended. */
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
/** Long for a client that is not let run at once either. */
const PATIENCE_MS = 1000;
const ROUNDS = 3;

/** Does nothing else for so long. */
function beBusy(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A client with one call and all the room for answers that there can be. */
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

test('pings that were answered in time are not taken for unanswered', async (t) => {
  const server = await startServer({ keepaliveIntervalMs: 20, keepaliveTimeoutMs: PATIENCE_MS });
  const client = await start(t, server);
  for (let round = 0; round < ROUNDS && !client.closed; round++) {
    // A ping is under way, whose answer comes meanwhile.
    await new Promise<void>((resolve) => {
      client.pinged = resolve;
    });
    beBusy();
  }
  await pause(50);
  assert.equal(client.closed, false);
  assert.equal(server.streams[0]?.closed, false);
});
