import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { Snapshot } from '../model/types/types.ts';
import { STATIC_CLUSTERS_UNIT } from './common/names.ts';
import { generate, unitsOf } from './generate.ts';
import { meshOf, parsed } from './testing/mesh.ts';
import { outboundView } from './testing/views.ts';

const VIEW = outboundView();

const entry = (host: string) => `
apiVersion: networking.mesh.io/v1alpha3
kind: ServiceEntry
metadata: {name: ${host}, namespace: default}
spec:
  hosts: [${host}]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.0.0.1}]
`;

const MESH = `${entry('good.example.com')}---${entry('bad.example.com')}`;

function snapshotOf(yaml: string): Snapshot {
  return meshOf(parseAllDocuments(yaml).map((document) => parsed(document.toJS())));
}

test('a unit that cannot be built is a failure of its own, and the others are built', () => {
  const snapshot = snapshotOf(MESH);
  const distorted: Snapshot = {
    ...snapshot,
    scopeById(id) {
      const scope = snapshot.scopeById(id);
      const destinationRule = (host: string) => {
        if (host === 'bad.example.com') throw new Error('a rule that cannot be read');
        return scope?.destinationRule(host);
      };
      return scope && { ...scope, destinationRule };
    },
  };
  const { units, failures } = generate(distorted, VIEW, { cds: 'all' });
  assert.deepEqual([...(units.cds?.keys() ?? [])], ['good.example.com', STATIC_CLUSTERS_UNIT]);
  assert.deepEqual(
    failures.map(({ type, unit }) => `${type} ${unit}`),
    ['cds bad.example.com'],
  );
  assert.match(failures[0]?.message ?? '', /a rule that cannot be read/);
});

test('a unit that does not exist has no resources', () => {
  const selection = { cds: new Set(['gone.example.com']), lds: new Set(['81']), rds: new Set(['81']) };
  const { units, failures } = generate(snapshotOf(MESH), VIEW, selection);
  assert.deepEqual([units.cds?.get('gone.example.com'), units.lds?.get('81'), units.rds?.get('81')], [[], [], []]);
  assert.deepEqual(failures, []);
});

test('a unit has the same bytes whether generated alone or with all others', () => {
  const snapshot = snapshotOf(MESH);
  const all = generate(snapshot, VIEW, { cds: 'all', lds: 'all', rds: 'all' });
  for (const type of ['cds', 'lds', 'rds'] as const) {
    for (const unit of unitsOf(snapshot, VIEW, type)) {
      if (unit === 'bad.example.com') continue;
      const alone = generate(snapshot, VIEW, { [type]: new Set([unit]) });
      assert.deepEqual(alone.units[type]?.get(unit), all.units[type]?.get(unit), `${type} ${unit}`);
    }
  }
});

test('every listener requests only routes that exist', () => {
  const { units } = generate(snapshotOf(MESH), VIEW, { lds: 'all', rds: 'all' });
  const requested = [...(units.lds?.values() ?? [])].flat().flatMap(({ refs }) => refs);
  assert.deepEqual(requested, ['80']);
  assert.deepEqual([...(units.rds?.keys() ?? [])], ['80']);
});
