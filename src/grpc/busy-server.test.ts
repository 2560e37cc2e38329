/**
 * A server that was busy for longer than its timeouts: what its clients sent meanwhile counts, although it is read
 * afterwards. The clients run in a thread of their own, so that they are not blocked. The test moves the server's time.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { FLAG_END_HEADERS, FRAME, frame, PREFACE, SETTING, settingsFrame } from './frames/frames.ts';
import { block, number, request } from './testing/raw-client.ts';
import { SILENT, startServer, type TestServer } from './testing/server.ts';

/** Sends the given bytes, answers pings, and counts its answers once the kernel has them. Reports pings and its end. */
const CLIENT = `
  const { connect } = require('node:net');
  const { parentPort, workerData: { port, begin, answers } } = require('node:worker_threads');
  const socket = connect(port, '127.0.0.1', () => socket.write(begin));
  socket.on('error', () => {});
  socket.on('close', () => parentPort.postMessage('closed'));
  const answered = () => {
    Atomics.add(answers, 0, 1);
    Atomics.notify(answers, 0);
  };
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
      // The server is busy before it is answered.
      Atomics.wait(answers, 1, 0);
      Atomics.store(answers, 1, 0);
      socket.write(frame, answered);
    }
  });
`;

const INTERVAL_MS = 20;
/** Much more than passes while the test waits for a ping. */
const PATIENCE_MS = 3_600_000;
const ROUNDS = 3;

interface Client {
  closed: boolean;
  /** Called for each ping, and at the end. */
  notified: () => void;
  /** Blocks this thread until the client has answered a ping. */
  letAnswer(): void;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A client with one call and the largest windows. */
async function start(t: TestContext, server: TestServer): Promise<Client> {
  t.after(() => server.server.destroy());
  const begin = Buffer.concat([
    PREFACE,
    settingsFrame([[SETTING.initialWindowSize, 2 ** 30]]),
    frame(FRAME.windowUpdate, 0, 0, number(2 ** 30)),
    frame(FRAME.headers, FLAG_END_HEADERS, 1, block(request(SILENT))),
  ]);
  /** The number of answers, and whether the next one may be sent. */
  const answers = new Int32Array(new SharedArrayBuffer(8));
  const worker = new Worker(CLIENT, { eval: true, workerData: { port: server.port, begin, answers } });
  t.after(() => worker.terminate());
  const client: Client = {
    closed: false,
    notified: () => {},
    letAnswer() {
      const before = Atomics.load(answers, 0);
      Atomics.store(answers, 1, 1);
      Atomics.notify(answers, 1);
      Atomics.wait(answers, 0, before);
    },
  };
  worker.on('message', (message) => {
    if (message === 'closed') client.closed = true;
    client.notified();
  });
  await once(worker, 'online');
  while (server.streams.length === 0) await pause(5);
  return client;
}

test('pings that were answered in time do not count as unanswered', async (t) => {
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  const server = await startServer({ keepaliveIntervalMs: INTERVAL_MS, keepaliveTimeoutMs: PATIENCE_MS });
  const client = await start(t, server);
  const nextPing = async (): Promise<void> => {
    let notified = false;
    client.notified = () => {
      notified = true;
    };
    while (!notified && !client.closed) {
      now += INTERVAL_MS + 1;
      await pause(5);
    }
  };
  for (let round = 0; round < ROUNDS; round++) {
    await nextPing();
    if (client.closed) break;
    // The answer arrives while the server is busy.
    client.letAnswer();
    now += PATIENCE_MS + 1;
  }
  await nextPing();
  assert.equal(client.closed, false);
  assert.equal(server.streams[0]?.closed, false);
});
