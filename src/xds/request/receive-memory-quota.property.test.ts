/**
 * Streams that compete for the quota and do anything meanwhile: what a client sends is read to the end, in order,
 * unless the stream ends; no request waits forever; and in the end the whole quota is free.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from '../../core/testing/properties.ts';
import { prefixed } from '../../grpc/index.ts';
import { createTransport, type Transport } from '../server/transport.ts';
import { FakeCall } from '../testing/call.ts';
import { encodeSotwRequest } from '../testing/content.ts';
import { asError, SOTW_REQUESTS } from '../testing/protocols.ts';
import { ReceiveMemoryQuota } from './receive-memory-quota.ts';

/** Sixteen times this is the quota, which has memory for few requests at a time. */
const QUOTA_BYTES = 16_384;
const LARGE_BYTES = 90_000;
/** Bytes of a request that arrive at a time when streams send in turn. */
const PIECE_BYTES = 30_000;
const MAX_BYTES = 1024 * 1024;
const ADDRESSES = ['10.0.0.1', '10.0.0.2', 'fd00::1', 'fd00::2'];
const STREAMS = 8;

/** Turns of the event loop after which every waiting request is granted its reservation, if none is kept. */
const MANY_TURNS = 100;

interface Client {
  readonly call: FakeCall;
  readonly transport: Transport;
  readonly bytes: Buffer;
  readonly count: number;
  readonly got: string[];
  sent: number;
}

type Action = (world: World, client: Client) => void | Promise<void>;

class World {
  readonly clients: readonly Client[];
  readonly quota: ReceiveMemoryQuota;
  readonly #timers = new Set<() => void>();

  constructor(sizes: readonly (readonly number[])[]) {
    this.quota = new ReceiveMemoryQuota({
      maxRequestBytes: QUOTA_BYTES,
      later: (_ms, run) => {
        this.#timers.add(run);
        return () => this.#timers.delete(run);
      },
    });
    this.clients = sizes.map((ofOne, index) => this.#client(ofOne, ADDRESSES[index % ADDRESSES.length] ?? ''));
  }

  #client(sizes: readonly number[], address: string): Client {
    const call = new FakeCall(address);
    const transport = createTransport(call, { maxReceiveBytes: MAX_BYTES, quota: this.quota.of(address) });
    const got: string[] = [];
    transport.read(SOTW_REQUESTS, {
      message: ({ responseNonce }) => void got.push(responseNonce),
      refused: (error) => transport.fail(asError(error)),
      ended: () => transport.end(),
    });
    const requests = sizes.map((size, index) =>
      prefixed(encodeSotwRequest({ typeUrl: 'type.googleapis.com/x', nonce: String(index), node: Buffer.alloc(size) })),
    );
    return { call, transport, bytes: Buffer.concat(requests), count: sizes.length, got, sent: 0 };
  }

  passTime(): void {
    const elapsed = [...this.#timers];
    this.#timers.clear();
    for (const run of elapsed) run();
  }

  /** Closes the calls that the server has ended. */
  settle(): void {
    for (const { call } of this.clients) if (!call.closed && call.done.length > 1) call.close();
  }

  get timers(): number {
    return this.#timers.size;
  }
}

function send(client: Client, bytes: number): void {
  if (client.call.closed) return;
  client.call.feed(client.bytes.subarray(client.sent, client.sent + bytes));
  client.sent = Math.min(client.bytes.length, client.sent + bytes);
}

const action: fc.Arbitrary<readonly [name: string, Action]> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .integer({ min: 1, max: 100_000 })
      .map((bytes) => [`send ${bytes}`, (_world: World, client: Client) => send(client, bytes)] as const),
  },
  ...(
    [
      [2, 'pause', (_world, { transport }) => transport.pause()],
      [3, 'resume', (_world, { transport, call }) => (call.closed ? undefined : transport.resume())],
      [3, 'cancel', (_world, { call }) => (call.closed ? undefined : call.close())],
      [1, 'pass time', (world) => world.passTime()],
      [2, 'turn', () => turn()],
    ] satisfies [number, string, Action][]
  ).map(([weight, name, run]) => ({ weight, arbitrary: fc.constant([name, run] as const) })),
);

describe('the quota for received requests', () => {
  it('is returned in full, and every request that waits for it gets it', async () => {
    const sizes = fc.array(fc.constantFrom(0, 5000, 70_000, LARGE_BYTES, LARGE_BYTES), { minLength: 1, maxLength: 4 });
    const property = fc.asyncProperty(
      fc.array(sizes, { minLength: STREAMS, maxLength: STREAMS }),
      fc.array(fc.tuple(fc.nat({ max: STREAMS - 1 }), action), { maxLength: 60 }),
      async (sizesOfAll, actions) => {
        const world = new World(sizesOfAll);
        for (const [index, [, run]] of actions) {
          const client = world.clients[index];
          if (client !== undefined) await run(world, client);
          world.settle();
        }
        const left = world.clients.filter(({ call }) => !call.closed);
        for (const { transport } of left) transport.resume();
        while (left.some(({ bytes, sent }) => sent < bytes.length))
          for (const client of left) send(client, PIECE_BYTES);
        for (let turns = 0; turns < MANY_TURNS && left.some(({ got, count }) => got.length < count); turns++)
          await turn();
        for (const { got, count, call } of world.clients) {
          const inOrder = Array.from({ length: call.closed ? got.length : count }, (_, index) => String(index));
          assert.deepEqual(got, inOrder);
        }
        for (const { call } of left) call.close();
        assert.equal(world.timers, 0);
        const most = Math.floor(0.8 * 16 * QUOTA_BYTES);
        assert.equal(world.quota.of('10.0.0.9').reserve(most, { granted: () => {}, timedOut: () => {} }).granted, true);
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });
});
