/** Requests read from a stream that is cut anywhere, against the same messages decoded whole. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { CtlError } from '../core/errors.ts';
import { DELTA_LISTS, type DeltaRequest, decodeDeltaRequest, decodeSotwRequest, SOTW_LISTS } from './codec.ts';
import { nameSetOf } from './name-set.ts';
import { RequestReader } from './request-reader.ts';
import { encodeDeltaRequest, encodeSotwRequest } from './testing.ts';

const typeUrl = 'type.googleapis.com/x';
const MAX_BYTES = 1024 * 1024;

function frame(message: Buffer, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Cuts bytes at offsets that `steps` give in turn. */
function cut(bytes: Buffer, steps: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const end = Math.min(bytes.length, at + (steps[turn % steps.length] ?? 1));
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

interface Reading {
  readonly requests: DeltaRequest[];
  readonly reader: RequestReader;
  /** Bytes that were not recognised, by message. */
  readonly unknown: number[];
  readonly refused: CtlError[];
}

function reading(maxBytes = MAX_BYTES): Reading {
  const [requests, unknown, refused]: [DeltaRequest[], number[], CtlError[]] = [[], [], []];
  const sink = {
    message(bytes: Buffer, known: Parameters<typeof decodeDeltaRequest>[1]) {
      unknown.push(bytes.length);
      requests.push(decodeDeltaRequest(bytes, known));
    },
    refused: (error: CtlError) => void refused.push(error),
  };
  return { requests, unknown, refused, reader: new RequestReader(sink, DELTA_LISTS, maxBytes) };
}

function plain(request: DeltaRequest): unknown {
  return {
    ...request,
    subscribe: [...request.subscribe.names].sort(),
    unsubscribe: [...request.unsubscribe.names].sort(),
    initialVersions: [...request.initialVersions].sort(),
    node: request.node?.toString('hex'),
  };
}

const hosts = Array.from({ length: 60 }, (_, index) => `outbound|80||service-${index}.default.svc.cluster.local`);

/** Lists that begin alike: some of the hosts, some of them others of the same length, one more behind them, in another order. */
const list = fc
  .tuple(fc.integer({ min: 0, max: 60 }), fc.subarray([3, 4, 20, 21, 59]), fc.boolean(), fc.boolean())
  .map(([count, others, more, backwards]) => {
    const some = hosts.slice(0, count);
    for (const index of others) if (index < count) some[index] = hosts[index]?.replace('service', 'another') ?? '';
    if (more) some.push('one more');
    return backwards ? some.reverse() : some;
  });

const request = fc.record({
  subscribe: list,
  unsubscribe: list,
  versions: list,
  nonce: fc.string({ maxLength: 20 }),
  node: fc.option(fc.integer({ min: 1, max: 3000 })),
});

const message = fc.oneof(
  request.map(({ subscribe, unsubscribe, versions, nonce, node }) =>
    encodeDeltaRequest({
      typeUrl,
      subscribe,
      unsubscribe,
      nonce,
      initial: new Map(versions.map((name) => [name, 'v'])),
      ...(node === null ? {} : { node: Buffer.alloc(node, 0x0a) }),
    }),
  ),
  // Fields in several places.
  fc
    .tuple(list, list)
    .map(([a, b]) => Buffer.concat([a, b, a].map((subscribe) => encodeDeltaRequest({ typeUrl, subscribe })))),
  fc.constant(Buffer.alloc(0)),
);

describe('requests of a stream', () => {
  it('are the same however the bytes are cut, and whatever was seen before', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 6000 })), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(
        fc.array(message, { minLength: 1, maxLength: 6 }),
        steps,
        fc.boolean(),
        (messages, sizes, pausing) => {
          const { reader, requests, refused } = reading();
          for (const piece of cut(Buffer.concat(messages.map((one) => frame(one))), sizes)) {
            if (pausing) reader.pause();
            reader.take(piece);
            if (pausing) reader.resume();
          }
          assert.deepEqual(refused, []);
          assert.deepEqual(
            requests.map(plain),
            messages.map((one) => plain(decodeDeltaRequest(one))),
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  it('do not keep the bytes of lists that are known', () => {
    const names = Array.from({ length: 2000 }, (_, index) => `outbound|80||large-${index}.default.svc.cluster.local`);
    const versions = new Map(names.map((name) => [name, '0123456789abcdef']));
    const bytes = encodeDeltaRequest({ typeUrl, nonce: 'n', subscribe: names, initial: versions });
    const { reader, requests, unknown } = reading();
    for (let round = 0; round < 2; round++) for (const piece of cut(frame(bytes), [16_384])) reader.take(piece);
    assert.equal(requests[1]?.subscribe, nameSetOf(names));
    assert.equal(requests[1]?.initialVersions, requests[0]?.initialVersions);
    assert.equal(requests[1]?.initialVersions.size, 2000);
    assert.equal(requests[1]?.responseNonce, 'n');
    assert.equal(unknown[0], bytes.length);
    assert.ok((unknown[1] ?? 0) < 200, `${unknown[1]} bytes`);
  });

  it('find the longer of two lists that begin alike, and the shorter', () => {
    const shorter = Array.from({ length: 500 }, (_, index) => `outbound|81||alike-${index}.default.svc.cluster.local`);
    const longer = [...shorter, 'outbound|81||and-one-more.default.svc.cluster.local'];
    const sizes: number[] = [];
    const sets: unknown[] = [];
    const reader = new RequestReader(
      {
        message(bytes, known) {
          sizes.push(bytes.length);
          sets.push(decodeSotwRequest(bytes, known).names);
        },
        refused: assert.fail,
      },
      SOTW_LISTS,
      MAX_BYTES,
    );
    for (const names of [shorter, longer, shorter, longer])
      for (const piece of cut(frame(encodeSotwRequest({ typeUrl, names, nonce: 'n'.repeat(99) })), [5000]))
        reader.take(piece);
    assert.deepEqual(sets, [shorter, longer, shorter, longer].map(nameSetOf));
    assert.ok(Math.max(...sizes.slice(2)) < 300, sizes.join());
  });

  it('are not handed on while reading is paused, not even those that have arrived', () => {
    const nonces = ['a', 'b', 'c'];
    const requests: string[] = [];
    const reader: RequestReader = new RequestReader(
      {
        message(bytes) {
          requests.push(decodeDeltaRequest(bytes).responseNonce);
          reader.pause();
        },
        refused: assert.fail,
      },
      DELTA_LISTS,
      MAX_BYTES,
    );
    reader.take(Buffer.concat(nonces.map((nonce) => frame(encodeDeltaRequest({ typeUrl, nonce })))));
    assert.deepEqual(requests, ['a']);
    reader.take(frame(encodeDeltaRequest({ typeUrl, nonce: 'd' })));
    reader.resume();
    assert.deepEqual(requests, ['a', 'b']);
    for (let round = 0; round < 3; round++) reader.resume();
    assert.deepEqual(requests, ['a', 'b', 'c', 'd']);
  });

  it('may be as large as the limit; a larger one is refused as soon as its length is known, and nothing behind it is read', () => {
    const { reader, requests, refused } = reading(100);
    const fits = encodeDeltaRequest({
      typeUrl,
      nonce: 'x'.repeat(100 - encodeDeltaRequest({ typeUrl, nonce: '' }).length - 2),
    });
    assert.equal(fits.length, 100);
    reader.take(frame(fits));
    reader.take(frame(Buffer.alloc(101)).subarray(0, 5));
    assert.equal(refused[0]?.code, 'resource_exhausted');
    assert.match(refused[0]?.message ?? '', /larger than max \(101 vs 100\)/);
    reader.take(Buffer.concat([Buffer.alloc(101), frame(fits)]));
    assert.deepEqual([requests.length, refused.length], [1, 1]);
  });

  it('that are compressed without an encoding are refused', () => {
    const { reader, requests, refused } = reading();
    reader.take(frame(encodeDeltaRequest({ typeUrl }), 1));
    assert.deepEqual([requests.length, refused.length], [0, 1]);
    assert.match(refused[0]?.message ?? '', /compressed/);
  });
});
