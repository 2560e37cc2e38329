/**
 * Requests read from a stream that is cut anywhere, against the same messages decoded whole where memos are switched
 * off.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { encodeFields, WireReader } from '../../protobuf/wire/index.ts';
import type { DeltaRequest, SotwRequest } from '../protocol/index.ts';
import { encodeDeltaRequest, encodeSotwRequest } from '../testing/content.ts';
import { DELTA_REQUESTS, DELTA_UNSHARED_REQUESTS, SOTW_REQUESTS } from '../testing/protocols.ts';
import { cut, frame, give, MAX_BYTES, reading, typeUrl } from '../testing/reading.ts';
import { type RequestFormat, RequestReader } from './request-reader.ts';

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

/**
 * Lists that begin alike: some of the hosts, some replaced by others of the same length, one more at the end, or in
 * another order.
 */
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

/** The result of decoding: the request, or the error. */
function outcome(decode: () => DeltaRequest): unknown {
  try {
    return plain(decode());
  } catch (error) {
    return String(error);
  }
}

/** A stream whose messages may be malformed. */
function broken(): { readonly reader: RequestReader<unknown>; readonly results: unknown[] } {
  const results: unknown[] = [];
  const { lists, decode } = DELTA_REQUESTS;
  const format: RequestFormat<unknown> = { lists, decode: (bytes, known) => outcome(() => decode(bytes, known)) };
  const sink = { message: (result: unknown) => void results.push(result), refused: assert.fail };
  return { results, reader: new RequestReader(sink, format, MAX_BYTES) };
}

/** A name as field 3. */
function entry(name: string): Buffer {
  return encodeFields([[3, name]]);
}

/** The entries with a change at a relative offset between 0 and 1. */
function changed(entries: readonly Buffer[], kind: string, place: number): Buffer[] {
  if (entries.length === 0) return [];
  const at = Math.floor(place * entries.length);
  const one = Buffer.from(entries[at] ?? entry('none'));
  if (kind === 'byte') {
    one[one.length - 1] = 0x40 + (at % 64);
    return entries.with(at, one);
  }
  if (kind === 'entry gone') return entries.toSpliced(at, 1);
  if (kind === 'entry more') return entries.toSpliced(place > 0.7 ? entries.length : at, 0, entry(`one more ${place}`));
  if (kind === 'entry twice') return entries.toSpliced(at, 0, one);
  if (kind === 'cut off') return entries.slice(0, Math.max(1, at));
  return kind === 'turned round' ? entries.toReversed() : [...entries];
}

/** A request decoded without known lists. */
function plainlyRead(bytes: Buffer): unknown {
  const reader = new WireReader(bytes);
  const [names, texts] = [new Set<string>(), new Map<number, string>()];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 3) names.add(reader.text(field));
    else texts.set(field.number, reader.text(field));
  return [[...names].sort(), texts.get(1), texts.get(4), texts.get(5)];
}

/** A stream of state of the world requests. */
function sotwStream(): { readonly reader: RequestReader<SotwRequest>; readonly results: unknown[] } {
  const results: unknown[] = [];
  const sink = {
    message({ names, versionInfo, typeUrl, responseNonce }: SotwRequest) {
      results.push([[...names.names].sort(), versionInfo, typeUrl, responseNonce]);
    },
    refused: assert.fail,
  };
  return { results, reader: new RequestReader(sink, SOTW_REQUESTS, MAX_BYTES) };
}

