/** The JWKS resolver over time: a fake clock, and fake key servers that work, fail, or hang. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { fakeClock } from '../authority/testing/fixtures.ts';
import type { Fetch } from '../fetch-json.ts';
import { ecKey, testIssuer } from '../testing/credentials.ts';
import { createKeySetResolver } from './resolver.ts';
import { usableKeys } from './usable-keys.ts';

const SETS = await Promise.all(['a', 'b', 'c'].map(async (kid) => (await testIssuer(kid, ecKey('P-256'))).jwks));
const TEXTS = SETS.map(usableKeys);

const SECOND = 1000;
const MINUTE = 60_000;
const REFRESH = 20 * MINUTE;

type State = number | 'down' | 'hangs';

/** Key servers by URL: the number of the key set that one answers, or how it fails. */
function network(states: Map<string, State>) {
  const asked: string[] = [];
  const hanging = new Set<() => void>();
  let atOnce = 0;
  let most = 0;
  const fetch: Fetch = async (url, { signal }) => {
    asked.push(url);
    most = Math.max(most, ++atOnce);
    try {
      const state = states.get(url) ?? 'down';
      if (typeof state === 'number') return Response.json(SETS[state]);
      if (state === 'down') throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
      const { promise, reject } = Promise.withResolvers<never>();
      const end = (): void => reject(new DOMException('no answer', 'TimeoutError'));
      hanging.add(end);
      signal?.addEventListener('abort', end);
      return await promise.finally(() => hanging.delete(end));
    } finally {
      atOnce--;
    }
  };
  const countOf = (url: string): number => asked.filter((each) => each === url).length;
  // The test would have to wait for a real time limit.
  const giveUp = (): void => {
    for (const end of [...hanging]) end();
  };
  return { fetch, asked, countOf, hanging, giveUp, most: () => most };
}

function resolver(initial: Readonly<Record<string, State>>, maxFollowed?: number) {
  const states = new Map(Object.entries(initial));
  const net = network(states);
  const { clock, advance } = fakeClock();
  const known = new Map<string, string>();
  const events: string[] = [];
  const counts = { ok: 0, failed: 0 };
  const machine = createKeySetResolver({
    fetch: net.fetch,
    clock,
    random: () => 0.5,
    refreshMs: REFRESH,
    ...(maxFollowed === undefined ? {} : { maxFollowed }),
    onKeySet: (reference, jwks) => {
      events.push(`${reference} ${jwks === undefined ? 'gone' : 'keys'}`);
      if (jwks === undefined) known.delete(reference);
      else known.set(reference, jwks);
    },
    onProblem: ({ message }, keysKnown) => events.push(`${message}${keysKnown ? ', keys known' : ''}`),
    onRecovered: (reference) => events.push(`${reference} recovered`),
    observer: { fetched: (ok) => counts[ok ? 'ok' : 'failed']++ },
  });
  const want = (...references: readonly string[]) => machine.want(new Set(references));
  return { ...net, states, advance, known, events, counts, want, close: machine.close };
}

const [ONE, TWO] = ['https://one.test/keys', 'http://two.test/keys'] as const;

