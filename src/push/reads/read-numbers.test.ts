import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReceivedReads, SentReads } from './read-numbers.ts';

describe('numbers of reads', () => {
  it('send each fact and each set once', () => {
    const [sent, received] = [new SentReads(), new ReceivedReads()];
    const first = sent.send(['a', 'b']);
    const message = sent.take();
    assert.deepEqual([message.reset, message.facts], [true, ['a', 'b']]);
    assert.deepEqual(received.receive(message)[first]?.facts, ['a', 'b']);
    const [again, second] = [sent.send(['a', 'b']), sent.send(['b', 'c'])];
    const more = sent.take();
    assert.deepEqual([again, more.reset, more.facts], [first, false, ['c']]);
    const sets = received.receive(more);
    assert.deepEqual(sets[second]?.facts, ['b', 'c']);
    assert.equal(sets[again], sets[first]);
  });

  it('are sent with the next answer when the one that used them first was lost', () => {
    const sent = new SentReads();
    const number = sent.send(['a']);
    sent.send(['a']);
    assert.deepEqual(new ReceivedReads().receive(sent.take())[number]?.facts, ['a']);
  });

  it('start over when there are too many, and sets that were returned before stay valid', () => {
    const [sent, received] = [new SentReads(), new ReceivedReads()];
    for (let index = 0; index < 200_001; index++) sent.send([`fact ${index}`]);
    const before = received.receive(sent.take());
    const number = sent.send(['later']);
    const message = sent.take();
    assert.ok(message.reset);
    assert.deepEqual(received.receive(message)[number]?.facts, ['later']);
    assert.deepEqual(before[number]?.facts, ['fact 0']);
  });

  it('that were never sent are rejected', () => {
    const sets = Uint32Array.from([1, 7]);
    assert.throws(() => new ReceivedReads().receive({ reset: true, facts: ['a'], sets }), /has not sent/);
  });
});
