/** Each scenario of hostile callers and tenants at a small size has its two rows. Times are not checked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCENARIOS } from '../bench/neighbours/index.ts';
import { prepareBenches, row, runWith, SMALL } from './harness/small-bench.ts';

prepareBenches();

test('hostile neighbours', { concurrency: 3 }, async (t) => {
  await Promise.all(
    SCENARIOS.map(({ name, measured }) =>
      t.test(name, async () => {
        const outcome = await runWith({ ...SMALL, seconds: 1, only: [name] }, 'neighbours');
        assert.equal(outcome.rows.length, 2);
        for (const state of ['undisturbed', 'disturbed']) {
          const { readyMs, note } = row(outcome, 'neighbours', `${name}: ${measured}, ${state}`);
          assert.ok(Number(readyMs) > 0);
          // A crowded machine may refuse a review.
          assert.match(note ?? '', /^(?:1 change|1 injections, 0 refused|0 injections, 1 refused) in /, state);
        }
      }),
    ),
  );
});
