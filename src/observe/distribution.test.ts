import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Histogram, Registry } from 'prom-client';
import { InternalError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import { Distribution } from './distribution.ts';

const BUCKETS = [0.1, 0.5, 1, 5];

describe('a distribution', () => {
  it('shows what the histogram of the library shows', async () => {
    const kinds = ['cds', 'eds', 'a "quoted"\\ one'];
    const value = fc.oneof(fc.constantFrom(...BUCKETS, 0, -1), fc.double({ noNaN: true, noDefaultInfinity: true }));
    const values = fc.array(fc.tuple(fc.constantFrom(...kinds), value), { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(values, async (all) => {
        const [ours, theirs] = [new Registry(), new Registry()];
        const plain = { name: 'plain', help: 'of no labels', buckets: BUCKETS };
        const labelled = { name: 'labelled', help: 'of one', buckets: BUCKETS };
        const one = new Distribution({ ...plain, labelNames: [] });
        const two = new Distribution({ ...labelled, labelNames: ['type'] });
        one.register(ours);
        two.register(ours);
        const known = new Histogram({ ...plain, registers: [theirs] });
        const knownLabelled = new Histogram({ ...labelled, labelNames: ['type'], registers: [theirs] });
        for (const [type, each] of all) {
          one.observe(each);
          known.observe(each);
          two.series({ type }).observe(each);
          knownLabelled.observe({ type }, each);
        }
        assert.equal(await ours.metrics(), await theirs.metrics());
      }),
      { numRuns: 50 },
    );
  });

  it('takes nothing but numbers, under labels that it has', () => {
    const distribution = new Distribution({ name: 'd', help: 'd', buckets: BUCKETS, labelNames: ['type'] });
    assert.throws(() => distribution.observe(Number.NaN, { type: 'cds' }), InternalError);
    assert.throws(() => distribution.series({ node: 'a' } as object), InternalError);
    assert.equal(distribution.series({ type: 'cds' }), distribution.series({ type: 'cds' }));
  });
});
