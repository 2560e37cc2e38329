import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { TimeShares } from '../../core/fairness/time-shares.ts';
import { type Handshake, HandshakeSlots } from './handshake-slots.ts';

const SLOT_MS = 2000;

/** Slots, and the callers whose handshakes have begun, in order. */
function slotsOf(maxUnderWay: number) {
  const shares = new TimeShares();
  const slots = new HandshakeSlots({ shares, maxUnderWay, slotMs: SLOT_MS });
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
  return { slots, begun, enter };
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
});
