import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReceivedReads, SentReads } from './read-numbers.ts';

describe('numbers of reads', () => {
  it('tell each fact and each set once', () => {
    const [said, heard] = [new SentReads(), new ReceivedReads()];
    const first = said.send(['a', 'b']);
    const told = said.take();
    assert.deepEqual([told.fresh, told.facts], [true, ['a', 'b']]);
    assert.deepEqual(heard.receive(told)[first]?.facts, ['a', 'b']);
    const [again, second] = [said.send(['a', 'b']), said.send(['b', 'c'])];
    const more = said.take();
    assert.deepEqual([again, more.fresh, more.facts], [first, false, ['c']]);
    const sets = heard.receive(more);
    assert.deepEqual(sets[second]?.facts, ['b', 'c']);
    assert.equal(sets[again], sets[first]);
  });

  it('are told in the next answer when the one that used them first was lost', () => {
    const said = new SentReads();
    const number = said.send(['a']);
    said.send(['a']);
    assert.deepEqual(new ReceivedReads().receive(said.take())[number]?.facts, ['a']);
  });

  it('begin anew when there are too many, and those that were given out still mean what they meant', () => {
    const [said, heard] = [new SentReads(), new ReceivedReads()];
    for (let index = 0; index < 200_001; index++) said.send([`fact ${index}`]);
    const before = heard.receive(said.take());
    const number = said.send(['later']);
    const told = said.take();
    assert.ok(told.fresh);
    assert.deepEqual(heard.receive(told)[number]?.facts, ['later']);
    assert.deepEqual(before[number]?.facts, ['fact 0']);
  });

  it('that were never told are refused', () => {
    const sets = Uint32Array.from([1, 7]);
    assert.throws(() => new ReceivedReads().receive({ fresh: true, facts: ['a'], sets }), /has not sent/);
  });
});
