import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TimeShares } from '../../../core/fairness/time-shares.ts';
import * as fc from '../../../core/testing/properties.ts';
import { type CallerBytes, UnsentBytes } from './unsent-bytes.ts';

const KIB = 1024;

/** Writes of so many bytes, as many as the caller may have waiting, up to a limit. */
function fill(caller: CallerBytes, bytes: number, most = 10_000): (() => void)[] {
  const writes: (() => void)[] = [];
  while (caller.mayWrite && writes.length < most) writes.push(caller.add([Buffer.alloc(bytes)], 0));
  return writes;
}

/** A count whose next turns the test begins. */
function counted(capacityBytes: number) {
  const turns: (() => void)[] = [];
  const timers: (() => void)[] = [];
  const unsent = new UnsentBytes({
    capacityBytes,
    nextTurn: (run) => void turns.push(run),
    after: (_ms, run) => void timers.push(run),
  });
  return { unsent, turn: () => turns.shift()?.(), time: () => timers.shift()?.() };
}

describe('the memory of responses that have not left', () => {
  it('is at most half of the capacity for one caller, and another one still finds some', () => {
    const { unsent } = counted(1024 * KIB);
    const [first, second] = [unsent.enter('a'), unsent.enter('b')];
    fill(first, 10 * KIB);
    assert.ok(first.bytes > 512 * KIB && first.bytes < 540 * KIB, String(first.bytes));
    fill(second, 10 * KIB);
    assert.ok(second.bytes > 240 * KIB && second.bytes < 280 * KIB, String(second.bytes));
    assert.ok(unsent.total < 1024 * KIB);
  });

  it('lets a caller have one response, however large', () => {
    const { unsent } = counted(1024);
    const first = unsent.enter('a');
    const [end] = fill(first, 60 * KIB);
    assert.equal(first.mayWrite, false);
    end?.();
    assert.deepEqual([first.bytes, first.mayWrite], [0, true]);
  });

  it('counts copies for each write, and a large chunk that writes share once', () => {
    const { unsent } = counted(10 * 1024 * KIB);
    const [first, second] = [unsent.enter('a'), unsent.enter('b')];
    const shared = Buffer.alloc(1000 * KIB);
    const ends = [first, first, second].map((caller) => caller.add([Buffer.alloc(100), shared], 50));
    const own = 100 + 50 + 512;
    assert.equal(unsent.total, shared.length + 3 * own);
    assert.deepEqual([first.bytes, second.bytes], [shared.length + 2 * own, own]);
    ends[0]?.();
    ends[1]?.();
    assert.deepEqual([first.bytes, second.bytes], [0, shared.length + own], 'who still has it is charged');
    ends[2]?.();
    assert.equal(unsent.total, 0);
  });

  it('is counted exactly, whatever ends first', () => {
    const chunks = [10, 70 * KIB, 80 * KIB].map((bytes) => Buffer.alloc(bytes));
    const write = fc.record({ caller: fc.nat(2), chunks: fc.array(fc.nat(2), { maxLength: 3 }), copied: fc.nat(100) });
    fc.assert(
      fc.property(fc.array(fc.oneof(write, fc.nat(5)), { maxLength: 60 }), (steps) => {
        const { unsent } = counted(200 * KIB);
        const callers = ['a', 'b', 'c'].map((name) => unsent.enter(name));
        const open: { readonly step: { chunks: number[]; copied: number; caller: number }; end: () => void }[] = [];
        for (const step of [...steps, ...Array.from({ length: 60 }, () => 0)]) {
          if (typeof step === 'number') open.splice(step % Math.max(1, open.length), 1)[0]?.end();
          else {
            const end = callers[step.caller]?.add(
              step.chunks.map((index) => chunks[index] ?? Buffer.alloc(0)),
              step.copied,
            );
            open.push({ step, end: end ?? (() => {}) });
          }
          const held = new Set(open.flatMap((each) => each.step.chunks).filter((index) => index > 0));
          const large = [...held].reduce((sum, index) => sum + (chunks[index]?.length ?? 0), 0);
          const own = open.reduce(
            (sum, each) => sum + 512 + each.step.copied + 10 * each.step.chunks.filter((index) => index === 0).length,
            0,
          );
          assert.equal(unsent.total, large + own);
          assert.equal(
            callers.reduce((sum, { bytes }) => sum + bytes, 0),
            unsent.total,
          );
          for (const [index, { bytes }] of callers.entries())
            assert.equal(
              bytes > 0,
              open.some((each) => each.step.caller === index),
              'only callers with writes are charged',
            );
        }
        assert.equal(unsent.total, 0);
      }),
      { numRuns: 200 },
    );
  });
});

