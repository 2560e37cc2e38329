/** How far documents are with the proxies of a replica, with simulated proxies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { SimulatedMesh, type SimulatedProxy } from '../testing/simulated-mesh.ts';

const [A, B, ROOT] = ['VirtualService/shop/a', 'VirtualService/shop/b', 'EnvoyFilter/root/all'] as const;

/** Pending, rejected, message. */
const found = (mesh: SimulatedMesh, key: string) => {
  const state = mesh.open.of(key);
  return state && [state.pending, state.rejected, state.message];
};

test('a document is pending until its proxies have acknowledged it, and no longer than that', () => {
  const mesh = new SimulatedMesh();
  const [one, other] = [mesh.connect([A]), mesh.connect([A, B])];
  mesh.set(A);
  mesh.clock.advance(500);
  assert.deepEqual(found(mesh, A), [2, 0, '']);
  mesh.answer(one);
  mesh.clock.advance(500);
  assert.deepEqual(found(mesh, A), [1, 0, '']);
  mesh.answer(other);
  mesh.clock.advance(500);
  assert.deepEqual(found(mesh, A), [0, 0, '']);
  mesh.settle(A);
  assert.equal(mesh.open.of(A), undefined);
});

test('a proxy that lacks another document does not hold a document up for long', () => {
  const mesh = new SimulatedMesh();
  const [one] = [mesh.connect([A]), mesh.connect([B])];
  mesh.set(A);
  mesh.set(B);
  mesh.answer(one);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [0, 0, '']);
  assert.deepEqual(found(mesh, B), [1, 0, '']);
});

test('a change that is sent late is pending until it is acknowledged', () => {
  const mesh = new SimulatedMesh();
  const proxy = mesh.connect([A]);
  proxy.sentUntil = mesh.version;
  mesh.set(A);
  mesh.clock.advance(1500);
  assert.deepEqual(found(mesh, A), [1, 0, '']);
  proxy.sentUntil = undefined;
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [1, 0, '']);
  mesh.answer(proxy);
  mesh.clock.advance(500);
  assert.deepEqual(found(mesh, A), [0, 0, '']);
});

test('a rejection is about the documents of the resource, and ends with it', () => {
  const mesh = new SimulatedMesh();
  const proxy = mesh.connect([A, B]);
  mesh.set(A, true);
  mesh.set(B);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [0, 1, `c1.shop rejects it: no ${A}`]);
  assert.deepEqual(found(mesh, B), [0, 0, '']);
  mesh.set(A);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [0, 0, '']);
});

test('a proxy that connects does not open a settled document, and one that rejects it does', () => {
  const mesh = new SimulatedMesh();
  mesh.set(A, true);
  mesh.clock.advance(500);
  mesh.settle(A);
  const proxy = mesh.connect([A]);
  mesh.clock.advance(3000);
  assert.equal(mesh.open.of(A), undefined);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A)?.slice(0, 2), [0, 1]);
  mesh.disconnect(proxy);
  mesh.clock.advance(3000);
  assert.equal(mesh.open.of(A), undefined);
});

test('what a proxy of another namespace says is shown in documents of the root namespace only', () => {
  const mesh = new SimulatedMesh();
  const proxy = mesh.connect([A, ROOT], 'elsewhere');
  mesh.set(A, true);
  mesh.set(ROOT, true);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [0, 1, 'a proxy of another namespace rejects it']);
  assert.deepEqual(found(mesh, ROOT), [0, 1, `c1.elsewhere rejects it: no ${ROOT}`]);
});

test('a resource that is withheld because of a rejection is one', () => {
  const mesh = new SimulatedMesh();
  mesh.connect([A]);
  mesh.set(A);
  mesh.withheld.set(A, { proxy: 'c9.shop', namespace: 'shop', namespaces: new Set(['shop']), message: 'bad' });
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [1, 1, 'c9.shop rejects it: bad']);
});

test('what a proxy says about documents of several namespaces is shown in those of the root namespace only', () => {
  const mesh = new SimulatedMesh();
  const proxy = mesh.connect([A, ROOT]);
  mesh.documentsOf = (resource) => [resource, 'Service/other/web'];
  mesh.set(A, true);
  mesh.set(ROOT, true);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  assert.deepEqual(found(mesh, A), [0, 1, 'a proxy rejects it']);
  assert.deepEqual(found(mesh, ROOT), [0, 1, `c1.shop rejects it: no ${ROOT}`]);
});

