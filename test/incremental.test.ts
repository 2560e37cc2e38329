/**
 * Incremental generation: after any sequence of changes, generating only the units that read a changed fact gives, byte
 * for byte, the same result as generating everything.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Memos } from '../src/core/memo.ts';
import {
  type ChangedFacts,
  changedFacts,
  type FactChanges,
  generate,
  scopeIdOfView,
  touchedUnits,
} from '../src/generate/index.ts';
import {
  DEFAULT_PLACEMENT,
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type Placement,
  type TypeReads,
  type Unit,
  type UnitSelection,
  type View,
} from '../src/generate/types.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { applyChanges, createModel, replay } from '../src/model/testing/steps.ts';
import type { Snapshot } from '../src/model/types/types.ts';
import { viewsOf } from '../src/push/proxies/proxy-views.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks, type MeshConfig } from '../src/resources/mesh-config.ts';
import { FIRST, MESHES, merged, NODES, STEP } from './golden-harness/random-mesh.ts';

const EVERYTHING: UnitSelection = {
  cds: 'all',
  sds: 'all',
  ecds: 'all',
  lds: 'all',
  rds: 'all',
  vhds: 'all',
  nds: 'all',
};

/** Placements of proxies, whatever the mesh's configuration of networks and localities is at the time. */
const PLACEMENTS: readonly Placement[] = [
  DEFAULT_PLACEMENT,
  { network: 'n2', locality: 'r1/z1', cluster: '' },
  { network: '', locality: 'r2', cluster: 'far', labels: { v: '1', app: 'web' } },
];

type Units = Map<GeneratedType, Map<Unit, readonly string[]>>;

/** Its read set. */
type Reads = Partial<Record<GeneratedType, TypeReads>>;

/** The content of a view, updated as the engine does. */
interface Kept {
  readonly view: View;
  readonly units: Units;
  readonly reads: Reads;
}

/** Changes of resources, and rarely of the mesh configuration, because that generates everything. */
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

test('incremental generation equals full generation after any changes', () => {
  check((changed) => changed, 100);
});

test('a model with memos switched off gives the same bytes', () => {
  fc.assert(
    fc.property(FIRST, fc.boolean(), (base, filtered) => {
      const settings = { ...DEFAULT_SETTINGS, filterGatewayClusters: filtered };
      const resources = new Map<ResourceKey, AnyResource>();
      merged(base, resources);
      const kept = new Map<string, Kept>();
      for (const enabled of [true, false]) {
        const empty = createModel(settings, FIRST_MESH, defaultMeshNetworks(), { memos: new Memos({ enabled }) });
        compare(kept, replay(empty, resources.values()));
      }
    }),
    { numRuns: 10 },
  );
});

test('a changed fact that is not reported leaves the view as it was', () => {
  for (const kind of [/^rule /, /^routes at /, /^AuthorizationPolicy\//, /^ports$/, /^any service$/, / in far$/]) {
    const broken = (changes: FactChanges): FactChanges => new Map([...changes].filter(([fact]) => !kind.test(fact)));
    const distort = ({ everything, meshWide, scopes }: ChangedFacts): ChangedFacts => ({
      everything,
      meshWide: broken(meshWide),
      scopes: new Map([...scopes].map(([id, changes]) => [id, broken(changes)])),
    });
    // Ends at the first that is found, which is mostly among the first sixty.
    assert.throws(() => check(distort, 600), /Property failed/, `nobody misses the facts ${kind}`);
  }
});

/** @param report the changed facts that are reported to the views */
function check(report: (changed: ChangedFacts) => ChangedFacts, numRuns: number): void {
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
        const scopes = [...kept.values()].map(({ view }) => scopeIdOfView(view));
        const applied = applyChanges(snapshot, { changes: merged(edits, resources), mesh }, scopes);
        const changed = report(changedFacts(snapshot, applied.snapshot, applied.changes));
        for (const [key, has] of kept) {
          // No view exists without its scope. If the scope returns, everything is generated.
          if (has.view.part !== 'gateway' && applied.snapshot.scopeById(has.view.scope) === undefined) kept.delete(key);
          const selection = touchedUnits(has.reads, changed, has.view);
          if (selection !== undefined) update(has, applied.snapshot, selection);
        }
        snapshot = applied.snapshot;
        compare(kept, snapshot);
      }
      // A new control plane produces the same bytes, and so does one with this proxy alone.
      for (const node of NODES) compare(kept, replay(empty(), resources.values()), [node]);
    }),
    { numRuns, endOnFailure: true },
  );
}

function update({ view, units, reads }: Kept, snapshot: Snapshot, selection: UnitSelection): void {
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
    const read = result.reads[type];
    if (read?.list !== undefined) reads[type] = read;
    else if (read !== undefined) {
      const { list, units: before } = reads[type] ?? read;
      reads[type] = { list, units: new Map([...before, ...read.units]) };
    }
  }
}

function textOf({ name, bytes, refs }: GeneratedResource): string {
  return `${name} ${refs} ${Buffer.from(bytes).toString('hex')}`;
}

function compare(kept: Map<string, Kept>, snapshot: Snapshot, nodes = NODES): void {
  for (const node of nodes) {
    for (const view of viewsOf(snapshot, node)) {
      const key = JSON.stringify(view);
      const fresh: Kept = { view, units: new Map(), reads: {} };
      update(fresh, snapshot, EVERYTHING);
      const known = kept.get(key);
      if (known === undefined) kept.set(key, fresh);
      else
        for (const type of GENERATED_TYPES)
          assert.deepEqual(known.units.get(type), fresh.units.get(type), `${key} ${type}`);
    }
  }
}
