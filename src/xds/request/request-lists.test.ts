/** Lists recognized in bytes, against the same lists decoded one by one. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { encodeDeltaRequest, encodeSotwRequest, nested } from '../testing/content.ts';
import { DELTA_REQUESTS, SHARED, SOTW_REQUESTS } from '../testing/protocols.ts';

const typeUrl = 'type.googleapis.com/x';

/** Long enough that lists are looked up by a few of them. */
const wide = Array.from({ length: 40 }, (_, index) => `outbound|80||service-${index}.default.svc.cluster.local`);

const name = fc.oneof(fc.constantFrom(...wide), fc.constantFrom('', 'a', 'ü', '日本'));
const names = fc.array(name, { maxLength: 12 });
const versions = fc.array(fc.tuple(name, fc.constantFrom('1', '2', 'ü')), { maxLength: 12 });

function mapEntry([key, value]: readonly [string, string]): Buffer {
  return nested(
    5,
    encodeFields([
      [1, key],
      [2, value],
    ]),
  );
}

describe('lists of names', () => {
  it('are the set of names in the bytes, in any order, whatever was read before', () => {
    // The sequences of requests follow each other, so that each meets the lists that the ones before it have left.
    const sequence = fc.array(fc.tuple(names, names, fc.boolean()), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(sequence, (requests) => {
        for (const [subscribe, unsubscribe, twice] of requests)
          for (const order of twice ? [subscribe, subscribe.toReversed(), subscribe] : [subscribe]) {
            const delta = DELTA_REQUESTS.decode(encodeDeltaRequest({ typeUrl, subscribe: order, unsubscribe }));
            assert.deepEqual([...delta.subscribe.names].sort(), [...new Set(order)].sort());
            assert.equal(delta.subscribe, SHARED.names.of(subscribe));
            assert.equal(delta.unsubscribe, SHARED.names.of(unsubscribe));
            const sotw = SOTW_REQUESTS.decode(encodeSotwRequest({ typeUrl, names: order, nonce: 'n' }));
            assert.equal(sotw.names, SHARED.names.of(subscribe));
            assert.equal(sotw.responseNonce, 'n');
          }
      }),
    );
  });

  it('are distinguished when they begin alike, have as many names and bytes, or repeat one', () => {
    const ask = (list: readonly string[]) =>
      DELTA_REQUESTS.decode(encodeDeltaRequest({ typeUrl, subscribe: list })).subscribe;
    const known = ask(wide);
    assert.equal(known.size, 40);
    const last = wide[39] ?? '';
    for (const list of [
      wide.slice(0, -1),
      [...wide, 'one more'],
      [...wide.slice(0, -1), last.replace('39', '93')],
      [...wide.slice(0, -1), wide[38] ?? ''],
      wide.toReversed().slice(1),
    ])
      for (let round = 0; round < 2; round++) {
        assert.deepEqual([...ask(list).names].sort(), [...new Set(list)].sort());
        assert.equal(ask(wide), known);
        assert.equal(ask(wide.toReversed()), known);
      }
  });

  it('may be in several places of a message', () => {
    const some = encodeDeltaRequest({ typeUrl, subscribe: wide });
    DELTA_REQUESTS.decode(some);
    const more = encodeDeltaRequest({ typeUrl, subscribe: ['x', ...wide.slice(0, 3)] });
    const { subscribe } = DELTA_REQUESTS.decode(Buffer.concat([some, more, some]));
    assert.equal(subscribe, SHARED.names.of([...wide, 'x']));
    assert.equal(DELTA_REQUESTS.decode(Buffer.concat([more, some])).subscribe, subscribe);
  });

  it('are read when their tags are longer than necessary', () => {
    const entry = (text: string): Buffer =>
      Buffer.concat([Buffer.from([0x9a, 0x80, 0x00, text.length]), Buffer.from(text)]);
    const ask = (list: readonly string[]) => DELTA_REQUESTS.decode(Buffer.concat(list.map(entry))).subscribe;
    const known = ask(wide);
    assert.equal(known, SHARED.names.of(wide));
    assert.equal(ask(wide.toReversed()), known);
    assert.equal(ask(wide), known);
  });

  it('are limited in number even if they are known', () => {
    const half = Array.from({ length: 75_000 }, (_, index) => `n${index}`);
    const once = encodeDeltaRequest({ typeUrl, subscribe: half });
    const { subscribe } = DELTA_REQUESTS.decode(once);
    assert.equal(DELTA_REQUESTS.decode(once).subscribe, subscribe);
    assert.throws(() => DELTA_REQUESTS.decode(Buffer.concat([once, once])), /at most 100000 resources/);
  });
});

describe('initial_resource_versions', () => {
  it('are the map in the bytes, in any order, whatever was read before; the last entry of a name counts', () => {
    fc.assert(
      fc.property(fc.array(versions, { minLength: 1, maxLength: 20 }), (requests) => {
        for (const entries of requests)
          for (const order of [entries, entries.toReversed(), entries]) {
            const wanted = new Map(order);
            const { initialVersions } = DELTA_REQUESTS.decode(Buffer.concat(order.map(mapEntry)));
            assert.deepEqual(initialVersions, wanted);
          }
      }),
    );
  });

  it('are one object for equal content, and another when a single version differs', () => {
    const entries = wide.map((each, index) => [each, `v${index % 10}`] as const);
    const ask = (list: readonly (readonly [string, string])[]) =>
      DELTA_REQUESTS.decode(encodeDeltaRequest({ typeUrl, initial: new Map(list) })).initialVersions;
    const known = ask(entries);
    assert.equal(ask(entries.toReversed()), known);
    assert.equal(ask(entries), known);
    const other = ask([...entries.slice(0, -1), [wide[39] ?? '', 'v8']]);
    assert.notEqual(other, known);
    assert.equal(other.get(wide[39] ?? ''), 'v8');
    // As many entries and bytes, but one is repeated.
    const doubled = Buffer.concat([...entries.slice(0, -1), entries[38] ?? ['', '']].map(mapEntry));
    assert.equal(DELTA_REQUESTS.decode(doubled).initialVersions.size, 39);
    assert.equal(ask(entries), known);
  });
});
