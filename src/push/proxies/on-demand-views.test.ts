/** Who gets configuration on demand: as the workload states, else its Namespace, else the mesh, within its Sidecar. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SidecarConfiguration } from '../../core/proxy.ts';
import { inline, Mesh, meshResource, parse, service, sidecar, snapshotOf } from '../testing/mesh.ts';
import { viewsOf } from './proxy-views.ts';

const proxy = (configuration?: SidecarConfiguration) => ({
  ...sidecar('10.5.0.1', 'shop'),
  discoversVirtualHosts: true,
  ...(configuration !== undefined && { options: { configuration } }),
});

function namespace(configuration: string) {
  const labels = { 'sidecar.mesh.io/configuration': configuration };
  return parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels } });
}

const only = (...hosts: string[]) => meshResource('Sidecar', 'shop', 'only', { egress: [{ hosts }] });

test('the workload takes precedence over its Namespace', () => {
  const rows = [
    [undefined, [], undefined],
    ['learned', [], 'learned'],
    [undefined, [namespace('learned')], 'learned'],
    ['all', [namespace('learned')], undefined],
    ['on-demand', [namespace('all')], 'on-demand'],
    [undefined, [namespace('unknown')], undefined],
    // A Sidecar only bounds what may be asked for …
    [undefined, [namespace('learned'), only('*/*')], 'learned'],
    [undefined, [namespace('learned'), only('./*', 'other/*')], 'learned'],
    // … unless it names all hosts.
    [undefined, [namespace('learned'), only('./web.shop.svc.cluster.local')], undefined],
    ['on-demand', [only('./web.shop.svc.cluster.local')], undefined],
    [undefined, [namespace('learned'), only('~/*')], undefined],
  ] as const;
  for (const [ofWorkload, documents, expected] of rows) {
    const [outbound] = viewsOf(snapshotOf([service('shop', 'web'), ...documents]), proxy(ofWorkload));
    assert.ok(outbound?.part === 'outbound');
    assert.equal(outbound.capabilities.onDemand, expected, JSON.stringify([ofWorkload, documents]));
  }
});

test('the hosts that a Sidecar names are sent without being asked for', () => {
  const documents = [namespace('learned'), only('./*', 'b/Web.b.example.', 'c/api.c.example', '~d/x.d.example')];
  const [outbound] = viewsOf(snapshotOf(documents), proxy());
  assert.ok(outbound?.part === 'outbound');
  assert.deepEqual(outbound.capabilities.namedHosts, ['api.c.example', 'web.b.example']);
});

test('a connected proxy follows its Namespace', async () => {
  const mesh = new Mesh(inline, [service('shop', 'web')]);
  const { session } = mesh.connect(proxy());
  await session.ready;
  for (const [configuration, expected] of [
    ['learned', 'learned'],
    ['on-demand', 'on-demand'],
    ['all', undefined],
  ] as const) {
    mesh.change([namespace(configuration)]);
    await mesh.settled();
    assert.equal(session.onDemand, expected);
  }
  session.close();
});
