/**
 * Canaries among clients that lie, are silent, leave or reject everything: no proxy waits longer than the bound, no
 * caller keeps a change from the proxies of another, and at most a few proxies are ever sent what is withheld.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../src/core/testing/properties.ts';
import { SHOP } from '../src/push/testing/faults.ts';
import { endpoints, meshResource } from '../src/push/testing/mesh.ts';
import { Fleet, type Member } from './canary-harness/fleet.ts';
import { BAD, type Behaviour, type SimEnvoy } from './canary-harness/sim-envoy.ts';

/** Of a trial: see MAX_CANARIES. */
const FEW = 4;

const CALLERS = ['spiffe://a', 'spiffe://b', 'spiffe://c'];
const behaviour = fc.constantFrom<Behaviour>('honest', 'honest', 'honest', 'credulous', 'refuser', 'silent', 'leaving');
const member = fc.record({ behaviour, caller: fc.constantFrom(...CALLERS) });
/** Proxies of one variant have the same view. */
const mode = fc.constantFrom('delta' as const, 'sotw' as const);
/** What changes: the cluster or the route of the service, all clusters of new views, endpoints, or who is connected. */
const step = fc.record({
  what: fc.constantFrom('cluster', 'cluster', 'route', 'filter', 'endpoint', 'join'),
  isBad: fc.boolean(),
  /** Another change follows before this one is answered. */
  hasty: fc.boolean(),
});

const HOST = 'web.shop.svc.cluster.local';

function change(
  fleet: Fleet,
  what: string,
  text: string,
  { index, mode }: { index: number; mode: 'delta' | 'sotw' },
): void {
  if (what === 'cluster') {
    const trafficPolicy = { tls: { mode: 'SIMPLE', sni: text } };
    fleet.mesh.change([meshResource('DestinationRule', 'client', 'web', { host: HOST, trafficPolicy })]);
  } else if (what === 'route') {
    const headers = { request: { set: { x: text } } };
    const http = [{ route: [{ destination: { host: HOST } }], headers }];
    fleet.mesh.change([meshResource('VirtualService', 'client', 'web', { hosts: [HOST], http })]);
  } else if (what === 'filter') {
    const configPatches = [{ applyTo: 'CLUSTER', patch: { operation: 'MERGE', value: { alt_stat_name: text } } }];
    fleet.mesh.change([meshResource('EnvoyFilter', 'client', 'names', { configPatches })]);
  } else if (what === 'endpoint') fleet.mesh.change([endpoints('shop', 'web', `10.0.1.${index + 1}`)]);
  else fleet.connect({ address: `10.5.2.${index + 1}`, mode }).started = true;
}

/** Whether the Envoy has a resource with a text. */
function has({ has: resources }: SimEnvoy, text: string): boolean {
  return [...resources.cds.values(), ...resources.rds.values()].some((each) => each.includes(text));
}

function honest({ envoys }: Fleet): SimEnvoy[] {
  return envoys.filter(({ options }) => options.behaviour === 'honest');
}

test('canaries protect honest proxies from what Envoy rejects, and delay nothing for longer than the bound', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(member, { minLength: 4, maxLength: 9 }),
      fc.array(step, { minLength: 1, maxLength: 6 }),
      mode,
      async (members, steps, of) => {
        const fleet = new Fleet(SHOP, 'client', 2);
        await fleet.start(members.map((each, index): Member => ({ ...each, mode: of, address: `10.5.0.${index}` })));
        let isFilterBad = false;
        for (const [index, { what, isBad, hasty }] of steps.entries()) {
          if (what === 'filter') isFilterBad = isBad;
          const text = `${isBad ? BAD : 'good'}-${index}.example`;
          change(fleet, what, text, { index, mode: of });
          if (hasty) continue;
          await fleet.rest();
          if (what === 'endpoint') {
            const address = `10.0.1.${index + 1}`;
            // A proxy that joined alone in its view may have rejected the cluster.
            const having = honest(fleet).filter((envoy) => envoy.has.cds.has(`outbound|80||${HOST}`));
            for (const envoy of having)
              assert.ok(
                [...envoy.has.eds.values()].some((each) => each.includes(address)),
                'endpoints wait for nobody',
              );
          }
          await fleet.bound();
          const { withheld } = fleet;
          for (const session of fleet.mesh.engine.sessions())
            assert.ok(!session.allViews.some((placed) => placed.isAwaitedBy(session)), 'a proxy waits after the bound');
          for (const session of fleet.mesh.engine.sessions())
            assert.ok(!session.isMoving, 'a proxy does not move after the bound');
          const exposed = fleet.envoys.filter(({ bad }) => bad.some((each) => each.includes(text))).length;
          // Clusters of an earlier step may be withheld while a route is not.
          const isWithheld = withheld.some(({ type }) => (what === 'route') === (type !== 'cds'));
          if (isWithheld && isBad) assert.ok(exposed <= FEW, `${exposed} proxies were sent what is withheld`);
          // A bad filter makes every cluster bad.
          const isGood = !isBad && (what === 'route' || what === 'filter' || (what === 'cluster' && !isFilterBad));
          if (isGood && withheld.length === 0)
            for (const envoy of honest(fleet))
              assert.ok(has(envoy, text), 'an honest proxy lacks a change that is not withheld');
        }
        fleet.close();
      },
    ),
    { numRuns: 40 },
  );
});

test('one caller, however many of its proxies lie, keeps no change from the proxies of another', async () => {
  const liar = fc.constantFrom<Behaviour>('refuser', 'silent', 'leaving', 'credulous');
  await fc.assert(
    fc.asyncProperty(
      fc.array(liar, { minLength: 1, maxLength: 8 }),
      fc.constantFrom('cluster', 'route'),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      mode,
      async (liars, what, random, each) => {
        const fleet = new Fleet(SHOP, 'client', 2, () => random);
        await fleet.start([
          ...liars.map((lies, index) => ({
            mode: each,
            behaviour: lies,
            address: `10.5.0.${index}`,
            caller: 'spiffe://liar',
          })),
          ...['10.5.1.1', '10.5.1.2'].map((address) => ({ mode: each, address, caller: 'spiffe://honest' })),
        ]);
        for (const round of [1, 2]) {
          change(fleet, what, `good-${round}.example`, { index: round, mode: each });
          await fleet.rest();
          await fleet.bound();
          assert.ok(honest(fleet).every((envoy) => has(envoy, `good-${round}.example`)));
        }
        fleet.close();
      },
    ),
    { numRuns: 25 },
  );
});
