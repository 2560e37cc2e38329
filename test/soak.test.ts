/**
 * Soak of the engine: thousands of proxies that connect and disconnect while configuration churns leave nothing in its
 * tables.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ProxyNode } from '../src/core/proxy.ts';
import { endpoints, inline, Mesh, service, sidecar, virtualService } from '../src/push/testing/mesh.ts';
import type { ProxySession } from '../src/push/types.ts';

const CONNECTIONS = 2000;
const NAMESPACES = 10;
/** Proxies connected at a time. */
const LIVE = 25;

/** The collector, without a flag for the whole test run. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

function node(index: number): ProxyNode {
  // Some addresses have services, and localities differ: views are created and removed with the proxies.
  const plain = sidecar(`10.0.${index % 7}.${index % 250}`, `ns${index % NAMESPACES}`);
  return { ...plain, locality: `region/zone${index % 5 === 0 ? index % 1500 : 0}` };
}

test(`${CONNECTIONS} proxies that come and go under churn leave nothing in the tables of the engine`, async () => {
  const gc = collector();
  const mesh = new Mesh(inline, [service('shop', 'web'), endpoints('shop', 'web', '10.0.1.1')]);
  const live: ProxySession[] = [];
  const turn = async (index: number): Promise<void> => {
    live.push(mesh.connect(node(index)).session);
    if (live.length > LIVE) live.splice(index % LIVE, 1)[0]?.close();
    if (index % 5 === 0) mesh.change([endpoints('shop', 'web', `10.0.${index % 7}.${index % 250}`)]);
    if (index % 50 === 0) mesh.change([virtualService('shop', 'web', `${1 + (index % 40)}s`)]);
    if (index % 100 === 0) mesh.change([service(`ns${index % NAMESPACES}`, `svc${index % 300}`)]);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const rest = async (): Promise<number> => {
    for (const session of live.splice(0)) session.close();
    await mesh.settled();
    for (let attempt = 0; attempt < 3; attempt++) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      gc();
    }
    return mesh.engine.stats().interned;
  };
  for (let index = 0; index < CONNECTIONS / 2; index++) await turn(index);
  const half = await rest();
  for (let index = CONNECTIONS / 2; index < CONNECTIONS; index++) await turn(index);
  const end = await rest();
  const { queued, underWay, views } = mesh.engine.stats();
  assert.deepEqual(
    { queued, underWay, sessions: [...mesh.engine.sessions()].length },
    { queued: 0, underWay: 0, sessions: 0 },
  );
  assert.ok(views <= 256, `${views} views`);
  assert.ok(end <= half * 1.2 + 50, `${end} resources are interned, ${half} at half time`);
  assert.deepEqual(mesh.failures, []);
});
