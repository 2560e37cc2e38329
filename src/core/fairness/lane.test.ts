import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Lane } from './lane.ts';

it('a lane returns preferred items first, each group in order of arrival', () => {
  const lane = new Lane<string>();
  assert.deepEqual(
    [lane.add('a'), lane.add('b'), lane.add('c', true), lane.add('d'), lane.add('b', true), lane.add('a')],
    [true, true, true, true, false, false],
  );
  assert.equal(lane.size, 4);
  assert.deepEqual([lane.delete('d'), lane.delete('d'), lane.delete('x')], [true, false, false]);
  assert.deepEqual([lane.take(), lane.take(), lane.take(), lane.take()], ['c', 'b', 'a', undefined]);
});

it('an item that is preferred stays so', () => {
  const lane = new Lane<string>();
  lane.add('a');
  lane.add('b', true);
  assert.equal(lane.add('b'), false);
  assert.equal(lane.size, 2);
  assert.equal(lane.take(), 'b');
});

it('items that are preferred over and over do not shut out the others', () => {
  const lane = new Lane<string>();
  const preferred = ['a', 'b', 'c', 'd', 'e'];
  for (const item of preferred) lane.add(item, true);
  for (const item of ['x', 'y']) lane.add(item);
  const taken = Array.from({ length: 8 }, () => {
    const { first } = lane;
    const item = lane.take() ?? '';
    assert.equal(item, first);
    if (preferred.includes(item)) lane.add(item, true);
    return item;
  });
  assert.equal(taken.join(' '), 'a b c x d e a y');
});
