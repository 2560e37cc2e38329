/**
 * The safety net of incremental generation: after any sequence of changes, what a proxy has from generating only the affected
 * units is, byte for byte, what generating everything afresh gives.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { affectedUnits, generate } from '../src/generate/index.ts';
import {
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  NOWHERE,
  type Placement,
  type Unit,
  type UnitSelection,
  type View,
} from '../src/generate/types.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { applyChanges, createModel, replay } from '../src/model/testing/steps.ts';
import type { Snapshot } from '../src/model/types.ts';
import { viewsOf } from '../src/push/views.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshConfig } from '../src/resources/mesh-config.ts';
import type { AnyResource, ResourceKey } from '../src/resources/types.ts';
import { FIRST, MESHES, merged, NODES, STEP } from './golden-harness/random-mesh.ts';

const EVERYTHING: UnitSelection = { cds: 'all', sds: 'all', lds: 'all', rds: 'all', vhds: 'all' };

/** Where proxies are, whatever the mesh says of places at the time. */
const PLACEMENTS: readonly Placement[] = [
  NOWHERE,
  { network: 'n2', locality: 'r1/z1' },
  { network: '', locality: 'r2' },
];

type Units = Map<GeneratedType, Map<Unit, readonly string[]>>;

/** What a view has now, kept up to date the way the engine does. */
interface Kept {
  readonly view: View;
  readonly units: Units;
}

/** Changes of resources, and seldom of the mesh configuration, because everything is made afresh then. */
const STEPS = fc.array(
  fc.record({
    edits: STEP,
    mesh: fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constantFrom(...MESHES) },
    ),
  }),
  { minLength: 1, maxLength: 12 },
);
const [FIRST_MESH = defaultMeshConfig()] = MESHES;

test('incremental generation equals fresh generation after any changes', () => {
  fc.assert(
    fc.property(FIRST, STEPS, fc.boolean(), (base, steps, filtered) => {
      const settings = { ...DEFAULT_SETTINGS, filterGatewayClusters: filtered };
      let mesh: MeshConfig = FIRST_MESH;
      const empty = () => createModel(settings, mesh, defaultMeshNetworks());
      let snapshot = empty();
      const resources = new Map<ResourceKey, AnyResource>();
      const kept = new Map<string, Kept>();
      for (const { edits, mesh: become } of [{ edits: base, mesh: undefined }, ...steps]) {
        mesh = become ?? mesh;
        const applied = applyChanges(snapshot, { changes: merged(edits, resources), mesh });
        for (const { view, units } of kept.values()) {
          const selection = affectedUnits(snapshot, applied.snapshot, applied.changes, view);
          if (selection !== undefined) update(units, applied.snapshot, view, selection);
        }
        snapshot = applied.snapshot;
        compare(kept, snapshot);
      }
      // A control plane that starts now comes to the same bytes, and so does one that has no other proxy to share with.
      for (const node of NODES) compare(kept, replay(empty(), resources.values()), [node]);
    }),
    { numRuns: 100 },
  );
});

function update(units: Units, snapshot: Snapshot, view: View, selection: UnitSelection): void {
  const result = generate(snapshot, view, selection, PLACEMENTS);
  assert.deepEqual(result.failures, []);
  for (const type of GENERATED_TYPES) {
    const ofType = selection[type] === 'all' ? new Map<Unit, readonly string[]>() : (units.get(type) ?? new Map());
    for (const [unit, resources] of result.units[type] ?? []) {
      if (resources.length === 0) ofType.delete(unit);
      else ofType.set(unit, resources.map(textOf));
    }
    for (const [unit, placed] of type === 'cds' ? result.placed : []) {
      assert.equal(placed.length, PLACEMENTS.length);
      ofType.set(
        unit,
        placed.flatMap((resources, index) => resources.map((resource) => `${index} ${textOf(resource)}`)),
      );
    }
    units.set(type, ofType);
  }
}

function textOf({ name, bytes, refs }: GeneratedResource): string {
  return `${name} ${refs} ${Buffer.from(bytes).toString('hex')}`;
}

function compare(kept: Map<string, Kept>, snapshot: Snapshot, nodes = NODES): void {
  for (const node of nodes) {
    for (const view of viewsOf(snapshot, node)) {
      const key = JSON.stringify(view);
      const fresh: Units = new Map();
      update(fresh, snapshot, view, EVERYTHING);
      const known = kept.get(key);
      if (known === undefined) kept.set(key, { view, units: fresh });
      else
        for (const type of GENERATED_TYPES) assert.deepEqual(known.units.get(type), fresh.get(type), `${key} ${type}`);
    }
  }
}
