/** Never do two replicas lead at once, whatever the network, the clocks, the processes and people do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { GOOD_NETWORK, LeaseSimulation, type Network } from '../testing/lease-simulation.ts';

/** What happens at one moment; a number chooses the replica. */
type Step =
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'pause' | 'resume' | 'kill' | 'close' | 'start'; readonly replica: number }
  | { readonly do: 'delete' }
  | { readonly do: 'name'; readonly holder: string };

const replica = fc.nat(2);
const passing = fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 20_000 }) });
const onProcess = fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const), replica });
const ending = fc.record({ do: fc.constantFrom('kill' as const, 'close' as const, 'start' as const), replica });
/** Edits of people. A replica that starts while there is no Lease cannot know of one that was deleted. */
const editing: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('delete' as const) }),
  fc.record({ do: fc.constant('name' as const), holder: fc.constantFrom('', 'someone') }),
);

const steps = fc.oneof(
  fc.array(fc.oneof({ weight: 3, arbitrary: passing }, onProcess, ending), { maxLength: 40 }),
  fc.array(fc.oneof({ weight: 3, arbitrary: passing }, onProcess, editing), { maxLength: 40 }),
);

/** A network that loses and delays, by a seed. */
function badNetwork(seed: number, loss: number): Network {
  let state = seed | 1;
  const random = (): number => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223;
    return (state >>> 0) / 2 ** 32;
  };
  // Seldom longer than the time after which the requester has given up.
  const delay = (): number | undefined => (random() < loss ? undefined : random() ** 8 * 20_000);
  return { transport: () => ({ request: delay(), answer: delay(), fails: random() < loss }), event: delay, random };
}

test('two replicas never lead at once, and one leads when all is well again', async () => {
  const mesh = fc.record({
    seed: fc.integer(),
    loss: fc.double({ min: 0, max: 0.6, noNaN: true }),
    rates: fc.array(fc.double({ min: 0.85, max: 1.15, noNaN: true }), { minLength: 3, maxLength: 3 }),
    steps,
  });
  const property = fc.asyncProperty(mesh, async ({ seed, loss, rates, steps: all }) => {
    const it = new LeaseSimulation();
    let started = 0;
    const start = (index: number) => it.start({ identity: `r${index}-${started++}`, rate: rates[index] ?? 1 });
    const replicas = [0, 1, 2].map(start);
    const check = (): void => {
      const leading = it.replicas.filter(({ election, isDead }) => !isDead && election.isLeading);
      assert.ok(leading.length <= 1, leading.map(({ election }) => election.holder).join(' and '));
    };
    // All have seen the Lease.
    await it.advance(2000, check);
    it.network = badNetwork(seed, loss);
    for (const step of all) {
      if (step.do === 'pass') await it.advance(step.ms, check);
      else if (step.do === 'delete') it.edit(undefined);
      else if (step.do === 'name') it.edit({ holderIdentity: step.holder });
      else if (step.do === 'start') replicas[step.replica] = start(step.replica);
      else if (step.do === 'close') void replicas[step.replica]?.election.close();
      else replicas[step.replica]?.[step.do]();
      await it.advance(0, check);
    }
    it.network = GOOD_NETWORK;
    for (const each of it.replicas) each.resume();
    await it.advance(30_000, check);
    start(0);
    await it.advance(120_000, check);
    const leading = it.replicas.filter(({ election, isDead }) => !isDead && election.isLeading);
    assert.equal(leading.length, 1, 'one leads');
    assert.equal(it.replicas.filter(({ isWorking }) => isWorking).length, 1, 'one works');
  });
  // A replica that was stopped while the Lease was created and deleted again.
  const twice: Step[] = [
    { do: 'delete' },
    { do: 'pass', ms: 253 },
    { do: 'pause', replica: 1 },
    { do: 'pass', ms: 19_248 },
    { do: 'delete' },
  ];
  const example = { seed: -1_023_434_315, loss: 0, rates: [0.85, 0.85, 0.85], steps: twice };
  await fc.assert(property, { numRuns: 100, examples: [[example]] });
});
