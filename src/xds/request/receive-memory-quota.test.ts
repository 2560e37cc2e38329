import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type Claim, ReceiveMemoryQuota } from './receive-memory-quota.ts';

const BYTES = 1000;

let room: ReceiveMemoryQuota;
/** What happened to requests that had to wait, or took long, in order. */
let told: string[];
/** What runs when a request has taken long. */
let timers: Set<() => void>;

beforeEach(() => {
  told = [];
  timers = new Set();
  room = new ReceiveMemoryQuota({
    maxRequestBytes: BYTES,
    later: (_ms, run) => {
      timers.add(run);
      return () => timers.delete(run);
    },
  });
});

function ask(address: string, name: string, bytes = BYTES): Claim {
  return room.of(address).request(bytes, {
    granted: () => told.push(`${name} granted`),
    late: () => told.push(`${name} late`),
  });
}

function askOften(address: string, count: number): Claim[] {
  return Array.from({ length: count }, (_, index) => ask(address, `${address}/${index}`));
}

function passTime(): void {
  const due = [...timers];
  timers.clear();
  for (const run of due) run();
}

describe('the quota for received requests', () => {
  it('is not all for one address: a request from another is granted at once', () => {
    assert.equal(askOften('a', 20).filter(({ granted }) => granted).length, 12);
    assert.equal(ask('b', 'b').granted, true);
    assert.equal(ask('a', 'small', 1).granted, false);
    assert.deepEqual(told, []);
  });

  it('is granted in order of arrival when requests are complete', async () => {
    const claims = askOften('a', 20);
    for (const claim of claims.slice(0, 3)) claim.end();
    await turn();
    assert.deepEqual(told, ['a/12 granted', 'a/13 granted', 'a/14 granted']);
    assert.deepEqual(
      claims.slice(12, 16).map(({ granted }) => granted),
      [true, true, true, false],
    );
    // Who gives up does not hold up the others, and takes no room.
    claims[15]?.end();
    claims[3]?.end();
    await turn();
    assert.deepEqual(told.slice(3), ['a/16 granted']);
    for (const claim of claims) claim.end();
    await turn();
    assert.equal(askOften('a', 12).at(-1)?.granted, true);
  });

  it('is granted to the next request when one that waits gives up, if it is small enough', async () => {
    askOften('a', 12);
    const large = ask('a', 'large');
    const small = ask('a', 'small', 500);
    assert.deepEqual([large.granted, small.granted], [false, false]);
    large.end();
    await turn();
    assert.deepEqual([small.granted, told], [true, ['small granted']]);
  });

  it('is not granted to a later request from another address of the same network', async () => {
    const claims = askOften('fd00::1', 12);
    assert.equal(ask('fd00::2', 'waits').granted, false);
    claims[0]?.end();
    const later = ask('fd00::3', 'later');
    await turn();
    assert.deepEqual([later.granted, told], [false, ['waits granted']]);
  });

  it('is withdrawn from a slow request, but only when others wait', async () => {
    const claims = askOften('a', 12);
    passTime();
    assert.deepEqual(told, []);
    const waiting = ask('a', 'waiting');
    passTime();
    assert.equal(told.length, 12);
    assert.equal(told[0], 'a/0 late');
    for (const claim of claims) claim.end();
    await turn();
    assert.equal(waiting.granted, true);
    waiting.end();
    assert.equal(timers.size, 0);
  });

  it('for reading ahead is limited, and not all for one address', () => {
    const left = Array.from({ length: 1100 }, () => room.of('a').ahead()).filter((one) => one !== undefined);
    assert.equal(left.length, 820);
    assert.notEqual(room.of('b').ahead(), undefined);
    assert.equal(room.of('a').ahead(), undefined);
    for (const leave of left) leave();
    assert.notEqual(room.of('a').ahead(), undefined);
  });
});
