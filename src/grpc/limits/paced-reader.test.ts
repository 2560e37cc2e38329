import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PacedReader } from './paced-reader.ts';
import { TurnScheduler } from './turn-scheduler.ts';

/** A reader in a turn whose time is used up; `turn` runs what waits. */
function lateReader() {
  const later: (() => void)[] = [];
  const scheduler = new TurnScheduler({ now: () => 0, later: (run) => later.push(run) });
  const events: string[] = [];
  const reader = new PacedReader({
    scheduler,
    caller: () => 'caller',
    read: (bytes) => {
      events.push(bytes.toString('latin1'));
      return bytes.length;
    },
    pause: () => void events.push('pause'),
    resume: () => void events.push('resume'),
  });
  scheduler.spend('other', 1000);
  scheduler.spend('caller', 1000);
  const turn = (): void => {
    for (const run of later.splice(0)) run();
  };
  return { reader, events, turn };
}

test('few bytes wait for the next turn, in order, and the socket is not paused', () => {
  const { reader, events, turn } = lateReader();
  reader.take(Buffer.from('one'));
  reader.take(Buffer.from('two'));
  assert.deepEqual(events, []);
  turn();
  turn();
  assert.deepEqual(events, ['one', 'two']);
});

test('the socket is paused once while many bytes or parts wait, and resumed when all are read', () => {
  for (const parts of [['x'.repeat(5000), 'y'], Array.from({ length: 12 }, (_, index) => `${index}`)]) {
    const { reader, events, turn } = lateReader();
    for (const part of parts) reader.take(Buffer.from(part));
    assert.deepEqual(events, ['pause']);
    while (events.at(-1) !== 'resume') turn();
    assert.deepEqual(events, ['pause', ...parts, 'resume']);
    // Bytes that arrive in a young turn are read at once.
    turn();
    reader.take(Buffer.from('more'));
    assert.equal(events.at(-1), 'more');
  }
});
