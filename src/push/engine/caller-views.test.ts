import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { CallerViews, MAX_VIEWS_OF_CALLER } from './caller-views.ts';

const unknown = () => undefined;
const exhausted = { code: 'resource_exhausted' };

function filled(count: number): { views: CallerViews<object>; entered: object[] } {
  const views = new CallerViews<object>();
  const entered = Array.from({ length: count }, () => ({}));
  for (const view of entered) views.enter('a', view, unknown);
  return { views, entered };
}

test('views of the registry do not count beyond half of the limit, two variants of each', () => {
  const { views } = filled(MAX_VIEWS_OF_CALLER / 2);
  const variants = [{}, {}, {}];
  for (const view of variants) views.enter('a', view, () => 'web');
  assert.equal(views.countOf('a'), MAX_VIEWS_OF_CALLER / 2 + 1);
  views.enter('a', {}, () => 'db');
  assert.equal(views.countOf('a'), MAX_VIEWS_OF_CALLER / 2 + 1);
  // Another caller has its own.
  views.enter('b', variants[0] ?? {}, () => 'web');
  assert.equal(views.countOf('b'), 1);
});

test('at the limit only views of the registry are admitted', () => {
  const { views, entered } = filled(MAX_VIEWS_OF_CALLER);
  assert.ok(!views.mayHave('a', 1));
  assert.throws(() => views.admit('a', [unknown]), exhausted);
  views.admit('a', [() => 'web', () => 'db']);
  const [first, second] = [{}, {}];
  views.enter('a', first, () => 'web');
  views.enter('a', second, () => 'web');
  assert.throws(() => views.admit('a', [() => 'web']), exhausted);
  views.leave('a', second);
  views.admit('a', [() => 'web']);
  views.leave('a', entered[0] ?? {});
  assert.ok(views.mayHave('a', 1));
});

test('counts are those of the views that callers have', () => {
  const step = fc.tuple(fc.constantFrom('a', 'b'), fc.nat(20), fc.constantFrom(undefined, 'k', 'l'));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { views, entered } = filled(MAX_VIEWS_OF_CALLER / 2);
      for (const view of entered) views.enter('b', view, unknown);
      const placed = Array.from({ length: 21 }, () => ({}));
      const has = new Map<string, ReadonlySet<object>>();
      for (const [caller, number, key] of steps) {
        const view = placed[number] ?? {};
        const own = new Set(has.get(caller));
        if (own.delete(view)) views.leave(caller, view);
        else {
          own.add(view);
          views.enter(caller, view, () => key);
        }
        has.set(caller, own);
      }
      for (const [caller, own] of has) for (const view of own) views.leave(caller, view);
      for (const caller of ['a', 'b']) {
        assert.equal(views.countOf(caller), MAX_VIEWS_OF_CALLER / 2);
        views.enter(caller, {}, () => 'k');
        views.enter(caller, {}, () => 'k');
        assert.equal(views.countOf(caller), MAX_VIEWS_OF_CALLER / 2);
      }
    }),
  );
});
