import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TimeShares } from '../../../core/fairness/time-shares.ts';
import { Admission } from './admission.ts';

/** Has this many streams enter that do not become ready; returns how many were admitted. */
async function enter(admission: Admission, address: string, count: number): Promise<(() => void)[]> {
  const entrance = admission.of(address, address);
  const entered = await Promise.allSettled(Array.from({ length: count }, () => entrance.enter()));
  return entered.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
}

describe('the limit of connecting streams', () => {
  it('is not used up by one address, and is free again when streams are ready', async () => {
    const admission = new Admission(100);
    const greedy = await enter(admission, '10.0.0.1', 200);
    assert.equal(greedy.length, 80);
    assert.equal((await enter(admission, '10.0.0.2', 5)).length, 5);
    assert.equal((await enter(admission, '10.0.0.1', 1)).length, 0);
    for (const leave of greedy.slice(0, 40)) leave();
    assert.equal((await enter(admission, '10.0.0.1', 1)).length, 1);
  });

  it('is released once, however often a stream leaves', async () => {
    const admission = new Admission(2);
    const [first] = await enter(admission, '10.0.0.1', 2);
    for (let i = 0; i < 3; i++) first?.();
    assert.equal((await enter(admission, '10.0.0.1', 2)).length, 1);
  });

  it('admits the callers that have used the least time first', async () => {
    const shares = new TimeShares();
    const admission = new Admission(100, shares);
    shares.charge('busy', 4);
    const order: string[] = [];
    const enters = (caller: string) =>
      admission
        .of('10.0.0.1', caller)
        .enter()
        .then(() => order.push(caller));
    await Promise.all([
      ...Array.from({ length: 40 }, () => enters('busy')),
      ...Array.from({ length: 10 }, () => enters('other')),
    ]);
    assert.deepEqual(order.indexOf('busy'), 10);
  });

  it('admits streams of one caller in order of arrival', async () => {
    const admission = new Admission();
    const order: number[] = [];
    const all = Array.from({ length: 50 }, (_, index) =>
      admission
        .of('10.0.0.1', 'caller')
        .enter()
        .then(() => order.push(index)),
    );
    await Promise.all(all);
    assert.deepEqual(
      order,
      [...order].sort((a, b) => a - b),
    );
  });
});
