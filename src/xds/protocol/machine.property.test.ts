/**
 * The protocol machines of both variants against model proxies: after any events in any order, the proxy has what the
 * engine has.
 */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import { Content } from '../testing/content.ts';
import { MODEL_TYPES, resourceName, type Simulation } from '../testing/model.ts';
import { DeltaSimulation, SotwSimulation } from '../testing/model-protocols.ts';
import { MEMOS } from '../testing/protocols.ts';
import { WithholdingSimulation } from '../testing/withholding.ts';
import type { AnyRequest } from './requests.ts';

const RUNS = { numRuns: 1000 };

/** Runs with several proxies of one server. */
const RUNS_TOGETHER = { numRuns: 250 };

const NAMES = ['a', 'b', 'c', 'd', 'e', 'in-1', 'in-2'];

type Step =
  | { readonly kind: 'set'; readonly type: XdsType; readonly name: string; readonly text: string | undefined }
  | { readonly kind: 'connect'; readonly type: XdsType; readonly wildcard: boolean; readonly names: string[] }
  | { readonly kind: 'names'; readonly type: XdsType; readonly add: string[]; readonly drop: string[] }
  | { readonly kind: 'push' | 'up' | 'down' | 'reconnect' | 'move' | 'settle' };

/**
 * Events that concern these types and names.
 * @param weights how often messages are delivered, and how often streams end
 */
function stepsOf(
  types: readonly XdsType[],
  of: readonly string[],
  weights: { readonly wire: number; readonly upheaval: number },
): fc.Arbitrary<Step> {
  const type = fc.constantFrom(...types);
  const names = fc.uniqueArray(fc.constantFrom(...of), { maxLength: 4 });
  return fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant('set' as const),
        type,
        name: fc.constantFrom(...of),
        text: fc.constantFrom('1', '2', '3', 'bad1', 'bad2', undefined),
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('connect' as const), type, wildcard: fc.boolean(), names }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('names' as const), type, add: names, drop: names }) },
    {
      weight: weights.wire,
      arbitrary: fc.record({ kind: fc.constantFrom('push' as const, 'up' as const, 'down' as const) }),
    },
    {
      weight: weights.upheaval,
      arbitrary: fc.record({ kind: fc.constantFrom('reconnect' as const, 'move' as const, 'settle' as const) }),
    },
  );
}

const step = stepsOf(MODEL_TYPES, NAMES, { wire: 9, upheaval: 1 });
const steps = fc.array(step, { minLength: 5, maxLength: 80, size: 'max' });

/** The names that a resource makes a proxy subscribe to. */
function refsOf({ discovers }: { readonly discovers: boolean }, type: XdsType, name: string): string[] {
  if (type === 'rds') return discovers ? [name] : [];
  return type === 'cds' ? [resourceName('eds', name)] : [];
}

function run<Request extends AnyRequest>(sim: Simulation<Request>, plan: readonly Step[]): void {
  for (const step of plan) take(sim, step);
  settleAll([sim]);
}

/** Proxies of one server: results that are computed for one of them may be used for all. */
function runTogether<Request extends AnyRequest>(
  sims: readonly Simulation<Request>[],
  plan: readonly (readonly [whose: number, step: Step])[],
): void {
  for (const [whose, step] of plan) {
    const sim = sims[whose % sims.length];
    // Sometimes all are up to date and are sent the next change one after the other.
    const together = step.kind === 'set' && whose >= sims.length;
    if (together) for (const each of sims) each.settle();
    if (sim !== undefined) take(sim, step);
    if (step.kind !== 'set') continue;
    for (const each of sims) {
      const model = each.model(step.type);
      if (each !== sim && model.firstRequestOnWire) each.resume(step.type, model);
      if (together) each.push();
    }
  }
  settleAll(sims);
}

function settleAll<Request extends AnyRequest>(sims: readonly Simulation<Request>[]): void {
  for (const sim of sims) sim.settle();
  for (const sim of sims) {
    for (const one of MODEL_TYPES) sim.check(one);
    if (sim.discovers) sim.checkHosts();
    sim.checkQuiet();
  }
}

