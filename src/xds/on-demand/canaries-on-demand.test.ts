/** Trials of changed resources where proxies are on demand: those that hold what changed try it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { inline, Mesh, service, sidecar, virtualService } from '../../push/testing/mesh.ts';
import type { ProxySession } from '../../push/types.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import { concernedNames } from './concerned-names.ts';

const HOSTS = ['a', 'b', 'c'];

/** Connects one proxy for each list of hosts, which it has asked for. */
async function start(all: readonly (readonly string[])[]) {
  const shared = newShared();
  const services = HOSTS.map((name, at) => service('shop', name, { clusterIP: `10.9.1.${at}` }));
  const mesh = new Mesh(inline, services, { canaryAbove: 0, concerned: concernedNames });
  /** Proxies that were asked about a resource. */
  const tried = new Set<number>();
  const sessions = all.map((hosts, index) => {
    const demand = newDemand(shared);
    const node = { ...sidecar(`10.1.0.${index + 1}`, 'shop'), discoversVirtualHosts: true };
    let session: ProxySession | undefined;
    const partsOf = (of: ProxySession) => {
      const parts = demand.parts(of.content(), of.onDemand);
      of.hold(demand.held);
      return parts;
    };
    const subscribe = shared.names.of(hosts.map((host) => `80/${host}`));
    const asking = { mode: 'on-demand' as const, workload: node.workload, at: 0, since: 0 };
    demand.receive('vhds', { ...EMPTY_REQUEST, subscribe }, asking);
    session = mesh.engine.connect(
      { ...node, options: { configuration: 'on-demand' } },
      {
        answerOf: (type, name) => {
          if (name === '' || session === undefined) return 'unrequested';
          const isHeld = partsOf(session)[type].some((bundle) => bundle.get(name) !== undefined);
          if (isHeld) tried.add(index);
          return isHeld ? 'accepted' : 'unrequested';
        },
        push: () => {
          if (session === undefined) return 'nothing';
          partsOf(session);
          session.synced(session.version());
          session.answered();
          return 'sent';
        },
      },
      'of shop',
    );
    return { session, partsOf };
  });
  await Promise.all(sessions.map(({ session }) => session.ready));
  for (const { session, partsOf } of sessions) partsOf(session);
  await mesh.settled();
  return { mesh, tried, sessions };
}

test('property: a changed host is tried by proxies that hold it, and by nobody where there are none', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.subarray(HOSTS), { minLength: 1, maxLength: 6 }),
      fc.constantFrom(...HOSTS),
      async (asked, changed) => {
        const { mesh, tried, sessions } = await start(asked);
        mesh.trials.length = 0;
        tried.clear();
        mesh.change([virtualService('shop', changed, '7s')]);
        await mesh.settled();
        const holders = asked.flatMap((hosts, index) => (hosts.includes(changed) ? [index] : []));
        assert.deepEqual(mesh.trials, holders.length > 0 ? ['accepted'] : []);
        assert.equal(tried.size, Math.min(2, holders.length));
        for (const index of tried) assert.ok(holders.includes(index), `${index} of ${holders.join()}`);
        for (const { session } of sessions) session.close();
      },
    ),
    { numRuns: 25 },
  );
});
