/**
 * Incremental generation: after any sequence of changes, generating only the units that read a changed fact gives, byte
 * for byte, the same result as generating everything.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { Memos } from '../src/core/memo.ts';
import * as fc from '../src/core/testing/properties.ts';
import {
  type ChangedFacts,
  changedFacts,
  type FactChanges,
  generate,
  scopeIdOfView,
  touchedUnits,
} from '../src/generate/index.ts';
import {
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type TypeReads,
  type Unit,
  type UnitSelection,
} from '../src/generate/types.ts';
import { DEFAULT_PLACEMENT, type Placement, type View } from '../src/generate/views.ts';
import { DEFAULT_SETTINGS } from '../src/model/testing/settings.ts';
import { applyChanges, createModel, replay } from '../src/model/testing/steps.ts';
import type { Snapshot } from '../src/model/types/types.ts';
import { viewsOf } from '../src/push/proxies/proxy-views.ts';
import type { AnyResource, ResourceKey } from '../src/resources/kinds/types.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../src/resources/mesh-config.ts';
import type { MeshUpdate, ResolvedHosts } from '../src/resources/mesh-update.ts';
import { FIRST, HOSTS, MESHES, merged, NETWORKS, NODES, STEP, stepOf } from './golden-harness/random-mesh.ts';

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

/** Rare, because a change of the mesh configuration or of networks generates everything. */
const seldom = <T>(values: readonly T[]) =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...values) });
/** Of how many proxies one is compared after a step. After the last step, all are. */
const COMPARED = 4;
/**
 * Several changes, one after the other, before some proxies are compared: to generate everything takes the most time,
 * and what a change missed mostly stays wrong until the end.
 */
const stepsOf = (step: typeof STEP) =>
  fc.array(
    fc.record({
      edits: fc.array(step, { minLength: 2, maxLength: 4 }),
      mesh: seldom(MESHES),
      networks: seldom(NETWORKS),
      hosts: fc.option(fc.constantFrom(...HOSTS), { nil: undefined, freq: 1 }),
      compared: fc.nat(COMPARED - 1),
    }),
    { minLength: 9, maxLength: 14 },
  );
const [FIRST_MESH = defaultMeshConfig()] = MESHES;

test('incremental generation equals full generation after any changes', () => {
  const edits = check((changed) => changed, 12);
  assert.ok(edits >= 400, `only ${edits} resources were changed`);
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
    { numRuns: 5 },
  );
});

const MISSED: readonly (readonly [facts: RegExp, changes: typeof STEP])[] = [
  [/^rule /, STEP],
  [/^routes at /, STEP],
  [/^AuthorizationPolicy\//, stepOf('AuthorizationPolicy')],
  [/^EnvoyFilter\//, stepOf('EnvoyFilter')],
  [/^Telemetry\//, stepOf('Telemetry')],
  [/^ports$/, STEP],
  [/^any service$/, STEP],
  [/ in far$/, STEP],
];

test('a changed fact that is not reported leaves the view as it was', () => {
  for (const [facts, step] of MISSED) {
    const broken = (changes: FactChanges): FactChanges => new Map([...changes].filter(([fact]) => !facts.test(fact)));
    const distort = ({ everything, meshWide, scopes }: ChangedFacts): ChangedFacts => ({
      everything,
      meshWide: broken(meshWide),
      scopes: new Map([...scopes].map(([id, changes]) => [id, broken(changes)])),
    });
    // Ends at the first that is found, which is mostly among the first ten.
    assert.throws(() => check(distort, 200, step), /Property failed/, `nobody misses the facts ${facts}`);
  }
});

/**
 * @param report the changed facts that are reported to the views
 * @param step the changes
 * @returns how many resources were changed
 */
function check(report: (changed: ChangedFacts) => ChangedFacts, numRuns: number, step = STEP): number {
  let edited = 0;
  fc.assert(
    fc.property(FIRST, stepsOf(step), fc.boolean(), (base, steps, filtered) => {
      const settings = { ...DEFAULT_SETTINGS, filterGatewayClusters: filtered };
      const resources = new Map<ResourceKey, AnyResource>();
      const kept = new Map<string, Kept>();
      let mesh = FIRST_MESH;
      let networks = defaultMeshNetworks();
      let resolvedHosts: ResolvedHosts = new Map();
      let snapshot = replay(
        createModel(settings, mesh, networks),
        merged(base, resources).flatMap(({ after }) => after ?? []),
      );
      const change = (what: Omit<MeshUpdate, 'eventTime'>) => {
        const scopes = [...kept.values()].map(({ view }) => scopeIdOfView(view));
        const applied = applyChanges(snapshot, what, scopes);
        updateAll(kept, applied.snapshot, report(changedFacts(snapshot, applied.snapshot, applied.changes)));
        snapshot = applied.snapshot;
      };
      compare(kept, snapshot);
      for (const { edits, compared, ...become } of steps) {
        for (const list of edits) {
          const changes = merged(list, resources);
          edited += changes.length;
          change({ changes });
        }
        if (become.mesh !== undefined || become.networks !== undefined) {
          ({ mesh = mesh, networks = networks } = become);
          change({ changes: [], mesh, networks });
        }
        if (become.hosts !== undefined) {
          resolvedHosts = become.hosts;
          change({ changes: [], resolvedHosts });
        }
        const nodes = NODES.filter((_, index) => index % COMPARED === compared);
        compare(kept, snapshot, nodes);
      }
      // A new control plane produces the same bytes, and so does one with this proxy alone.
      const empty = () => applyChanges(createModel(settings, mesh, networks), { changes: [], resolvedHosts }).snapshot;
      for (const node of NODES) compare(kept, replay(empty(), resources.values()), [node]);
    }),
    { numRuns, endOnFailure: true },
  );
  return edited;
}

/** Generates again what a change touches, as the engine does. */
function updateAll(kept: Map<string, Kept>, snapshot: Snapshot, changed: ChangedFacts): void {
  for (const [key, has] of kept) {
    // No view exists without its scope. If the scope returns, everything is generated.
    if (has.view.part !== 'gateway' && snapshot.scopeById(has.view.scope) === undefined) kept.delete(key);
    const selection = touchedUnits(has.reads, changed, has.view);
    if (selection !== undefined) update(has, snapshot, selection);
  }
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
  return `${name} ${refs} ${hash('sha1', bytes)}`;
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