describe('requests of a stream', () => {
  it('are the same however the bytes are cut, and whatever was read before', () => {
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
            give(reader, piece);
            if (pausing) reader.resume();
          }
          assert.deepEqual(refused, []);
          assert.deepEqual(
            requests.map(plain),
            messages.map((one) => plain(DELTA_UNSHARED_REQUESTS.decode(one))),
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  it('are the same when many streams send them at once, whichever is ahead', () => {
    let run = 0;
    const long = fc.record({
      some: list,
      count: fc.integer({ min: 200, max: 500 }),
      at: fc.constantFrom(2, 5, 8, 100, 500),
    });
    const turns = fc.array(fc.tuple(fc.nat({ max: 5 }), fc.integer({ min: 1, max: 5000 })), {
      minLength: 20,
      maxLength: 60,
    });
    fc.assert(
      fc.property(fc.array(long, { minLength: 2, maxLength: 3 }), turns, fc.boolean(), (lists, order, cutShort) => {
        run++;
        // Lists that no earlier run has used, with common beginnings of different length.
        const common = Array.from(
          { length: 500 },
          (_, index) => `outbound|80||run-${run}-${index}.of-usual-length.svc`,
        );
        const [first, second] = [0, 1].map((turn) =>
          Array.from({ length: 6 }, (_, stream) => {
            const { some, count, at } = lists[(stream + turn) % lists.length] ?? { some: [], count: 0, at: 0 };
            const names = common.slice(0, count).toSpliced(at, 0, ...some);
            const initial = new Map(names.map((name) => [name, 'v']));
            return encodeDeltaRequest({ typeUrl, nonce: `${stream}`, subscribe: names, unsubscribe: some, initial });
          }),
        );
        const messages = (first ?? []).map((one, stream) => [
          cutShort && stream === 0 ? one.subarray(0, one.length / 2) : one,
          second?.[stream] ?? one,
        ]);
        const streams = messages.map((both) => ({ ...broken(), left: Buffer.concat(both.map((one) => frame(one))) }));
        const step = (index: number, bytes: number): void => {
          const stream = streams[index];
          if (stream === undefined) return;
          give(stream.reader, stream.left.subarray(0, bytes));
          stream.left = stream.left.subarray(bytes);
        };
        for (const [index, bytes] of order) step(index, bytes);
        for (const [index, { left }] of streams.entries()) step(index, left.length);
        for (const [index, { results }] of streams.entries())
          assert.deepEqual(
            results,
            messages[index]?.map((bytes) => outcome(() => DELTA_UNSHARED_REQUESTS.decode(bytes))),
          );
      }),
      { numRuns: 60 },
    );
  });

  it('are the same when the short ones of several streams arrive in turns, piece by piece', () => {
    const short = fc
      .tuple(fc.subarray(hosts.slice(0, 3)), fc.string({ maxLength: 40 }), fc.nat({ max: 900 }))
      .map(([subscribe, nonce, bytes]) => {
        const node = Buffer.alloc(bytes, 1);
        return encodeDeltaRequest({ typeUrl, subscribe, nonce, node });
      });
    const streams = fc.array(fc.array(short, { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 4 });
    const turns = fc.array(fc.tuple(fc.nat({ max: 3 }), fc.integer({ min: 1, max: 400 })), { maxLength: 40 });
    fc.assert(
      fc.property(streams, turns, (sent, order) => {
        const all = sent.map((messages) => ({
          ...reading(),
          messages,
          left: Buffer.concat(messages.map((one) => frame(one))),
        }));
        const step = (index: number, bytes: number): void => {
          const stream = all[index % all.length];
          if (stream === undefined) return;
          give(stream.reader, stream.left.subarray(0, bytes));
          stream.left = stream.left.subarray(bytes);
        };
        for (const [index, bytes] of order) step(index, bytes);
        for (const [index, { left }] of all.entries()) step(index, left.length);
        for (const { messages, requests } of all)
          assert.deepEqual(
            requests.map(plain),
            messages.map((one) => plain(DELTA_UNSHARED_REQUESTS.decode(one))),
          );
      }),
      { numRuns: 100 },
    );
  });

  it('are never confused with earlier ones, whatever is changed in them', () => {
    let run = 0;
    const change = fc.record({
      kind: fc.constantFrom('as it was', 'byte', 'entry gone', 'entry more', 'entry twice', 'cut off', 'turned round'),
      at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
      from: fc.nat({ max: 3 }),
    });
    const sizes = fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 12 }), fc.boolean(), sizes, (changes, behind, steps) => {
        run++;
        const { reader, results } = sotwStream();
        const sent = [
          Array.from({ length: 450 }, (_, index) => entry(`outbound|80||${run}-${index}.some-namespace.svc`)),
        ];
        const wanted: unknown[] = [];
        for (const { kind, at, from } of [{ kind: 'as it was', at: 0, from: 0 }, ...changes]) {
          const entries = changed(sent[from % sent.length] ?? [], kind, at);
          sent.push(entries);
          const own = encodeSotwRequest({ typeUrl, version: `v${sent.length}`, nonce: `n${sent.length}` });
          const bytes = Buffer.concat(behind ? [...entries, own] : [own, ...entries]);
          wanted.push(plainlyRead(bytes));
          for (const piece of cut(frame(bytes), steps)) give(reader, piece);
        }
        assert.deepEqual(results, wanted);
      }),
      { numRuns: 100 },
    );
  });
});
