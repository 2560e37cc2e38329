/** What the reader of a stream's requests keeps, delivers and refuses. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DeltaRequest } from '../protocol/index.ts';
import { encodeDeltaRequest, encodeSotwRequest } from '../testing/content.ts';
import { DELTA_REQUESTS, SHARED, SOTW_REQUESTS, watched } from '../testing/protocols.ts';
import { cut, frame, give, MAX_BYTES, reading, typeUrl } from '../testing/reading.ts';
import { RequestReader } from './request-reader.ts';

describe('requests of a stream', () => {
  it('assemble a list that many streams send at once only once', () => {
    const names = Array.from({ length: 3000 }, (_, index) => `outbound|80||storm-${index}.default.svc.cluster.local`);
    const bytes = encodeDeltaRequest({ typeUrl, nonce: 'n', subscribe: names });
    const streams = Array.from({ length: 10 }, () => reading());
    for (const piece of cut(frame(bytes), [16_384])) for (const { reader } of streams) reader.take(piece);
    for (const { requests, unknown } of streams) {
      assert.equal(requests[0]?.subscribe, SHARED.names.of(names));
      assert.ok((unknown[0] ?? 0) < 200, `${unknown[0]} bytes`);
    }
  });

  it('do not keep the bytes of known lists', () => {
    const names = Array.from({ length: 2000 }, (_, index) => `outbound|80||large-${index}.default.svc.cluster.local`);
    const versions = new Map(names.map((name) => [name, '0123456789abcdef']));
    const bytes = encodeDeltaRequest({ typeUrl, nonce: 'n', subscribe: names, initial: versions });
    const { reader, requests, unknown } = reading();
    for (let round = 0; round < 2; round++) for (const piece of cut(frame(bytes), [16_384])) reader.take(piece);
    assert.equal(requests[1]?.subscribe, SHARED.names.of(names));
    assert.equal(requests[1]?.initialVersions, requests[0]?.initialVersions);
    assert.equal(requests[1]?.initialVersions.size, 2000);
    assert.equal(requests[1]?.responseNonce, 'n');
    assert.ok(Math.max(...unknown) < 200, unknown.join());
  });

  it('find the longer and the shorter of two lists that begin alike', () => {
    const shorter = Array.from({ length: 500 }, (_, index) => `outbound|81||alike-${index}.default.svc.cluster.local`);
    const longer = [...shorter, ...shorter.slice(0, 10).map((name) => name.replace('alike', 'more'))];
    const sizes: number[] = [];
    const sets: unknown[] = [];
    const reader = new RequestReader(
      {
        message: ({ names }) => void sets.push(names),
        refused: assert.fail,
      },
      watched(SOTW_REQUESTS, (bytes) => sizes.push(bytes)),
      MAX_BYTES,
    );
    for (const names of [shorter, longer, shorter, longer])
      for (const piece of cut(frame(encodeSotwRequest({ typeUrl, names, nonce: 'n'.repeat(99) })), [5000]))
        reader.take(piece);
    assert.deepEqual(
      sets,
      [shorter, longer, shorter, longer].map((names) => SHARED.names.of(names)),
    );
    assert.ok(Math.max(...sizes.slice(2)) < 300, sizes.join());
  });

  it('are not delivered while reading is paused, even if they have arrived', () => {
    const nonces = ['a', 'b', 'c'];
    const requests: string[] = [];
    const reader: RequestReader<DeltaRequest> = new RequestReader(
      {
        message({ responseNonce }) {
          requests.push(responseNonce);
          reader.pause();
        },
        refused: assert.fail,
      },
      DELTA_REQUESTS,
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

  it('are assembled while reading is paused, without known lists; after a few, bytes wait unread', () => {
    const names = Array.from({ length: 500 }, (_, index) => `outbound|80||paused-${index}.default.svc.cluster.local`);
    const [learning, { reader, requests, unknown }] = [reading(), reading()];
    give(learning.reader, frame(encodeDeltaRequest({ typeUrl, subscribe: names })));
    reader.pause();
    for (let nonce = 0; nonce < 20; nonce++)
      give(reader, frame(encodeDeltaRequest({ typeUrl, subscribe: names, nonce: `${nonce}` })));
    assert.deepEqual(requests, []);
    reader.resume();
    assert.deepEqual(
      requests.map(({ responseNonce, subscribe }) => [responseNonce, subscribe]),
      Array.from({ length: 20 }, (_, nonce) => [`${nonce}`, SHARED.names.of(names)]),
    );
    assert.ok(Math.max(...unknown) < 100, unknown.join());
  });

  it('may be as large as the limit; a larger one is refused by its length, and nothing after it is read', () => {
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

  it('that cannot be decoded are refused, and nothing after them is read, even if they were read ahead', () => {
    for (const paused of [false, true]) {
      const { reader, requests, refused } = reading();
      if (paused) reader.pause();
      const good = frame(encodeDeltaRequest({ typeUrl, nonce: 'a' }));
      reader.take(Buffer.concat([good, frame(Buffer.from([0x0f])), good]));
      reader.resume();
      assert.deepEqual(
        requests.map(({ responseNonce }) => responseNonce),
        ['a'],
      );
      assert.deepEqual(
        refused.map(({ code }) => code),
        ['invalid_argument'],
      );
    }
  });
});
