/** The services of the policy component on a real server: records that are not taken harm neither checks nor memory. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { FRAME } from '../../grpc/frames/frames.ts';
import { message, RawClient, request } from '../../grpc/testing/raw-client.ts';
import { startServer } from '../../grpc/testing/server.ts';
import type { CallerRecord } from '../../policy/index.ts';
import { PolicyCallers } from './callers.ts';
import { createPolicyServices } from './services.ts';

const CHECK = '/envoy.service.auth.v3.Authorization/Check';
const RECORDS = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs';
const CALLER = { 'mesh-policy-namespace': 'shop' };
const MIB = 1024 * 1024;

interface Running {
  readonly client: RawClient;
  /** Bytes of each message that was handed over. */
  readonly recorded: number[];
  readonly dropped: () => number;
  /** Sends a message on a stream of records in frames of the largest size. */
  send(stream: number, bytes: number): Promise<void>;
  /** Ends the records in progress. */
  release(): void;
}

/** Stand-in for the thread: records stay in progress until the test releases them. */
async function start(context: TestContext): Promise<Running> {
  const [recorded, waiting]: [number[], (() => void)[]] = [[], []];
  let dropped = 0;
  const time = { monotonic: () => 0, wall: () => 0 };
  const services = createPolicyServices({
    callers: new PolicyCallers({ authenticate: () => assert.fail('without TLS') }, time),
    check: async (_: CallerRecord, bytes) => bytes,
    record: (_, { length }) => {
      recorded.push(length);
      return new Promise((resolve) => waiting.push(resolve));
    },
    dropped: () => void dropped++,
    refused: (peer, error) => assert.fail(`${peer}: ${error.message}`),
  });
  const { server, port } = await startServer({ services: [services], maxStreams: 1_000 });
  context.after(() => server.destroy());
  const client = await RawClient.connect(port);
  context.after(() => client.close());
  return {
    client,
    recorded,
    dropped: () => dropped,
    release: () => {
      for (const resolve of waiting.splice(0)) resolve();
    },
    async send(stream, bytes) {
      const all = message(Buffer.alloc(bytes));
      for (let at = 0; at < all.length; at += 16_384) {
        client.frame(FRAME.data, 0, stream, all.subarray(at, at + 16_384));
        // The server has taken it, and its window is open again.
        if (at % (8 * 16_384) === 0) await client.ping();
      }
    },
  };
}

const isChecked = async (client: RawClient, stream: number): Promise<void> => {
  client.headers(stream, request(CHECK, CALLER));
  client.frame(FRAME.data, 1, stream, message('decide'));
  assert.equal(await client.statusOf(stream), 0);
};

test('while a handler takes no records, checks on the same connection are decided', async (t) => {
  const { client, recorded, dropped, send, release } = await start(t);
  client.headers(1, request(RECORDS, CALLER));
  for (let count = 0; count < 20; count++) await send(1, 64 * 1024);
  await isChecked(client, 3);
  await waitUntil(() => recorded.length + dropped() === 20);
  assert.deepEqual([recorded.length, dropped()], [4, 16]);
  release();
  await client.ping();
  await send(1, 10);
  await waitUntil(() => recorded.length === 5);
  assert.deepEqual([recorded.at(-1), dropped()], [10, 16]);
});

test('messages of records of one caller have at most half of the memory, and those that end return it', async (t) => {
  const { client, recorded, dropped, send, release } = await start(t);
  const streams = Array.from({ length: 20 }, (_, at) => 2 * at + 1);
  for (const stream of streams) client.headers(stream, request(RECORDS, CALLER));
  for (const stream of streams) {
    await send(stream, MIB);
    await send(stream, MIB);
  }
  await waitUntil(() => recorded.length + dropped() === 40);
  assert.deepEqual([recorded.length, dropped()], [32, 8]);
  release();
  await client.ping();
  await send(1, MIB);
  await waitUntil(() => recorded.length === 33);
});