function take<Request extends AnyRequest>(sim: Simulation<Request>, step: Step): void {
  switch (step.kind) {
    case 'set':
      sim.content.set(step.type, resourceName(step.type, step.name), step.text, refsOf(sim, step.type, step.name));
      if (sim.model(step.type).firstRequestOnWire) sim.resume(step.type, sim.model(step.type));
      break;
    case 'connect':
      // Envoy subscribes to virtual hosts when it has routes.
      if (step.type === 'vhds') break;
      // Envoy has no wildcard subscription of endpoints and routes.
      sim.connect(
        step.type,
        step.wildcard && XDS[step.type].fullSet,
        step.wildcard && XDS[step.type].fullSet ? [] : step.names.map((name) => resourceName(step.type, name)),
      );
      break;
    case 'names': {
      const model = sim.model(step.type);
      if (step.type === 'vhds') break;
      const add = step.add.map((name) => resourceName(step.type, name));
      const drop = step.drop
        .map((name) => resourceName(step.type, name))
        .filter((n) => model.names.has(n) && !add.includes(n));
      if (model.connected && add.length + drop.length > 0) sim.changeNames(step.type, model, add, drop);
      break;
    }
    case 'push':
      sim.push();
      break;
    case 'up':
      sim.deliverUp();
      break;
    case 'down':
      sim.deliverDown();
      break;
    case 'reconnect':
      sim.reconnect();
      break;
    case 'move':
      sim.content.moveViews();
      break;
    case 'settle':
      sim.settle();
  }
}

function withoutRejection(step: Step): Step {
  return step.kind === 'set' && step.text?.startsWith('bad') ? { ...step, text: '3' } : step;
}

/** Each step is also taken by a machine with its memos switched off, which has to send the same messages. */
describe('protocol machines against a model proxy', () => {
  after(() => {
    // Known lists of requests are found by their bytes, before the memo is used.
    const unused = [...MEMOS.counts()].filter(([name, { asked, made }]) => asked === made && !name.startsWith('lists'));
    assert.deepEqual(unused, [], 'memos without a hit');
  });

  it('Delta converges, sends nothing twice, and has one response outstanding', () => {
    fc.assert(
      fc.property(steps, (plan) => run(new DeltaSimulation(), plan)),
      RUNS,
    );
  });

  it('SotW converges, sends nothing twice, and has one response outstanding', () => {
    fc.assert(
      fc.property(steps, (plan) => run(new SotwSimulation(), plan)),
      RUNS,
    );
  });

  it('Delta converges on routes and their virtual hosts, however often streams end', () => {
    const step = stepsOf(['rds', 'vhds'], ['a', 'c'], { wire: 14, upheaval: 4 });
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 60, size: 'max' }), (plan) =>
        run(new DeltaSimulation(), plan),
      ),
      RUNS,
    );
  });

  it('Delta converges when a proxy withholds its requests for clusters, and serves it meanwhile', () => {
    // Its subscription to clusters is the wildcard.
    const step = stepsOf(['cds', 'rds'], ['a', 'c'], { wire: 14, upheaval: 2 }).filter(
      (each) => each.kind !== 'names' || each.type !== 'cds',
    );
    const warming = fc.constantFrom(
      'withhold' as const,
      'release' as const,
      'timeOut' as const,
      'checkServed' as const,
    );
    const plan = fc.array(fc.oneof({ weight: 5, arbitrary: step }, { weight: 2, arbitrary: warming }), {
      minLength: 5,
      maxLength: 80,
      size: 'max',
    });
    fc.assert(
      fc.property(plan, fc.boolean(), (steps, rejects) => {
        const sim = new WithholdingSimulation();
        // Every Envoy has listeners: it reports them when it reconnects.
        sim.content.set('lds', 'a', '1', []);
        for (const type of ['cds', 'lds'] as const) sim.connect(type, true, []);
        sim.settle();
        for (const each of steps) {
          // After a rejection, the proxy has to answer before it gets more.
          if (each === 'checkServed' && rejects) sim.timeOut();
          else if (typeof each === 'string') sim[each]();
          else take(sim, rejects ? each : withoutRejection(each));
        }
        settleAll([sim]);
      }),
      RUNS,
    );
  });

  const shared = fc.array(fc.tuple(fc.nat({ max: 5 }), step), { minLength: 10, maxLength: 150, size: 'max' });

  it('Delta proxies of one server converge, each with its own subscriptions', () => {
    fc.assert(
      fc.property(shared, (plan) => {
        const content = new Content();
        runTogether(
          [1, 2, 3].map(() => new DeltaSimulation(content)),
          plan,
        );
      }),
      RUNS_TOGETHER,
    );
  });

  it('SotW proxies of one server converge, each with its own subscriptions', () => {
    fc.assert(
      fc.property(shared, (plan) => {
        const content = new Content();
        runTogether(
          [1, 2, 3].map(() => new SotwSimulation(content)),
          plan,
        );
      }),
      RUNS_TOGETHER,
    );
  });
});
