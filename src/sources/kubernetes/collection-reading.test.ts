import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KubernetesObject } from '../../kubernetes/index.ts';
import { ReadingLoop } from '../testing/reading-loop.ts';
import { CollectionReading } from './collection-reading.ts';
import type { ReceivedObject } from './read-object.ts';

const MIB = 1024 * 1024;

/** Collections whose objects take the time that the name of their reader says, and what was reported. */
function collections() {
  const loop = new ReadingLoop();
  /** `kind/namespace/name@version`, or `-kind/namespace/name`, with the time at which it was reported, ms. */
  const reported: { readonly at: number; readonly change: string }[] = [];
  const collection = (name: string, cost: number) =>
    new CollectionReading(name, loop.reading, {
      read: (received) => {
        loop.spend(cost);
        const origin = { source: 'test', resourceVersion: received.object.metadata.resourceVersion ?? '' };
        const problem = { id: received.key, key: received.key, origin, field: '', message: '' };
        return { type: 'invalid', problem, eventTime: 0 };
      },
      report: (changes) => {
        for (const change of changes) {
          if (change.type === 'delete') reported.push({ at: loop.now, change: `-${change.key}` });
          else if (change.type === 'invalid') {
            const { id, origin } = change.problem;
            reported.push({ at: loop.now, change: `${id}@${origin.resourceVersion}` });
          }
        }
      },
      onFailure: (error) => assert.fail(String(error)),
    });
  return { loop, reported, changes: () => reported.map(({ change }) => change), collection };
}

function set(kind: string, namespace: string, name: string, version: number, more: object = {}): ReceivedObject {
  const object: KubernetesObject = {
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace, resourceVersion: String(version) },
    ...more,
  };
  return { key: `${kind}/${namespace}/${name}`, object, eventTime: 0 };
}

const POLICY = 'AuthorizationPolicy';
const policy = (name: string, version: number) => set(POLICY, 'shop', name, version);
const routes = (count: number, more: object = {}) =>
  Array.from({ length: count }, (_, index) => set('VirtualService', 'shop', `route-${index}`, 1, more));

describe('changed objects that wait', () => {
  test('of policies are read in the order of their changes, versions in a row as one', () => {
    const { loop, changes, collection } = collections();
    // Each takes a slice, so that the others wait.
    const policies = collection('policies', 20);
    policies.add([policy('first', 1)]);
    policies.add([policy('a', 1), policy('a', 2)]);
    policies.add([policy('b', 1), policy('a', 3)]);
    policies.add([policy('c', 1)]);
    policies.add([{ type: 'delete', key: `${POLICY}/shop/b`, eventTime: 0 }]);
    policies.add([policy('c', 2), policy('c', 3), policy('b', 4)]);
    policies.add([policy('b', 5)]);
    loop.finish();
    const names = changes().map((change) => change.replace(`${POLICY}/shop/`, ''));
    assert.deepEqual(names, ['first@1', 'a@2', 'b@1', 'a@3', 'c@1', '-b', 'c@3', 'b@5']);
  });

  test('of policies and endpoints are read before the other documents of a namespace that floods', () => {
    const { loop, reported, collection } = collections();
    const [flood, policies, slices] = [collection('a', 100), collection('b', 1), collection('c', 1)];
    flood.add(routes(1000));
    const began = loop.now;
    policies.add([policy('deny', 1)]);
    slices.add([set('EndpointSlice', 'shop', 'web', 1)]);
    loop.finish();
    for (const change of [`${POLICY}/shop/deny@1`, 'EndpointSlice/shop/web@1']) {
      const at = reported.find((each) => each.change === change)?.at ?? Number.POSITIVE_INFINITY;
      assert.ok(at - began <= 200, `${change} after ${at - began} ms`);
    }
  });

  test('use a bounded memory: beyond it, they are read when they arrive', () => {
    const { loop, changes, collection } = collections();
    const flood = collection('a', 100);
    flood.add(routes(100, { spec: 'x'.repeat(MIB) }));
    assert.ok(changes().length >= 92, `${100 - changes().length} MiB wait`);
    assert.ok(changes().length < 95);
    collection('b', 1).add([set('VirtualService', 'other', 'web', 1)]);
    assert.ok(!changes().includes('VirtualService/other/web@1'));
    loop.finish();
    assert.equal(changes().length, 101);
  });

  test('use a bounded memory in all namespaces', () => {
    const { loop, changes, collection } = collections();
    const flood = collection('a', 100);
    const large = { spec: 'x'.repeat(MIB) };
    for (let n = 0; n < 100; n++) flood.add([set('VirtualService', `ns-${n % 25}`, `route-${n}`, 1, large)]);
    assert.ok(changes().length >= 36, `${100 - changes().length} MiB wait`);
    loop.finish();
    assert.equal(changes().length, 100);
  });

  test('are read when they arrive, if they are nested too deeply to be measured', () => {
    const { changes, collection } = collections();
    let spec: unknown = 0;
    for (let depth = 0; depth < 100_000; depth++) spec = [spec];
    const deep = collection('a', 20);
    deep.add(routes(1));
    deep.add([set('VirtualService', 'shop', 'deep', 1, { spec })]);
    assert.ok(changes().includes('VirtualService/shop/deep@1'));
  });
});
