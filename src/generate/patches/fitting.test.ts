import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FormerFilter } from '../types.ts';
import { type Former, fitting } from './fitting.ts';

const [A, B, C] = ['EnvoyFilter/shop/a', 'EnvoyFilter/shop/b', 'EnvoyFilter/shop/c'] as const;
const ROOT = 'EnvoyFilter/root/r';

const NO_CONTENT = new Uint8Array();

/** What the unit was made with: `former` or `same` versions. */
function formerOf(versions: Readonly<Record<string, 'former' | 'same'>>): Former {
  const entries = Object.entries(versions).map(([key, version]): [string, FormerFilter] => {
    return [key, { key, patches: [0], ...(version === 'former' && { content: NO_CONTENT }) }];
  });
  return new Map(entries);
}

/** EnvoyFilters by name, a former version with a quote: `a'`. */
function fitted(keys: readonly string[], former: Former, fits: (names: readonly string[]) => boolean) {
  let attempts = 0;
  let last: readonly string[] = [];
  const { output, misfits } = fitting(
    keys.map((key) => ({ key, patches: [0] })),
    former,
    (filters) => {
      attempts++;
      const names = filters.map(({ key, content }) => (key.split('/')[2] ?? '') + (content === undefined ? '' : "'"));
      if (!fits(names)) throw new Error('does not fit');
      last = names;
      return { resources: [{ name: names.join(), bytes: NO_CONTENT, refs: [] }], findings: [] };
    },
  );
  assert.ok(output === undefined || output.resources[0]?.name === last.join());
  return { made: output?.resources[0]?.name, misfits: misfits.map(({ key, use }) => `${key} ${use}`), attempts };
}

const never =
  (...bad: readonly string[]) =>
  (names: readonly string[]) =>
    !names.some((name) => bad.includes(name));
const notTogether = (one: string, other: string) => (names: readonly string[]) =>
  !(names.includes(one) && names.includes(other));

describe('EnvoyFilters that do not fit', () => {
  it('have their former versions', () => {
    const { made, misfits } = fitted(
      [A, B, C],
      formerOf({ [A]: 'former', [B]: 'former', [C]: 'same' }),
      never('a', 'b'),
    );
    assert.equal(made, "a',b',c");
    assert.deepEqual(misfits, [`${A} former version`, `${B} former version`]);
  });

  it('are left out where they have none', () => {
    const { made, misfits } = fitted([A, B], formerOf({ [B]: 'same' }), never('a'));
    assert.deepEqual([made, misfits], ['b', [`${A} nothing`]]);
  });

  it('are left out where their former versions do not fit either', () => {
    const { made, misfits } = fitted([A, B], formerOf({ [A]: 'former', [B]: 'same' }), never('a', "a'"));
    assert.deepEqual([made, misfits], ['b', [`${A} nothing`]]);
  });

  it('replace the edit of another one of the namespace when they are unchanged', () => {
    const { made, misfits } = fitted([A, B], formerOf({ [A]: 'former', [B]: 'same' }), notTogether('a', 'b'));
    assert.deepEqual([made, misfits], ["a',b", [`${A} former version`]]);
  });

  it('replace another one that is new when they are unchanged', () => {
    const { made, misfits } = fitted([A, B], formerOf({ [B]: 'same' }), notTogether('a', 'b'));
    assert.deepEqual([made, misfits], ['b', [`${A} nothing`]]);
  });

  it('replace the nearest that is at fault, and all together where none is alone', () => {
    const former = formerOf({ [A]: 'former', [B]: 'former', [C]: 'same' });
    assert.equal(fitted([A, B, C], former, notTogether('b', 'c')).made, "a,b',c");
    assert.equal(fitted([A, B, C], former, notTogether('a', 'c')).made, "a',b,c");
    const both = (names: readonly string[]) => notTogether('a', 'c')(names) && notTogether('b', 'c')(names);
    assert.equal(fitted([A, B, C], former, both).made, "a',b',c");
  });

  it('never replace one of the root namespace', () => {
    const former = formerOf({ [ROOT]: 'former', [A]: 'same' });
    const { made, misfits } = fitted([ROOT, A], former, notTogether('r', 'a'));
    assert.deepEqual([made, misfits], ['r', [`${A} nothing`]]);
  });

  it('are tried a limited number of times', () => {
    const keys = Array.from({ length: 400 }, (_, index) => `EnvoyFilter/shop/f${index}`);
    const former = formerOf(Object.fromEntries(keys.map((key) => [key, 'former'])));
    const { made, misfits, attempts } = fitted(keys, former, (names) => names.length === 0);
    assert.deepEqual([made, misfits.length], ['', 400]);
    assert.ok(attempts < 150, String(attempts));
  });
});
