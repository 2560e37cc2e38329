import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { type Handshake, HandshakeSlots } from './handshake-slots.ts';

const SLOT_MS = 2000;

/** Slots, and the callers whose handshakes have begun, in order. */
function slotsOf(maxUnderWay: number, shares = new TimeShares()) {
  let now = 0;
  const slots = new HandshakeSlots({ shares, now: () => now, maxUnderWay, slotMs: SLOT_MS });
  const begun: string[] = [];
  const enter = (caller: string): Handshake => {
    const handshake = {
      caller,
      begin: () => {
        shares.charge(caller, 1);
        begun.push(caller);
      },
    };
    slots.enter(handshake);
    return handshake;
  };
  /** Time passes by the timers of the test. */
  const pass = async (milliseconds: number): Promise<void> => {
    for (let each = 0; each < milliseconds; each += 10) {
      now += 10;
      mock.timers.tick(10);
      await new Promise(setImmediate);
    }
  };
  return { slots, shares, begun, enter, pass };
}

describe('the slots of handshakes', () => {
  it('let the next one begin when one has ended', () => {
    const { slots, begun, enter } = slotsOf(2);
    const [first, second] = ['a', 'b', 'c', 'd'].map(enter);
    assert.ok(first !== undefined && second !== undefined);
    assert.deepEqual(begun, ['a', 'b']);
    slots.leave(first);
    assert.deepEqual(begun, ['a', 'b', 'c']);
    slots.leave(first);
    assert.equal(begun.length, 3);
    assert.equal(slots.underWay, 2);
    slots.leave(second);
    assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
  });

  it('are given to the caller that has used the least time', () => {
    const { slots, begun, enter } = slotsOf(2);
    const [first] = ['many', 'other', 'many', 'many', 'one'].map(enter);
    assert.ok(first !== undefined);
    slots.leave(first);
    assert.deepEqual(begun, ['many', 'other', 'one']);
  });

  it('are never all held by one caller', () => {
    const { slots, begun, enter } = slotsOf(10);
    const many = Array.from({ length: 20 }, () => enter('many'));
    assert.equal(begun.length, 8);
    enter('one');
    assert.deepEqual(begun.slice(8), ['one']);
    for (const handshake of many) slots.leave(handshake);
    assert.equal(begun.length, 21);
    assert.equal(slots.underWay, 1);
  });

  it('are not given to a handshake that was given up while it waited', () => {
    const { slots, begun, enter } = slotsOf(1);
    const [first, second] = ['a', 'b', 'c'].map(enter);
    assert.ok(first !== undefined && second !== undefined);
    slots.leave(second);
    slots.leave(first);
    assert.deepEqual(begun, ['a', 'c']);
    const crowd = slotsOf(10);
    const many = Array.from({ length: 10 }, () => crowd.enter('many'));
    for (const handshake of many.toReversed()) crowd.slots.leave(handshake);
    assert.equal(crowd.begun.length, 8);
    assert.equal(crowd.slots.underWay, 0);
  });

  it('are free again when clients do not go on, and are not freed twice', (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    t.after(() => mock.timers.reset());
    const { slots, begun, enter } = slotsOf(2);
    const handshakes = ['stalled', 'silent', 'a', 'b', 'c'].map(enter);
    assert.deepEqual(begun, ['stalled', 'silent']);
    mock.timers.tick(SLOT_MS);
    assert.deepEqual(begun, ['stalled', 'silent', 'a', 'b']);
    for (const handshake of handshakes.slice(0, 2)) slots.leave(handshake);
    assert.equal(begun.length, 4);
    assert.equal(slots.underWay, 2);
  });

  it('are shared by a caller with many handshakes while there are always others that wait', () => {
    const begun: Handshake[] = [];
    const shares = new TimeShares(8);
    const slots = new HandshakeSlots({ shares, now: () => 0, maxUnderWay: 128, slotMs: 1e6 });
    const served = { nat: 0, pods: 0 };
    const enter = (caller: string): void => {
      const handshake: Handshake = {
        caller,
        begin: () => {
          begun.push(handshake);
          shares.charge(caller, 1.5);
          if (caller === 'nat') served.nat++;
          else served.pods++;
        },
      };
      slots.enter(handshake);
    };
    for (let index = 0; index < 300; index++) enter('nat');
    let pods = 0;
    for (let steps = 0; served.nat < 300 && steps < 20_000; steps++) {
      while (pods - served.pods < 20) enter(`pod ${pods++}`);
      const first = begun.shift();
      if (first !== undefined) slots.leave(first);
    }
    assert.equal(served.nat, 300);
    assert.ok(served.pods > 300 - 103, 'the others have more');
  });

  it('end when their clients are waited for and another caller waits, and their time is charged', async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    t.after(() => mock.timers.reset());
    const { slots, shares, begun, enter, pass } = slotsOf(2);
    const [first, second] = ['a', 'b'].map(enter);
    assert.ok(first !== undefined && second !== undefined);
    slots.awaitClient(first);
    await pass(500);
    assert.equal(slots.underWay, 2);
    enter('a');
    enter('a');
    await pass(500);
    assert.deepEqual(begun, ['a', 'b'], 'one of the same caller, and one that waits for us, keep theirs');
    slots.awaitClient(second);
    await pass(90);
    assert.equal(begun.length, 2);
    await pass(80);
    assert.deepEqual(begun, ['a', 'b', 'a']);
    assert.ok(shares.usedBy('b') > 1 + 45 && shares.usedBy('b') < 1 + 90, String(shares.usedBy('b')));
    enter('c');
    await pass(60);
    assert.deepEqual(begun, ['a', 'b', 'a', 'c']);
  });

  it('end a few at a time, so that clients that do not go on cause little work', async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    t.after(() => mock.timers.reset());
    const { slots, begun, enter, pass } = slotsOf(20);
    const handshakes = Array.from({ length: 60 }, (_, index) => enter(`caller ${index}`));
    for (const handshake of handshakes) slots.awaitClient(handshake);
    await pass(90);
    assert.equal(begun.length, 20);
    await pass(20);
    assert.equal(begun.length, 28);
    await pass(50);
    assert.equal(begun.length, 36);
  });
});
