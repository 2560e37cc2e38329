import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HeardReads, SaidReads } from './read-numbers.ts';

describe('numbers of reads', () => {
  it('tell each fact and each set once', () => {
    const [said, heard] = [new SaidReads(), new HeardReads()];
    const first = said.say(['a', 'b']);
    const told = said.take();
    assert.deepEqual([told.fresh, told.facts], [true, ['a', 'b']]);
    assert.deepEqual(heard.hear(told)[first]?.facts, ['a', 'b']);
    const [again, second] = [said.say(['a', 'b']), said.say(['b', 'c'])];
    const more = said.take();
    assert.deepEqual([again, more.fresh, more.facts], [first, false, ['c']]);
    const sets = heard.hear(more);
    assert.deepEqual(sets[second]?.facts, ['b', 'c']);
    assert.equal(sets[again], sets[first]);
  });

  it('are told in the next answer when the one that used them first was lost', () => {
    const said = new SaidReads();
    const number = said.say(['a']);
    said.say(['a']);
    assert.deepEqual(new HeardReads().hear(said.take())[number]?.facts, ['a']);
  });

  it('begin anew when there are too many, and those that were given out still mean what they meant', () => {
    const [said, heard] = [new SaidReads(), new HeardReads()];
    for (let index = 0; index < 200_001; index++) said.say([`fact ${index}`]);
    const before = heard.hear(said.take());
    const number = said.say(['later']);
    const told = said.take();
    assert.ok(told.fresh);
    assert.deepEqual(heard.hear(told)[number]?.facts, ['later']);
    assert.deepEqual(before[number]?.facts, ['fact 0']);
  });

  it('that were never told are refused', () => {
    const sets = Uint32Array.from([1, 7]);
    assert.throws(() => new HeardReads().hear({ fresh: true, facts: ['a'], sets }), /has not told/);
  });
});
