/** Clusters of TCP services, for which Envoy asks by name when a connection needs them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bundle } from '../../push/index.ts';
import { inline, Mesh, meshResource, service, sidecar } from '../../push/testing/mesh.ts';
import { type AnyResource, resourceKey } from '../../resources/index.ts';
import type { DeltaRequest } from '../protocol/index.ts';
import { EMPTY_REQUEST, newDemand, newShared } from '../testing/demand.ts';
import type { Demand } from './demand.ts';
import type { SharedDemand } from './shared-demand.ts';

const NAMESPACE = 'shop';
const nameOf = (name: string) => `outbound|9000||${name}.${NAMESPACE}.svc.cluster.local`;

const tcp = (name: string, last: number) =>
  service(NAMESPACE, name, { clusterIP: `10.9.1.${last}`, ports: [{ name: 'tcp', port: 9000 }] });

async function started(...more: readonly AnyResource[]) {
  const mesh = new Mesh(inline, [tcp('a', 1), tcp('b', 2), tcp('c', 3), ...more]);
  const { session } = mesh.connect({
    ...sidecar('10.1.0.1', NAMESPACE),
    discoversVirtualHosts: true,
    options: { configuration: 'learned' },
  });
  await Promise.all((['lds', 'ecds'] as const).map((type) => session.need(type)));
  await session.ready;
  return { mesh, session, shared: newShared() };
}

function ask({ names }: SharedDemand, demand: Demand, asked: readonly string[]): DeltaRequest {
  const request = { ...EMPTY_REQUEST, subscribe: names.of(asked) };
  return demand.receive('cds', request, { mode: 'learned', workload: 'pod.shop', at: 0, since: 0 });
}

const clusters = (bundles: readonly Bundle[]) =>
  bundles
    .flatMap((bundle) => bundle.resources().map(({ name }) => name))
    .filter((name) => name.startsWith('outbound|'));

test('a proxy gets the cluster that it asks for, the next one of its view has it, and all can be given', async () => {
  const { session, shared } = await started();
  const has = (demand: Demand) => clusters(demand.parts(session.content(), 'learned').cds).sort();
  const [first, second] = [newDemand(shared), newDemand(shared)];
  assert.deepEqual([has(first), has(second)], [[], []]);
  const request = ask(shared, first, [nameOf('a'), nameOf('unknown')]);
  assert.ok(request.subscribe.has(nameOf('unknown')), 'the protocol answers names that do not exist');
  assert.deepEqual(has(first), [nameOf('a')]);
  assert.deepEqual([has(second), has(newDemand(shared))], [[nameOf('a')], [nameOf('a')]]);
  assert.deepEqual(clusters(newDemand(shared).parts(session.content(), 'on-demand').cds), []);
  second.giveAskable(session.content());
  assert.deepEqual(has(second), ['a', 'b', 'c'].map(nameOf));
  assert.deepEqual(has(first), [nameOf('a')], 'what a proxy is given because it cannot ask is not learned');
  session.close();
});

test('in place of a cluster that does not exist, and that a listener names, a proxy has one without endpoints', async () => {
  const tcpRoute = [{ route: [{ destination: { host: 'late' } }] }];
  const routed = meshResource('VirtualService', NAMESPACE, 'a', { hosts: ['a'], tcp: tcpRoute });
  const { mesh, session, shared } = await started(routed);
  const demand = newDemand(shared);
  const content = () => demand.parts(session.content(), 'on-demand').cds;
  const endpoints = () => content().flatMap((bundle) => bundle.get(nameOf('late'))?.refs.length ?? []);
  ask(shared, demand, [nameOf('late'), nameOf('unknown')]);
  assert.deepEqual([clusters(content()), endpoints()], [[nameOf('late')], [0]]);
  for (const [change, expected] of [
    [() => mesh.change([tcp('late', 9)]), 1],
    [() => mesh.change([], [resourceKey('Service', NAMESPACE, 'late')]), 0],
  ] as const) {
    change();
    await mesh.settled();
    assert.deepEqual([clusters(content()), endpoints()], [[nameOf('late')], [expected]]);
  }
  session.close();
});

test('the same for a cluster that others had asked for, and for which it asks when it is gone', async () => {
  const tcpRoute = [{ route: [{ destination: { host: 'late' } }] }];
  const { mesh, session, shared } = await started(
    meshResource('VirtualService', NAMESPACE, 'a', { hosts: ['a'], tcp: tcpRoute }),
    tcp('late', 9),
  );
  const [other, demand] = [newDemand(shared), newDemand(shared)];
  const has = () => clusters(demand.parts(session.content(), 'learned').cds);
  ask(shared, other, [nameOf('late')]);
  other.parts(session.content(), 'learned');
  assert.deepEqual(has(), [nameOf('late')]);
  mesh.change([], [resourceKey('Service', NAMESPACE, 'late')]);
  await mesh.settled();
  assert.deepEqual(has(), []);
  ask(shared, demand, [nameOf('late')]);
  assert.deepEqual(has(), [nameOf('late')]);
  session.close();
});
