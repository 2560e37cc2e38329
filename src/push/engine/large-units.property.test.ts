/**
 * Large units, such as all virtual hosts of a port, cross the thread border as differences from those of other views.
 * Whatever changes between them, each proxy has what a new engine would give it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { content, inline, Mesh, service, sidecar } from '../testing/mesh.ts';
import type { ProxySession } from '../types.ts';

const NAMESPACES = ['a', 'b', 'c'];
/** More than are sent as a whole, without those that come later. */
const COUNT = 36;

const namespace = fc.constantFrom(...NAMESPACES);
const step = fc.oneof(
  fc.record({ kind: fc.constant('join' as const), namespace }),
  fc.record({ kind: fc.constant('leave' as const), at: fc.nat(9) }),
  fc.record({ kind: fc.constant('change' as const), namespace, at: fc.nat(COUNT), address: fc.nat(3) }),
  fc.record({ kind: fc.constant('remove' as const), namespace, at: fc.nat(COUNT) }),
  fc.record({ kind: fc.constant('settle' as const) }),
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const made = (namespaceOf: string, at: number, address: number) =>
  service(namespaceOf, `s${at}`, { clusterIP: `10.${address}.${NAMESPACES.indexOf(namespaceOf)}.${at}` });

/** Of a proxy that discovers virtual hosts, as most do. */
const nodeOf = (namespaceOf: string, index: number) => ({
  ...sidecar(`10.200.0.${index}`, namespaceOf),
  discoversVirtualHosts: index % 4 !== 3,
});

/** A mesh and the proxies that are connected. */
class Run {
  readonly services = new Map<string, AnyResource>();
  readonly mesh: Mesh;
  readonly proxies: { readonly node: ProxyNode; readonly session: ProxySession }[] = [];

  constructor() {
    for (let at = 0; at < COUNT; at++) this.#set(made(NAMESPACES[at % 2] ?? '', at, 0));
    this.mesh = new Mesh(inline, [...this.services.values()]);
  }

  #set(each: AnyResource): AnyResource {
    this.services.set(keyOf(each), each);
    return each;
  }

  async take(each: Step, index: number): Promise<void> {
    const { mesh, proxies } = this;
    if (each.kind === 'join') {
      const node = nodeOf(each.namespace, index + 1);
      proxies.push({ node, session: mesh.connect(node).session });
    }
    if (each.kind === 'leave') for (const { session } of proxies.splice(each.at, 1)) session.close();
    if (each.kind === 'change') mesh.change([this.#set(made(each.namespace, each.at, each.address))]);
    if (each.kind === 'remove') {
      const key = keyOf(made(each.namespace, each.at, 0));
      if (this.services.delete(key)) mesh.change([], [key]);
    }
    if (each.kind === 'settle') await mesh.settled();
  }
}

test('property: proxies have all virtual hosts of their namespaces, whichever were sent for others', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
      const run = new Run();
      for (const [index, each] of steps.entries()) await run.take(each, index);
      await run.mesh.settled();
      assert.deepEqual(run.mesh.failures, []);
      for (const { node, session } of run.proxies) {
        const fresh = new Mesh(inline, [...run.services.values()]);
        const again = fresh.connect(node).session;
        await fresh.settled();
        assert.deepEqual(content(session), content(again));
      }
    }),
    { numRuns: 20 },
  );
});
