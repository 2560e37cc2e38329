/**
 * The stage after generation: applies patches of EnvoyFilters (networking.mesh.io/v1alpha3) to generated resources,
 * with the meaning of Istio 1.7. A view without patches skips this stage. Source:
 * https://istio.io/v1.7/docs/reference/config/networking/envoy-filter/
 */
import { messageOf } from '../../core/errors.ts';
import type { MeshReader } from '../reads/index.ts';
import type { FormerFilter, FormerFilters, GeneratedResource, Unit, UnitOutput } from '../types.ts';
import type { EnvoyView, PatchedType } from '../views.ts';
import { addedCluster, patchClusters } from './clusters.ts';
import { patchDiscoveredHosts } from './discovered-hosts.ts';
import { type Former, fitting } from './fitting.ts';
import { addedListener, patchListeners } from './listeners.ts';
import type { Patches } from './patches.ts';
import { namedPorts } from './port-names.ts';
import { patchesOf } from './read.ts';
import { patchRouteConfigurations } from './routes.ts';
import { PATCH_CONTEXTS, type Patch } from './types.ts';

export { PATCH_CONTEXTS } from './types.ts';

/**
 * Prefix of the units of clusters, listeners and extension configurations that patches add, followed by the name of the
 * resource. Host names and ports do not begin with it.
 */
const ADDED = '|added|';

const NOTHING: UnitOutput = { resources: [], findings: [] };

/** The resources of a type that patches add, by name; if several have the same name, the first is used, as in Istio. */
function addedBy(patches: Patches, type: PatchedType): ReadonlyMap<string, Patch> {
  const target = {
    cds: 'CLUSTER',
    ecds: 'EXTENSION_CONFIG',
    lds: 'LISTENER',
    rds: undefined,
    vhds: undefined,
  } as const;
  const applyTo = target[type];
  const added = applyTo === undefined ? [] : patches.of(applyTo).filter(({ operation }) => operation === 'ADD');
  return new Map([...added].reverse().map((patch) => [patch.name, patch]));
}

/** The patched list; the same object if its resources are unchanged. */
function unlessSame(
  list: readonly GeneratedResource[],
  patch: (list: readonly GeneratedResource[]) => readonly GeneratedResource[],
): readonly GeneratedResource[] {
  const patched = patch(list);
  return patched.length === list.length && patched.every((each, index) => each === list[index]) ? list : patched;
}

/** Placements with the same list have the same result object, by which callers recognize equal units. */
function eachOnce<T>(lists: readonly T[], make: (list: T) => T): readonly T[] {
  const made = new Map<T, T>();
  for (const list of lists) if (!made.has(list)) made.set(list, make(list));
  return lists.map((list) => made.get(list) ?? list);
}

/** Applies the patches of a view to the resources of one type. */
export interface Patcher {
  readonly added: () => readonly Unit[];
  /**
   * Generates a unit that patches add; undefined for any other unit. Throws CtlError of one line if no version fits.
   */
  readonly generate: (unit: Unit) => UnitOutput | undefined;
  /** The output of any other unit after the patches that fit: see {@link fitting}. */
  readonly patch: (unit: Unit, output: UnitOutput) => UnitOutput;
}

/** The EnvoyFilters that each unit was last generated with. */
export function formerByUnit(former: readonly FormerFilters[], type: PatchedType): (unit: Unit) => Former {
  const ofType = former.filter((each) => each.type === type);
  const named = new Map<Unit, Former>();
  let others: Former = new Map();
  for (const { units, filters } of ofType) {
    const byKey = new Map(filters.map((filter) => [filter.key, filter]));
    if (units === undefined) others = byKey;
    else for (const unit of units) named.set(unit, byKey);
  }
  return (unit) => named.get(unit) ?? others;
}

/** The ports of redirected connections: Envoy rejects a second listener with the same address. */
function portsOfMesh({ mesh }: MeshReader, view: EnvoyView): readonly number[] {
  const isRedirected = view.part !== 'gateway' && view.interception !== 'NONE';
  return isRedirected ? [mesh.proxyListenPort, mesh.proxyInboundListenPort] : [];
}

/**
 * @param routes the route configurations that the view has @param formerOf returns the EnvoyFilters that a unit was
 * last generated with @returns undefined if there are no patches for the type
 */
export function patcherOf(
  snapshot: MeshReader,
  view: EnvoyView,
  type: PatchedType,
  routes: () => readonly Unit[],
  formerOf: (unit: Unit) => Former,
): Patcher | undefined {
  const applied = view.patches?.[type];
  if (applied === undefined) return undefined;
  const patches = patchesOf(snapshot, applied);
  let additions: ReadonlyMap<string, Patch> | undefined;
  // Each added unit reads the patches itself, because they must be recorded as its facts.
  const added = () => {
    const all = patches();
    additions ??= addedBy(all, type);
    return additions;
  };
  const context = PATCH_CONTEXTS[view.part];
  const isNamedPort = namedPorts(snapshot, view);
  const patchAll = (unit: Unit, resources: readonly GeneratedResource[], by: Patches): readonly GeneratedResource[] => {
    switch (type) {
      case 'cds':
        return patchClusters(resources, by);
      // Extension configurations can only be added.
      case 'ecds':
        return resources;
      case 'lds':
        return patchListeners(resources, by, { context, routes, isNamedPort });
      case 'rds':
        return patchRouteConfigurations(resources, by, context);
      case 'vhds':
        return patchDiscoveredHosts(resources, unit, by, context, snapshot.memos);
    }
  };
  const patchUnit = (unit: Unit, { resources, placed, ...rest }: UnitOutput, by: Patches): UnitOutput => {
    const patch = (list: readonly GeneratedResource[]) => unlessSame(list, (each) => patchAll(unit, each, by));
    return { ...rest, resources: patch(resources), ...(placed !== undefined && { placed: eachOnce(placed, patch) }) };
  };
  const makeResource = (addition: Patch): GeneratedResource => {
    if (type === 'cds') return addedCluster(addition);
    if (type === 'lds') return addedListener(addition, routes, portsOfMesh(snapshot, view));
    return { name: addition.name, bytes: addition.value, refs: [] };
  };
  const makeAdded = (name: string, by: ReadonlyMap<string, Patch>): UnitOutput => {
    const addition = by.get(name);
    if (addition === undefined) return NOTHING;
    return { resources: [makeResource(addition)], findings: [] };
  };
  return {
    added: () => [...added().keys()].map((name) => ADDED + name).sort(),
    generate: (unit) => {
      if (!unit.startsWith(ADDED)) return undefined;
      const name = unit.slice(ADDED.length);
      try {
        return makeAdded(name, added());
      } catch (error) {
        const make = (filters: readonly FormerFilter[]) =>
          makeAdded(name, addedBy(patchesOf(snapshot, filters)(), type));
        const { output = NOTHING, misfits } = fitting(applied, formerOf(unit), make);
        // A view that has the listener keeps it.
        if (output.resources.length === 0) throw error;
        return { ...output, problem: { message: messageOf(error), misfits } };
      }
    },
    patch: (unit, output) => {
      try {
        return patchUnit(unit, output, patches());
      } catch (error) {
        const make = (filters: readonly FormerFilter[]) => patchUnit(unit, output, patchesOf(snapshot, filters)());
        const { output: made = output, misfits } = fitting(applied, formerOf(unit), make);
        return { ...made, problem: { message: messageOf(error), misfits } };
      }
    },
  };
}
