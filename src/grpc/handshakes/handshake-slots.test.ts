import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { TimeShares } from '../../core/time-shares.ts';
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
    const [first, second] = ['a', 'a', 'a', 'a'].map(enter);
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(begun.length, 2);
    slots.leave(first);
    assert.equal(begun.length, 3);
    slots.leave(first);
    assert.equal(begun.length, 3);
    assert.equal(slots.underWay, 2);
    slots.leave(second);
    assert.equal(begun.length, 4);
  });

  it('are given to the caller that has used the least time', () => {
    const { slots, begun, enter } = slotsOf(1);
    const [first] = ['many', 'many', 'many', 'one'].map(enter);
    assert.ok(first !== undefined);
    slots.leave(first);
    assert.deepEqual(begun, ['many', 'one']);
  });

  it('are not given to a handshake that was given up while it waited', () => {
    const { slots, begun, enter } = slotsOf(1);
    const [first, second] = ['a', 'b', 'c'].map(enter);
    assert.ok(first !== undefined && second !== undefined);
    slots.leave(second);
    slots.leave(first);
    assert.deepEqual(begun, ['a', 'c']);
  });

  it('are free again when clients do not go on, and are not freed twice', (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    t.after(() => mock.timers.reset());
    const { slots, begun, enter } = slotsOf(2);
    const handshakes = ['stalled', 'stalled', 'a', 'b', 'c'].map(enter);
    assert.deepEqual(begun, ['stalled', 'stalled']);
    mock.timers.tick(SLOT_MS);
    assert.deepEqual(begun, ['stalled', 'stalled', 'a', 'b']);
    for (const handshake of handshakes.slice(0, 2)) slots.leave(handshake);
    assert.equal(begun.length, 4);
    assert.equal(slots.underWay, 2);
  });
});
