/**
 * Whatever happens to a stand-in for Consul, and however it answers meanwhile: when it is quiet, the documents are those
 * of its state.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { registrationOf } from './answers.ts';
import { serviceDocuments } from './documents.ts';
import { followRegistry, instance, SETTINGS } from './testing/followed-registry.ts';
import type { Fault } from './testing/in-memory-call.ts';
import { StandInRegistry } from './testing/stand-in-registry.ts';

const SERVICES = ['a', 'b', 'c'] as const;
const STATES = ['passing', 'warning', 'critical'] as const;
const FAULTS: readonly (Fault | undefined)[] = [
  undefined,
  'error 500',
  'error 429',
  'closed',
  'half',
  'empty',
  'no index',
  'no leader',
  'silent',
];

type Step = (registry: StandInRegistry, world: { fault: Fault | undefined; delayMs: number }) => number;

const number = fc.integer({ min: 1, max: 6 });
const place = fc.tuple(fc.constantFrom(...SERVICES), number);

function steps(): fc.Arbitrary<Step> {
  const id = (service: string, n: number): string => `${service}-${n}`;
  return fc.oneof(
    fc.tuple(place, fc.constantFrom(...STATES, undefined), number).map(
      ([[service, n], status, version]): Step =>
        (registry) => {
          const { status: _none, ...known } = instance(service, id(service, n), { tags: [`version|v${version}`] });
          registry.register(status === undefined ? known : { ...known, status });
          return 0;
        },
    ),
    place.map(
      ([service, n]): Step =>
        (registry) => {
          registry.deregister(`node-${n % 3}`, id(service, n));
          return 0;
        },
    ),
    fc.tuple(place, fc.constantFrom(...STATES)).map(
      ([[service, n], status]): Step =>
        (registry) => {
          registry.setStatus(`node-${n % 3}`, id(service, n), status);
          return 0;
        },
    ),
    fc.tuple(number, fc.constantFrom(...STATES)).map(
      ([n, status]): Step =>
        (registry) => {
          registry.setNodeStatus(`node-${n % 3}`, status);
          return 0;
        },
    ),
    fc.constantFrom<Step>(
      (registry) => {
        registry.rewind();
        return 0;
      },
      (registry) => {
        registry.restartEmpty();
        return 0;
      },
    ),
    fc.constantFrom(...FAULTS).map(
      (fault): Step =>
        (_registry, world) => {
          world.fault = fault;
          return 0;
        },
    ),
    fc.integer({ min: 0, max: 300 }).map(
      (delayMs): Step =>
        (_registry, world) => {
          world.delayMs = delayMs;
          return 0;
        },
    ),
    fc.integer({ min: 1, max: 2000 }).map(
      (ms): Step =>
        () =>
          ms,
    ),
  );
}

/** The documents of the stand-in's state, made without reading it by requests. */
function expectedOf(registry: StandInRegistry): Record<string, string> {
  const expected: Record<string, string> = {};
  for (const service of SERVICES) {
    const { body = '[]' } = registry.answer(`/v1/health/service/${service}`) ?? {};
    const instances = (JSON.parse(body) as unknown[])
      .flatMap((each) => registrationOf(each) ?? [])
      .map((each) => ({ ...each, status: each.critical ? 'critical' : each.warning ? 'warning' : 'passing' }) as const)
      .sort((x, y) => (`${x.node}\0${x.id}` < `${y.node}\0${y.id}` ? -1 : 1));
    for (const [key, event] of serviceDocuments(service, instances, SETTINGS, 0)) {
      if (event.type === 'set') expected[key] = event.resource.fingerprint;
    }
  }
  return expected;
}

test('any order of changes and failures ends in the state of the stand-in for Consul', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps(), { maxLength: 40 }), async (all) => {
      const registry = new StandInRegistry();
      const world: { fault: Fault | undefined; delayMs: number } = { fault: undefined, delayMs: 0 };
      const followed = followRegistry(registry, {
        fault: () => world.fault,
        delayMs: () => world.delayMs,
        holdMs: 30_000,
      });
      for (const step of all) {
        const ms = step(registry, world);
        if (ms > 0) await followed.clock.advance(ms);
      }
      Object.assign(world, { fault: undefined, delayMs: 0 });
      await followed.clock.advance(180_000);
      const found = [...followed.resources].map(([key, { fingerprint }]) => [key, fingerprint]);
      assert.deepEqual(
        Object.fromEntries(found.toSorted()),
        Object.fromEntries(Object.entries(expectedOf(registry)).toSorted()),
      );
      assert.deepEqual([followed.isSynced(), followed.source.health()], [true, { ok: true }]);
      await followed.source.close();
    }),
    { numRuns: Number(process.env.CONSUL_RUNS ?? 60) },
  );
});