describe('when everything is used up', () => {
  /** Callers that each have a response waiting, until no more is free. */
  function used(capacityBytes: number) {
    const { unsent, turn, time } = counted(capacityBytes);
    const ends: (() => void)[] = [];
    for (let index = 0; unsent.enter(`first ${index}`).mayWrite; index++)
      ends.push(...fill(unsent.enter(`first ${index}`), 20 * KIB, 1));
    return { unsent, turn, time, ends };
  }

  it('no caller may write, those that wait do when something has left, and the memory stays bounded', () => {
    const { unsent, turn, ends } = used(100 * KIB);
    const most = unsent.total;
    const writes: (() => void)[] = ends;
    for (let index = 0; index < 1000; index++) {
      const caller = unsent.enter(`later ${index}`);
      assert.equal(caller.mayWrite, false);
      const write = (): void => {
        if (caller.mayWrite) writes.push(caller.add([Buffer.alloc(20 * KIB)], 0));
        else caller.wait(write, false);
      };
      caller.wait(write, false);
    }
    for (let index = 0; index < 1000; index++) {
      writes[index]?.();
      turn();
      assert.ok(unsent.total <= most, String(unsent.total));
    }
    assert.equal(writes.length, 1000 + 5);
  });

  it('and too little leaves, some callers without waiting responses are served anyway', () => {
    const { unsent, turn, time } = used(100 * KIB);
    const served: string[] = [];
    const wait = (name: string): void => {
      const caller = unsent.enter(name);
      caller.wait(() => {
        assert.ok(caller.mayWrite || caller.bytes > 0);
        served.push(name);
        caller.add([Buffer.alloc(20 * KIB)], 0);
      }, false);
    };
    wait('first 0');
    for (let index = 0; index < 20; index++) wait(`later ${index}`);
    turn();
    assert.deepEqual(served, []);
    time();
    assert.deepEqual(
      served,
      Array.from({ length: 16 }, (_, index) => `later ${index}`),
    );
    time();
    assert.equal(served.length, 20);
  });

  it('and enough leaves, nobody is', () => {
    const { unsent, turn, time, ends } = used(100 * KIB);
    const caller = unsent.enter('later');
    fill(unsent.enter('last'), 90 * KIB, 1);
    let served = 0;
    caller.wait(() => served++, false);
    unsent.enter('other').add([Buffer.alloc(50 * KIB)], 0);
    ends[0]?.();
    turn();
    time();
    assert.equal(served, 0);
    for (const end of ends.slice(1)) end();
    turn();
    assert.equal(served, 1);
  });
});

describe('streams that wait because their caller has too much unsent', () => {
  it('continue in order when something has left, as many as there is memory for', () => {
    const { unsent, turn } = counted(100 * KIB);
    const caller = unsent.enter('a');
    const ends = fill(caller, 20 * KIB);
    const continued: number[] = [];
    const again: (() => void)[] = [];
    for (let index = 0; index < 5; index++)
      caller.wait(() => {
        continued.push(index);
        again.push(caller.add([Buffer.alloc(20 * KIB)], 0));
      }, false);
    turn();
    assert.deepEqual(continued, []);
    ends[0]?.();
    turn();
    assert.deepEqual(continued, [0]);
    for (const end of [...ends.slice(1), ...again]) end();
    for (let index = 0; index < 10; index++) turn();
    assert.deepEqual(continued, [0, 1, 2, 3]);
  });

  it('do not forgive the debt of their caller by waiting', () => {
    const shares = new TimeShares();
    const turns: (() => void)[] = [];
    const unsent = new UnsentBytes({ capacityBytes: 100 * KIB, nextTurn: (run) => void turns.push(run), shares });
    shares.charge('a', 1000);
    const caller = unsent.enter('a');
    fill(caller, 20 * KIB);
    caller.wait(() => assert.fail('it may not write'), false);
    turns.shift()?.();
    assert.deepEqual([shares.usedBy('a'), shares.usedBy('b')], [1000, 0]);
  });

  it('continue first when they were sent a part of their configuration', () => {
    const { unsent, turn } = counted(100 * KIB);
    const caller = unsent.enter('a');
    const [end] = fill(caller, 200 * KIB);
    const continued: string[] = [];
    caller.wait(() => continued.push('new'), false);
    caller.wait(() => continued.push('begun'), true);
    end?.();
    turn();
    turn();
    assert.deepEqual(continued, ['begun', 'new']);
  });

  it('that have ended do not continue, and a caller without streams is forgotten', () => {
    const { unsent, turn } = counted(100);
    const caller = unsent.enter('a');
    unsent.enter('a');
    const [end] = fill(caller, 200);
    const run = () => assert.fail('it has ended');
    caller.wait(run, false);
    caller.leave(run);
    caller.leave(run);
    assert.equal(unsent.enter('a'), caller, 'a response of it is still counted');
    caller.leave(run);
    end?.();
    turn();
    assert.notEqual(unsent.enter('a'), caller);
  });
});
