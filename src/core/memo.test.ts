import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Memos } from './memo.ts';

describe('Memos', () => {
  it('computes a result once for one object', () => {
    const memo = new Memos().weak<object, number>('length');
    const key = {};
    let made = 0;
    const ask = () => memo.get(key, () => ++made);
    assert.deepEqual([ask(), ask(), memo.get({}, () => ++made)], [1, 1, 2]);
    assert.deepEqual(memo.counts, { asked: 3, made: 2 });
  });

  it('caches an undefined result', () => {
    const memo = new Memos().weak<object, undefined>('nothing');
    const key = {};
    memo.get(key, () => undefined);
    memo.get(key, () => assert.fail('made again'));
  });

  it('caches nothing when it is switched off', () => {
    const memo = new Memos({ enabled: false }).weak<object, number>('length');
    const key = {};
    let made = 0;
    assert.deepEqual([memo.get(key, () => ++made), memo.get(key, () => ++made)], [1, 2]);
  });

  it('caches nothing when the computation throws', () => {
    const memo = new Memos().weak<object, number>('length');
    const key = {};
    assert.throws(() => memo.get(key, () => assert.fail('no')));
    assert.equal(
      memo.get(key, () => 1),
      1,
    );
  });

  it('keeps memos of different names apart', () => {
    const memos = new Memos();
    const key = {};
    memos.weak<object, number>('a').get(key, () => 1);
    assert.equal(
      memos.weak<object, number>('b').get(key, () => 2),
      2,
    );
    assert.deepEqual([...memos.counts().keys()], ['a', 'b']);
  });

  it('computes a result once for two objects in this order', () => {
    const memo = new Memos().pairs<object, object, number>('distance');
    const [a, b] = [{}, {}];
    let made = 0;
    const ask = (one: object, two: object) => memo.get(one, two, () => ++made);
    assert.equal(memo.peek(a, b), undefined);
    assert.deepEqual([ask(a, b), ask(a, b), ask(b, a), ask(a, a)], [1, 1, 2, 3]);
    assert.equal(memo.peek(a, b), 1);
    assert.deepEqual(memo.counts, { asked: 4, made: 3 });
  });

  it('caches nothing for two objects when it is switched off', () => {
    const memos = new Memos({ enabled: false });
    const memo = memos.pairs<object, object, number>('distance');
    const [a, b] = [{}, {}];
    let made = 0;
    assert.deepEqual([memo.get(a, b, () => ++made), memo.get(a, b, () => ++made), memo.peek(a, b)], [1, 2, undefined]);
    assert.deepEqual([...memos.counts()], [['distance', { asked: 2, made: 2 }]]);
  });
});
