import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ReceiveMemoryQuota, type Reservation } from './receive-memory-quota.ts';

const BYTES = 1000;

let quota: ReceiveMemoryQuota;
/** Events of requests that had to wait or took too long, in order. */
let events: string[];
/** Timeouts of requests. */
let timers: Set<() => void>;

beforeEach(() => {
  events = [];
  timers = new Set();
  quota = new ReceiveMemoryQuota({
    maxRequestBytes: BYTES,
    later: (_ms, run) => {
      timers.add(run);
      return () => timers.delete(run);
    },
  });
});

function reserve(address: string, name: string, bytes = BYTES): Reservation {
  return quota.of(address).reserve(bytes, {
    granted: () => events.push(`${name} granted`),
    timedOut: () => events.push(`${name} timed out`),
  });
}

function reserveOften(address: string, count: number): Reservation[] {
  return Array.from({ length: count }, (_, index) => reserve(address, `${address}/${index}`));
}

function passTime(): void {
  const elapsed = [...timers];
  timers.clear();
  for (const run of elapsed) run();
}

describe('the quota for received requests', () => {
  it('is not all for one address: a request from another is granted at once', () => {
    assert.equal(reserveOften('a', 20).filter(({ granted }) => granted).length, 12);
    assert.equal(reserve('b', 'b').granted, true);
    assert.equal(reserve('a', 'small', 1).granted, false);
    assert.deepEqual(events, []);
  });

  it('is granted in order of arrival when requests are complete', async () => {
    const reservations = reserveOften('a', 20);
    for (const reservation of reservations.slice(0, 3)) reservation.end();
    await turn();
    assert.deepEqual(events, ['a/12 granted', 'a/13 granted', 'a/14 granted']);
    assert.deepEqual(
      reservations.slice(12, 16).map(({ granted }) => granted),
      [true, true, true, false],
    );
    // A request that gives up neither delays the others nor uses the quota.
    reservations[15]?.end();
    reservations[3]?.end();
    await turn();
    assert.deepEqual(events.slice(3), ['a/16 granted']);
    for (const reservation of reservations) reservation.end();
    await turn();
    assert.equal(reserveOften('a', 12).at(-1)?.granted, true);
  });

  it('is granted to the next request when one that waits gives up, if it is small enough', async () => {
    reserveOften('a', 12);
    const large = reserve('a', 'large');
    const small = reserve('a', 'small', 500);
    assert.deepEqual([large.granted, small.granted], [false, false]);
    large.end();
    await turn();
    assert.deepEqual([small.granted, events], [true, ['small granted']]);
  });

  it('is not granted to a later request from another address of the same network', async () => {
    const reservations = reserveOften('fd00::1', 12);
    assert.equal(reserve('fd00::2', 'waits').granted, false);
    reservations[0]?.end();
    const later = reserve('fd00::3', 'later');
    await turn();
    assert.deepEqual([later.granted, events], [false, ['waits granted']]);
  });

  it('is withdrawn from a slow request, but only when others wait', async () => {
    const reservations = reserveOften('a', 12);
    passTime();
    assert.deepEqual(events, []);
    const waiting = reserve('a', 'waiting');
    passTime();
    assert.equal(events.length, 12);
    assert.equal(events[0], 'a/0 timed out');
    for (const reservation of reservations) reservation.end();
    await turn();
    assert.equal(waiting.granted, true);
    waiting.end();
    assert.equal(timers.size, 0);
  });

  it('for reading ahead is limited, and not all for one address', () => {
    const left = Array.from({ length: 1100 }, () => quota.of('a').reserveAhead()).filter((one) => one !== undefined);
    assert.equal(left.length, 820);
    assert.notEqual(quota.of('b').reserveAhead(), undefined);
    assert.equal(quota.of('a').reserveAhead(), undefined);
    for (const leave of left) leave();
    assert.notEqual(quota.of('a').reserveAhead(), undefined);
  });
});