test('credentials are removed from what a proxy says', () => {
  const mesh = new SimulatedMesh();
  const proxy = mesh.connect([A]);
  mesh.said = () => 'bad header {\n key: "authorization"\n value: "S3cret"\n}';
  mesh.set(A, true);
  mesh.answer(proxy);
  mesh.clock.advance(3000);
  const message = 'c1.shop rejects it: bad header { key: "authorization" value: "[redacted]" }';
  assert.deepEqual(found(mesh, A), [0, 1, message]);
});

const many = (count: number) => Array.from({ length: count }, (_, index) => `VirtualService/shop/many-${index}`);

test('of many documents that a proxy rejects, none counts as accepted, and all are found in turn', () => {
  const mesh = new SimulatedMesh();
  const keys = many(20);
  const proxy = mesh.connect([...keys, A]);
  mesh.connect([B]);
  for (const key of keys) mesh.set(key, true);
  mesh.set(B);
  mesh.answer(proxy);
  for (let look = 0; look < 10; look++) {
    mesh.clock.advance(500);
    for (const key of keys) assert.notDeepEqual(found(mesh, key)?.slice(0, 2), [0, 0], key);
  }
  for (const key of keys) assert.deepEqual(found(mesh, key)?.slice(0, 2), [0, 1], key);
  for (const key of keys) mesh.set(key);
  mesh.answer(proxy);
  mesh.clock.advance(5000);
  for (const key of keys) assert.deepEqual(found(mesh, key)?.slice(0, 2), [0, 0], key);
});

test('a settled document is rejected, however many others the proxy rejects before it', () => {
  const mesh = new SimulatedMesh();
  const keys = many(40);
  for (const key of [...keys, A]) mesh.set(key, true);
  mesh.clock.advance(500);
  for (const key of [...keys, A]) mesh.settle(key);
  const proxy = mesh.connect([...keys, A]);
  mesh.answer(proxy);
  mesh.clock.advance(5000);
  assert.deepEqual(found(mesh, A), [0, 1, `c1.shop rejects it: no ${A}`]);
  // The resource is generated from other documents now.
  mesh.documentsOf = (resource) => (resource === A ? [B] : [resource]);
  mesh.set(B);
  mesh.clock.advance(5000);
  assert.deepEqual(found(mesh, A)?.slice(0, 2), undefined);
});

test('a rejected resource is traced behind more unanswered ones than rejected ones are listed', () => {
  const mesh = new SimulatedMesh();
  const keys = many(1_100);
  for (const key of [...keys, A]) mesh.set(key, key === A);
  mesh.clock.advance(500);
  for (const key of [...keys, A]) mesh.settle(key);
  const proxy = mesh.connect([...keys, A]);
  mesh.answer(proxy);
  for (const key of keys) proxy.accepted.delete(key);
  mesh.clock.advance(5_000);
  assert.deepEqual(found(mesh, A)?.slice(0, 2), [0, 1]);
});

test('of more rejected resources than are listed, those that are listed are traced once', () => {
  const mesh = new SimulatedMesh();
  const keys = many(1_100);
  for (const key of keys) mesh.set(key, true);
  mesh.clock.advance(500);
  for (const key of keys) mesh.settle(key);
  const traced = new Set<string>();
  // Of resources that no document describes, no document is examined further.
  mesh.documentsOf = (resource) => {
    traced.add(resource);
    return [];
  };
  const proxy = mesh.connect(keys);
  mesh.answer(proxy);
  mesh.clock.advance(100_000);
  assert.equal(traced.size, 1_000);
  let looks = 0;
  mesh.onUnaccepted = () => void looks++;
  mesh.clock.advance(60_000);
  assert.equal(looks, 0);
  mesh.set(B);
  mesh.clock.advance(1_000);
  assert.ok(looks > 0);
});

test('a proxy that does not answer holds up the documents that it uses only, however many', () => {
  const mesh = new SimulatedMesh();
  const keys = many(20);
  mesh.connect(keys);
  mesh.answer(mesh.connect([A]));
  for (const key of [...keys, A]) mesh.set(key);
  for (const proxy of mesh.proxies.keys()) if (proxy.uses.has(A)) mesh.answer(proxy);
  mesh.clock.advance(5000);
  for (const key of keys) assert.deepEqual(found(mesh, key), [1, 0, ''], key);
  assert.deepEqual(found(mesh, A), [0, 0, '']);
});

test('a document that is deleted while a proxy rejects it is forgotten', () => {
  for (const isLate of [false, true]) {
    const mesh = new SimulatedMesh();
    const proxy = mesh.connect([A]);
    mesh.set(A, true);
    mesh.answer(proxy);
    mesh.clock.advance(3000);
    assert.deepEqual(found(mesh, A)?.slice(0, 2), [0, 1]);
    mesh.delete(A, isLate);
    mesh.clock.advance(3000);
    assert.equal(mesh.open.states().size, 0);
  }
});

