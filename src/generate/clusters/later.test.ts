/** The hosts whose clusters may be generated later, found by those of the snapshot before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { history, QUESTIONS } from '../../model/testing/arbitrary.ts';
import { emptyMesh, fqdn, resource, service } from '../../model/testing/build.ts';
import { applyChanges, replay } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import { scopeOfView } from '../common/index.ts';
import { MeshReader } from '../reads/index.ts';
import { outboundView } from '../testing/views.ts';
import { laterClusterUnits } from './later.ts';

/** So many that a few changes are looked at alone. */
const SERVICES = Array.from({ length: 400 }, (_, index) => service(`far/s${index}`));

function viewsIn(snapshot: Snapshot) {
  return QUESTIONS.proxies.map(({ namespace, labels }) => {
    const view = outboundView({ scope: snapshot.scopeOf(namespace, labels).id, namespace });
    return { ...view, capabilities: { ...view.capabilities, onDemand: 'on-demand' as const } };
  });
}

test('a service that has only UDP ports has none', () => {
  const [view] = viewsIn(replay(emptyMesh(), SERVICES));
  assert.ok(view !== undefined);
  let snapshot = replay(emptyMesh(), SERVICES);
  const later = () => laterClusterUnits(MeshReader.of(snapshot), view);
  const all = later().size;
  for (const [protocol, expected] of [
    ['UDP', all],
    ['TCP', all + 1],
    ['UDP', all],
  ] as const) {
    const after = service('far/new', { ports: [{ name: 'port', port: 53, protocol }] });
    snapshot = applyChanges(snapshot, { changes: [{ key: keyOf(after), before: undefined, after }] }).snapshot;
    assert.equal(later().size, expected);
  }
});

test('a destination rule decides, too', () => {
  let snapshot = replay(emptyMesh(), SERVICES);
  const [view] = viewsIn(snapshot);
  assert.ok(view !== undefined);
  for (const [mode, expected] of [
    ['DISABLE', true],
    ['SIMPLE', false],
    ['DISABLE', true],
  ] as const) {
    const host = fqdn('s1.far');
    const after = resource('DestinationRule', 'far/s1', { host, trafficPolicy: { tls: { mode } } });
    snapshot = applyChanges(snapshot, { changes: [{ key: keyOf(after), before: undefined, after }] }).snapshot;
    assert.equal(laterClusterUnits(MeshReader.of(snapshot), view).has(host), expected);
  }
});

test('they are those that are found one by one', () => {
  let others = 0;
  fc.assert(
    fc.property(history, (batches) => {
      let snapshot = replay(emptyMesh(), SERVICES);
      for (const batch of batches) {
        const changes = batch.map(({ resource: after, remove }) => {
          return { key: keyOf(after), before: undefined, after: remove ? undefined : after };
        });
        snapshot = applyChanges(snapshot, { changes }).snapshot;
        const reader = MeshReader.of(snapshot);
        for (const view of viewsIn(snapshot)) {
          const hosts = scopeOfView(reader, view)?.services.hosts() ?? [];
          const found = laterClusterUnits(reader, view);
          assert.deepEqual([...found].sort(), [...laterClusterUnits(reader, view, hosts)].sort());
          if (found.size > 0 && found.size < hosts.length) others++;
        }
      }
    }),
    { numRuns: 20 },
  );
  assert.ok(others > 3);
});
