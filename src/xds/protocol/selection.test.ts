import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { emptyBundle, nextBundle } from '../../push/bundles/bundle.ts';
import type { Bundle, EncodedResource } from '../../push/types.ts';
import { resource } from '../testing/content.ts';
import { SHARED } from '../testing/protocols.ts';
import { NO_NAMES } from './name-set.ts';
import { ResourceLists } from './selection.ts';

const { selections } = SHARED;

const ALL = { wildcard: true, names: NO_NAMES };
const [a, b, c] = ['a', 'b', 'c'].map((name) => resource('cds', name, 'text', [`eds-${name}`]));

function bundleOf(view: string, ...resources: readonly (EncodedResource | undefined)[]): Bundle {
  return nextBundle(
    emptyBundle('cds', view),
    resources.flatMap((each) => (each === undefined ? [] : [[each.name, each] as const])),
  );
}

describe('bodies of selections', () => {
  it('are one buffer for views of equal content, and another when anything differs', () => {
    const one = selections.select(bundleOf('one', a, b), undefined, ALL);
    const two = selections.select(bundleOf('two', a, b), undefined, ALL);
    const longer = selections.select(bundleOf('three', a, b, c), undefined, ALL);
    const other = selections.select(bundleOf('four', a, c), undefined, ALL);
    assert.equal(one.body('delta')[0], two.body('delta')[0]);
    assert.equal(one.body('sotw')[0], two.body('sotw')[0]);
    assert.notEqual(one.body('delta')[0], one.body('sotw')[0]);
    const joined = (...parts: readonly (EncodedResource | undefined)[]): Buffer =>
      Buffer.concat(parts.map((part) => part?.fragment ?? Buffer.alloc(0)));
    assert.deepEqual(longer.body('delta'), [joined(a, b, c)]);
    assert.deepEqual(other.body('delta'), [joined(a, c)]);
    assert.deepEqual(one.body('delta'), [joined(a, b)]);
  });

  it('share their lists, and have the names that these refer to', () => {
    const one = selections.select(bundleOf('one', a, b), undefined, ALL).changed;
    const two = selections.select(bundleOf('two', c), undefined, ALL).changed;
    const lists = new ResourceLists([one, two]);
    assert.equal(lists.length, 3);
    assert.deepEqual(lists.flat(), [a, b, c]);
    assert.equal(new ResourceLists([one]).flat(), one);
    assert.deepEqual([...selections.refsOf(one).names], ['eds-a', 'eds-b']);
    assert.equal(selections.refsOf(one), selections.refsOf([...one]));
  });
});
