/**
 * Whatever happens to a stand-in for Consul, and however it answers meanwhile: when it is quiet, the documents are
 * those of its state.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { registrationOf } from './answers.ts';
import { serviceDocuments } from './documents.ts';
import { followRegistry, instance, SETTINGS } from './testing/followed-registry.ts';
import type { Fault } from './testing/in-memory-call.ts';
import { type StandInInstance, StandInRegistry } from './testing/stand-in-registry.ts';

const FAULTS: readonly Fault[] = [
  'error 500',
  'error 429',
  'closed',
  'half',
  'empty',
  'no index',
  'no leader',
  'silent',
];

interface World {
  readonly registry: StandInRegistry;
  fault: Fault | undefined;
  delayMs: number;
}

/** Changes the world; returns how long it stays so, ms. */
type Step = (world: World) => number;

const number = fc.integer({ min: 1, max: 5 });
const service = fc.constantFrom('a', 'b', 'c');
const state = fc.constantFrom('passing', 'warning', 'critical');

/** Two losses at once: the second one begins at the index at which the first one was seen. */
const LOST_TWICE: readonly Step[] = [
  always(({ registry }) => registry.rewind()),
  () => 1,
  always(({ registry }) => registry.deregister('node-1', 'a-1')),
  always(({ registry }) => registry.rewind()),
];

function always(change: (world: World) => void): Step {
  return (world) => {
    change(world);
    return 0;
  };
}

function made(name: string, n: number, version: number, status?: string): StandInInstance {
  const { status: _status, ...known } = instance(name, `${name}-${n}`, { tags: [`version|v${version}`] });
  return status === undefined ? known : { ...known, status };
}

const nodeOf = (n: number): string => `node-${n % 3}`;
const register = fc
  .tuple(service, number, number, fc.option(state, { nil: undefined }))
  .map(([name, n, version, status]) => always(({ registry }) => registry.register(made(name, n, version, status))));
const deregister = fc
  .tuple(service, number)
  .map(([name, n]) => always(({ registry }) => registry.deregister(nodeOf(n), `${name}-${n}`)));
const check = fc
  .tuple(service, number, state)
  .map(([name, n, status]) => always(({ registry }) => registry.setStatus(nodeOf(n), `${name}-${n}`, status)));
const checkNode = fc
  .tuple(number, state)
  .map(([n, status]) => always(({ registry }) => registry.setNodeStatus(nodeOf(n), status)));
const lose = fc.constantFrom(
  always(({ registry }) => registry.rewind()),
  always(({ registry }) => registry.restartEmpty()),
);
const fault = fc
  .constantFrom(undefined, ...FAULTS)
  .map((kind) => always((world) => Object.assign(world, { fault: kind })));
const delay = fc.integer({ min: 0, max: 300 }).map((delayMs) => always((world) => Object.assign(world, { delayMs })));
const wait = fc.integer({ min: 1, max: 2000 }).map((ms) => (): number => ms);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: register },
  { weight: 3, arbitrary: deregister },
  { weight: 8, arbitrary: check },
  { weight: 3, arbitrary: checkNode },
  { weight: 1, arbitrary: lose },
  { weight: 2, arbitrary: fault },
  { weight: 2, arbitrary: delay },
  { weight: 12, arbitrary: wait },
);

/** The documents of the stand-in's state, made without reading it by requests. */
function expectedOf(registry: StandInRegistry): ReadonlyMap<string, string> {
  const expected = new Map<string, string>();
  for (const name of ['a', 'b', 'c']) {
    const { body = '[]' } = registry.answer(`/v1/health/service/${name}`) ?? {};
    const instances = (JSON.parse(body) as unknown[])
      .map(registrationOf)
      .filter((each) => typeof each === 'object')
      .map((each) => ({ ...each, status: each.critical ? 'critical' : each.warning ? 'warning' : 'passing' }) as const)
      .sort((x, y) => (`${x.node}\0${x.id}` < `${y.node}\0${y.id}` ? -1 : 1));
    for (const [key, event] of serviceDocuments(name, instances, SETTINGS, 0)) {
      if (event.type === 'set') expected.set(key, event.resource.fingerprint);
    }
  }
  return expected;
}

test('any order of changes and failures ends in the state of the stand-in for Consul', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const registry = new StandInRegistry();
      for (const name of ['a', 'b', 'c']) registry.register(...[1, 2, 3].map((n) => made(name, n, 1, 'passing')));
      const world: World = { registry, fault: undefined, delayMs: 0 };
      const answers = { fault: () => world.fault, delayMs: () => world.delayMs };
      const { source, clock, resources, isSynced } = followRegistry(registry, { ...answers, holdMs: 30_000 });
      for (const each of steps) {
        const ms = each(world);
        if (ms > 0) await clock.advance(ms);
      }
      Object.assign(world, { fault: undefined, delayMs: 0 });
      await clock.advance(180_000);
      const found = [...resources].map(([key, { fingerprint }]): [string, string] => [key, fingerprint]);
      assert.deepEqual(new Map(found), expectedOf(registry));
      assert.deepEqual([isSynced(), source.health()], [true, { ok: true }]);
      await source.close();
    }),
    { numRuns: 60, examples: [[[...LOST_TWICE]]] },
  );
});
