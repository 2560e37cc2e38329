import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { applyChanges, replay } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { istio } from '../../protobuf/index.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { generate } from '../generate.ts';
import { meshOf, meshResource, parsed } from '../testing/mesh.ts';
import { outboundView } from '../testing/views.ts';
import type { GeneratedResource } from '../types.ts';
import type { View } from '../views.ts';

const service = (name: string, address: string) =>
  meshResource('Service', 'shop', name, { clusterIP: address, ports: [{ name: 'http', port: 80 }] });

function tableOf(snapshot: Snapshot, view: View = outboundView()): GeneratedResource {
  const { units, failures } = generate(snapshot, view, { nds: 'all' });
  assert.deepEqual(failures, []);
  const [table, ...others] = [...(units.nds?.values() ?? [])].flat();
  assert.deepEqual(others, []);
  assert.ok(table !== undefined);
  return table;
}

function namesOf(resource: GeneratedResource): Record<string, readonly string[]> {
  const { table } = istio.networking.nds.v1.NameTable.decode(resource.bytes);
  return Object.fromEntries(Object.entries(table).map(([host, { ips }]) => [host, ips]));
}

describe('the name table', () => {
  it('exists without any name, because agents wait for it', () => {
    assert.deepEqual(namesOf(tableOf(meshOf([]))), {});
  });

  it('is one object for all namespaces that see the same services', () => {
    const mesh = meshOf([service('web', '10.96.0.1')]);
    const others = [outboundView({ scope: 'a/', namespace: 'a' }), outboundView({ scope: 'b/', namespace: 'b' })];
    assert.equal(new Set(others.map((view) => tableOf(mesh, view))).size, 1);
  });

  it('is changed in a few places by a host that changes, comes or goes', () => {
    const services = Array.from({ length: 1000 }, (_, index) =>
      service(`s${index}`, `10.96.${index >> 8}.${index & 255}`),
    );
    const before = meshOf(services);
    const was = tableOf(before);
    const steps: readonly (readonly [change: AnyResource, remove: boolean])[] = [
      [service('s7', '10.96.9.9'), false],
      [service('new', '10.96.9.9'), false],
      [service('s500', ''), true],
    ];
    for (const [resource, remove] of steps) {
      const change = { key: keyOf(resource), before: undefined, after: remove ? undefined : resource };
      const is = tableOf(applyChanges(before, { changes: [change] }).snapshot);
      const changed = (is.pieces ?? []).filter((piece) => was.pieces?.includes(piece) === false);
      const encoded = changed.reduce((sum, { length }) => sum + length, 0);
      assert.ok(encoded > 0 && encoded < is.bytes.length / 2, `${encoded} of ${is.bytes.length} bytes`);
      const host = `${resource.meta.name}.shop.svc.cluster.local`;
      const { [host]: _, ...others } = namesOf(was);
      assert.deepEqual(namesOf(is), remove ? others : { ...others, [host]: ['10.96.9.9'] });
    }
  });

  it('has a service of its own name in place of the pod of a headless Service', () => {
    const headless = meshResource('Service', 'shop', 'db', { clusterIP: 'None', ports: [{ name: 'tcp', port: 5432 }] });
    const subsets = [{ addresses: [{ ip: '10.1.0.1', hostname: 'db-0' }], ports: [{ name: 'tcp', port: 5432 }] }];
    const pods = parsed({ apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'db', namespace: 'shop' }, subsets });
    const own = 'db.shop.svc.cluster.local';
    const [before, pod] = [meshOf([headless, pods]), `db-0.${own}`];
    assert.deepEqual(namesOf(tableOf(before)), { [own]: ['10.1.0.1'], [pod]: ['10.1.0.1'] });
    const entry = meshResource('ServiceEntry', 'shop', 'pod', {
      hosts: [pod],
      addresses: ['192.0.2.1'],
      ports: [{ number: 5432, name: 'tcp', protocol: 'TCP' }],
    });
    assert.deepEqual(namesOf(tableOf(replay(before, [entry]))), { [own]: ['10.1.0.1'], [pod]: ['192.0.2.1'] });
  });
});