describe('the JWKS resolver', () => {
  it('follows a limited number, reports that once, and follows another when one is no longer wanted', async () => {
    const { want, known, events, asked, close } = resolver({ [ONE]: 0, [TWO]: 1 }, 1);
    await want(ONE);
    await want(TWO, ONE);
    await want(TWO, ONE);
    assert.deepEqual([[...known.keys()], asked], [[ONE], [ONE]]);
    assert.deepEqual(events.slice(1), [
      `policies name 2 key sets, but at most 1 are fetched; ${TWO}, for example, is not fetched`,
    ]);
    await want(TWO);
    assert.deepEqual([...known.keys()], [TWO]);
    close();
  });

  it('fetches what is wanted at once, and again when it is due', async () => {
    const { want, known, events, advance, states, countOf, counts, close } = resolver({ [ONE]: 0, [TWO]: 1 });
    await want(ONE, TWO);
    assert.deepEqual(
      known,
      new Map([
        [ONE, TEXTS[0]],
        [TWO, TEXTS[1]],
      ]),
    );
    // Equal keys cause no event.
    await advance(REFRESH);
    assert.deepEqual([countOf(ONE), events.length], [2, 2]);
    // Rotated keys are known one interval later at the latest.
    states.set(ONE, 2);
    await advance(REFRESH);
    assert.equal(known.get(ONE), TEXTS[2]);
    assert.deepEqual(events, [`${ONE} keys`, `${TWO} keys`, `${ONE} keys`]);
    assert.deepEqual(counts, { ok: 6, failed: 0 });
    close();
  });

  it('does not fetch again when the wanted references are the same', async () => {
    const { want, asked, close } = resolver({ [ONE]: 0, [TWO]: 1 });
    await want(ONE);
    await want(ONE, TWO);
    await want(TWO, ONE);
    assert.deepEqual(asked, [ONE, TWO]);
    close();
  });

  it('drops a reference that is no longer wanted, with an event if its keys were known', async () => {
    const { want, known, events, advance, asked, close } = resolver({ [ONE]: 0 });
    await want(ONE, TWO);
    await want();
    assert.equal(known.size, 0);
    assert.deepEqual(new Set(events), new Set([`${ONE} keys`, `${TWO}: connect ECONNREFUSED`, `${ONE} gone`]));
    assert.equal(events.at(-1), `${ONE} gone`);
    const before = asked.length;
    await advance(10 * REFRESH);
    assert.equal(asked.length, before);
    await want(ONE);
    assert.equal(known.get(ONE), TEXTS[0]);
    close();
  });

  it('retries a failing server less and less often, and reports failure and recovery once', async () => {
    const { want, known, events, advance, countOf, states, counts, close } = resolver({ [ONE]: 'down', [TWO]: 1 });
    await want(ONE, TWO);
    assert.deepEqual([...known.keys()], [TWO]);
    for (const [seconds, attempts] of [
      [1, 2],
      [2, 3],
      [4, 4],
      [8, 5],
      [16, 6],
      [32, 7],
      [60, 8],
      [60, 9],
      [600, 19],
    ] as const) {
      await advance(seconds * SECOND);
      assert.equal(countOf(ONE), attempts);
    }
    assert.equal(countOf(TWO), 1);
    assert.deepEqual(counts, { ok: 1, failed: 19 });
    states.set(ONE, 0);
    await advance(MINUTE);
    assert.equal(known.get(ONE), TEXTS[0]);
    assert.deepEqual(
      events.filter((line) => !line.startsWith(TWO)),
      [`${ONE}: connect ECONNREFUSED`, `${ONE} recovered`, `${ONE} keys`],
    );
    close();
  });

  it('keeps the keys of a server that fails, and retries soon', async () => {
    const { want, known, events, advance, countOf, states, close } = resolver({ [ONE]: 0 });
    await want(ONE);
    states.set(ONE, 'down');
    await advance(REFRESH);
    await advance(3 * SECOND);
    assert.equal(countOf(ONE), 4);
    assert.equal(known.get(ONE), TEXTS[0]);
    states.set(ONE, 1);
    await advance(4 * SECOND);
    assert.equal(known.get(ONE), TEXTS[1]);
    assert.deepEqual(events, [
      `${ONE} keys`,
      `${ONE}: connect ECONNREFUSED, keys known`,
      `${ONE} recovered`,
      `${ONE} keys`,
    ]);
    close();
  });

  it('does not let servers that hang delay others', async () => {
    const hang = Array.from({ length: 40 }, (_, index) => `https://hangs-${index}.test/`);
    const states = Object.fromEntries(hang.map((url) => [url, 'hangs' as State]));
    const { want, known, advance, most, hanging, giveUp, close } = resolver({ ...states, [ONE]: 0 });
    void want(...hang);
    await advance(0);
    assert.equal(hanging.size, 32);
    // Their time limits have passed: all of them have been tried, and half of the slots stay free from now on.
    giveUp();
    await advance(0);
    giveUp();
    await advance(SECOND);
    assert.equal(hanging.size, 16);
    await want(...hang, ONE);
    assert.equal(known.get(ONE), TEXTS[0]);
    assert.equal(most(), 32);
    close();
  });

  it('aborts fetches in progress and in the queue when it is closed', async () => {
    const hang = Array.from({ length: 40 }, (_, index) => `https://hangs-${index}.test/`);
    const { want, asked, hanging, events, counts, advance, close } = resolver(
      Object.fromEntries(hang.map((url) => [url, 'hangs'])),
    );
    const wanted = want(...hang);
    await advance(0);
    close();
    await wanted;
    await advance(REFRESH);
    assert.deepEqual([asked.length, hanging.size, events, counts], [32, 0, [], { ok: 0, failed: 0 }]);
  });

  const NAMES = ['https://a.test/', 'https://b.test/', 'https://c.test/'];
  const name = fc.constantFrom(...NAMES);
  const step = fc.oneof(
    fc.record({ want: fc.uniqueArray(name) }),
    fc.record({ url: name, state: fc.constantFrom<State>(0, 1, 2, 'down') }),
    fc.record({ advance: fc.constantFrom(0, SECOND, 10 * SECOND, 5 * MINUTE, REFRESH) }),
  );

  it('has the keys of wanted servers that work, the last good ones of those that fail, and no others', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const { want, known, advance, states, asked, events, counts, close } = resolver({});
        let wanted = new Set<string>();
        /** Key sets that a server has answered since it is wanted: only those may be known. */
        const possible = new Map<string, Set<string>>();
        const note = (): void => {
          for (const url of wanted) {
            const state = states.get(url) ?? 'down';
            if (typeof state === 'number') possible.get(url)?.add(TEXTS[state] ?? '');
          }
        };
        for (const each of steps) {
          const before = new Map(known);
          if ('want' in each) {
            for (const url of each.want) if (!wanted.has(url)) possible.set(url, new Set());
            wanted = new Set(each.want);
            note();
            await want(...each.want);
          } else if ('url' in each) {
            states.set(each.url, each.state);
            note();
          } else {
            const quiet = asked.length;
            await advance(each.advance);
            // Backoff: no server is asked more often than after 1, 2, 4 … seconds.
            const limit = wanted.size * (1 + Math.log2(1 + each.advance / SECOND) + each.advance / MINUTE);
            assert.ok(asked.length - quiet <= limit, `${asked.length - quiet} requests in ${each.advance} ms`);
          }
          for (const url of known.keys()) assert.ok(wanted.has(url), `${url} is known`);
          for (const [url, keys] of known) assert.ok(possible.get(url)?.has(keys), `${url} has keys from nowhere`);
          for (const url of before.keys()) if (wanted.has(url)) assert.ok(known.has(url), `${url} was forgotten`);
        }
        // One interval later, the current keys of all working servers are known.
        await advance(REFRESH + MINUTE);
        for (const url of wanted) {
          const state = states.get(url) ?? 'down';
          if (typeof state === 'number') assert.equal(known.get(url), TEXTS[state]);
        }
        assert.equal(counts.ok + counts.failed, asked.length);
        // Failures and recoveries alternate for each reference: never two lines of a kind in a row.
        for (const url of NAMES) {
          const lines = events.filter((line) => line.startsWith(url) && !line.endsWith('gone'));
          const kinds = lines.map((line) =>
            line.endsWith('recovered') ? 'up' : line.includes('REFUSED') ? 'down' : '',
          );
          const turns = kinds.filter((kind) => kind !== '');
          if (!steps.some((each) => 'want' in each && !each.want.includes(url))) {
            assert.ok(
              turns.every((kind, index) => kind !== turns[index - 1]),
              turns.join(),
            );
          }
        }
        close();
      }),
      { numRuns: 60 },
    );
  });
});