test('a visit ends in time where it is expensive to explain proxies, and the next one goes on', () => {
  const mesh = new SimulatedMesh();
  const at: number[] = [];
  mesh.onUnaccepted = () => {
    at.push(mesh.clock.now());
    mesh.clock.pass(4);
  };
  for (let index = 0; index < 6; index++) mesh.connect([B]);
  mesh.set(B);
  mesh.set(A);
  for (let index = 0; index < 40; index++) mesh.clock.advance(250);
  // Those of a visit follow each other at once.
  const inOneVisit = (index: number) => at[index + 2] === (at[index] ?? 0) + 8;
  assert.ok(at.length >= 6 && !at.some((_, index) => inOneVisit(index)), at.join());
  assert.deepEqual(found(mesh, A), [0, 0, '']);
});

test('a generation that the store does not have yet is not examined', () => {
  const mesh = new SimulatedMesh();
  mesh.set(A);
  mesh.open.changed(A, 2);
  mesh.clock.advance(20_000);
  assert.equal(mesh.open.of(A), undefined);
  mesh.set(A);
  mesh.clock.advance(500);
  assert.equal(mesh.open.of(A)?.generation, 2);
});

test('when all is quiet, the numbers are those of the proxies, whatever happened before', () => {
  const keys = [A, B, 'Gateway/shop/c', ROOT];
  const key = fc.constantFrom(...keys);
  const step = fc.oneof(
    fc.record({ do: fc.constant('set' as const), key, isBad: fc.boolean() }),
    fc.record({ do: fc.constant('connect' as const), uses: fc.subarray(keys) }),
    fc.record({ do: fc.constantFrom('answer' as const, 'leave' as const, 'delay' as const), index: fc.nat(9) }),
    fc.record({ do: fc.constant('settle' as const), key }),
    fc.record({ do: fc.constant('delete' as const), key, isLate: fc.boolean() }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.nat(1500) }),
  );
  const property = fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
    const mesh = new SimulatedMesh();
    const settled = new Set<string>();
    const nth = (index: number): SimulatedProxy | undefined => [...mesh.proxies.keys()][index % mesh.proxies.size];
    for (const each of steps) {
      const proxy = 'index' in each ? nth(each.index) : undefined;
      if (each.do === 'set') {
        mesh.set(each.key, each.isBad);
        settled.delete(each.key);
      } else if (each.do === 'delete') {
        mesh.delete(each.key, each.isLate);
        settled.delete(each.key);
      } else if (each.do === 'connect') mesh.connect(each.uses);
      else if (each.do === 'answer' && proxy !== undefined) mesh.answer(proxy);
      else if (each.do === 'leave' && proxy !== undefined) mesh.disconnect(proxy);
      else if (each.do === 'delay' && proxy !== undefined)
        proxy.sentUntil = proxy.sentUntil === undefined ? mesh.version : undefined;
      else if (each.do === 'pass') mesh.clock.advance(each.ms);
      else if (each.do === 'settle') {
        // As the leader does: only what nobody lacks.
        const state = mesh.open.of(each.key);
        if (state === undefined || state.pending + state.rejected > 0) continue;
        mesh.settle(each.key);
        settled.add(each.key);
      }
    }
    for (const proxy of mesh.proxies.keys()) proxy.sentUntil = undefined;
    mesh.clock.advance(60_000);
    for (const document of mesh.open.states().keys()) assert.ok(mesh.documents.has(document), document);
    for (const [document, { since }] of mesh.documents) {
      const users = [...mesh.proxies.keys()].filter(({ uses }) => uses.has(document));
      const rejected = users.filter((proxy) => proxy.rejected.get(document) === since).length;
      const has = ({ accepted, rejected: refused }: SimulatedProxy) =>
        accepted.get(document) === since || refused.get(document) === since;
      const lacking = users.filter((proxy) => !has(proxy));
      const state = mesh.open.of(document);
      if (settled.has(document) && rejected === 0) assert.equal(state, undefined, document);
      else {
        assert.equal(state?.rejected, rejected, document);
        // Proxies that connect later may count or not: all that were there have it.
        const before = lacking.filter((proxy) => proxy.since < since);
        assert.ok(state.pending >= before.length && state.pending <= lacking.length, `${document}: ${state.pending}`);
      }
    }
  });
  fc.assert(property, { numRuns: 300 });
});
