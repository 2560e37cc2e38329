/**
 * Generates the selected units of a view. An error in one unit is a line in `failures`, and the others are built; no
 * resource refers to one that does not exist.
 */
import { toError } from '../core/errors.ts';
import { finish, type Slices } from '../core/slices.ts';
import type { MeshSnapshot } from '../model/index.ts';
import {
  gatewayClusters,
  gatewayClusterUnits,
  inboundClusters,
  inboundClusterUnits,
  outboundClusters,
  outboundClusterUnits,
} from './clusters/index.ts';
import { endpointsNameOf, isClientView } from './endpoints/index.ts';
import {
  gatewayListeners,
  gatewayListenerUnits,
  gatewayRoutes,
  gatewayRouteUnits,
  gatewaySecrets,
  gatewaySecretUnits,
} from './gateways/index.ts';
import {
  clientClusters,
  clientListeners,
  clientRoutes,
  clientUnits,
  serverListeners,
  serverUnits,
} from './grpc/index.ts';
import { inboundListeners, inboundListenerUnits, outboundListeners, outboundListenerUnits } from './listeners/index.ts';
import { nameTable, nameTableUnits } from './names/index.ts';
import { formerByUnit, patcherOf } from './patches/index.ts';
import { type Facts, fact, MeshReader, recorded, unrecorded } from './reads/index.ts';
import {
  discoveredUnits,
  outboundRoutes,
  outboundRouteUnits,
  outboundVirtualHosts,
  wantedVirtualHosts,
} from './routes/index.ts';
import {
  type FormerFilters,
  GENERATED_TYPES,
  type GeneratedResource,
  type GeneratedType,
  type GenerationFailure,
  type GenerationFinding,
  type GenerationResult,
  type HostsPart,
  type PatchProblem,
  type PlacedResources,
  type TypeReads,
  type Unit,
  type UnitGenerator,
  type UnitOutput,
  type UnitSelection,
} from './types.ts';
import {
  DEFAULT_PLACEMENT,
  type EnvoyView,
  type GatewayView,
  type GrpcClientView,
  type GrpcServerView,
  type InboundView,
  type OutboundView,
  type Placement,
  type View,
} from './views.ts';

type PartGenerators<V extends View> = Readonly<Record<GeneratedType, UnitGenerator<V>>>;

const NO_OUTPUT: UnitOutput = { resources: [], findings: [] };
const NO_UNITS: ReadonlySet<Unit> = new Set();

/** The generator of types without resources in a part, other than those that patches add. */
const NONE: UnitGenerator<View> = { units: () => [], generate: () => NO_OUTPUT };

const OUTBOUND: PartGenerators<OutboundView> = {
  cds: { units: outboundClusterUnits, generate: outboundClusters },
  sds: NONE,
  ecds: NONE,
  lds: { units: outboundListenerUnits, generate: outboundListeners },
  rds: { units: outboundRouteUnits, generate: outboundRoutes },
  vhds: { units: discoveredUnits, generate: outboundVirtualHosts },
  nds: { units: nameTableUnits, generate: nameTable },
};

const INBOUND: PartGenerators<InboundView> = {
  cds: { units: inboundClusterUnits, generate: inboundClusters },
  sds: NONE,
  ecds: NONE,
  lds: { units: inboundListenerUnits, generate: inboundListeners },
  // Inbound routes are inline in their listeners.
  rds: NONE,
  vhds: NONE,
  nds: NONE,
};

const GATEWAY: PartGenerators<GatewayView> = {
  cds: { units: gatewayClusterUnits, generate: gatewayClusters },
  sds: { units: gatewaySecretUnits, generate: gatewaySecrets },
  ecds: NONE,
  lds: { units: gatewayListenerUnits, generate: gatewayListeners },
  rds: { units: gatewayRouteUnits, generate: gatewayRoutes },
  vhds: NONE,
  nds: { units: nameTableUnits, generate: nameTable },
};

const GRPC_CLIENT: PartGenerators<GrpcClientView> = {
  cds: { units: clientUnits, generate: clientClusters },
  sds: NONE,
  ecds: NONE,
  lds: { units: clientUnits, generate: clientListeners },
  rds: { units: clientUnits, generate: clientRoutes },
  vhds: NONE,
  nds: NONE,
};

const GRPC_SERVER: PartGenerators<GrpcServerView> = {
  cds: NONE,
  sds: NONE,
  ecds: NONE,
  lds: { units: serverUnits, generate: serverListeners },
  rds: NONE,
  vhds: NONE,
  nds: NONE,
};

interface BoundGenerator {
  readonly units: () => readonly Unit[];
  readonly generate: (unit: Unit, placements: readonly Placement[]) => UnitOutput;
}

function bind<V extends View>(
  generators: PartGenerators<V>,
  snapshot: MeshReader,
  view: V,
  type: GeneratedType,
): BoundGenerator {
  const generator = generators[type];
  return {
    units: () => generator.units(snapshot, view),
    generate: (unit, placements) => generator.generate(snapshot, view, unit, placements),
  };
}

function generatorOf(
  snapshot: MeshReader,
  view: View,
  type: GeneratedType,
  former: readonly FormerFilters[] = [],
): BoundGenerator {
  const generator = unpatchedGeneratorOf(snapshot, view, type);
  if (!isEnvoyView(view) || view.patches === undefined || type === 'sds' || type === 'nds') return generator;
  const routes = () => unpatchedGeneratorOf(snapshot, view, 'rds').units();
  const patcher = patcherOf(snapshot, view, type, routes, formerByUnit(former, type));
  if (patcher === undefined) return generator;
  return {
    units: () => [...generator.units(), ...patcher.added()],
    generate: (unit, placements) => patcher.generate(unit) ?? patcher.patch(unit, generator.generate(unit, placements)),
  };
}

/** Without these among all units. */
function without(later: ReadonlySet<Unit>, generator: BoundGenerator): BoundGenerator {
  if (later.size === 0) return generator;
  return { ...generator, units: () => generator.units().filter((unit) => !later.has(unit)) };
}

/** Generates virtual hosts for these names only: `<route configuration>/<name>`. */
function forHosts(
  names: Iterable<string>,
  generator: BoundGenerator,
  snapshot: MeshReader,
  view: View,
): BoundGenerator {
  if (!mayGenerateHosts(view)) return generator;
  const byUnit = Map.groupBy(names, (name) => name.slice(0, Math.max(0, name.lastIndexOf('/'))));
  const hostsOf = (unit: Unit): string[] => (byUnit.get(unit) ?? []).map((name) => name.slice(unit.length + 1));
  return { ...generator, generate: (unit) => wantedVirtualHosts(snapshot, view, unit, hostsOf(unit)) };
}

/**
 * Whether virtual hosts of a view can be generated apart from others: not if EnvoyFilters change or add some of them,
 * because it must be known that no two have the same domain.
 */
export function mayGenerateHosts(view: View): view is OutboundView {
  return view.part === 'outbound' && view.virtualHosts === 'discovered' && view.patches?.vhds === undefined;
}

/** EnvoyFilters apply to Envoys only. */
function isEnvoyView(view: View): view is EnvoyView {
  return view.part !== 'grpc-client' && view.part !== 'grpc-server';
}

function unpatchedGeneratorOf(snapshot: MeshReader, view: View, type: GeneratedType): BoundGenerator {
  switch (view.part) {
    case 'outbound':
      return bind(OUTBOUND, snapshot, view, type);
    case 'inbound':
      return bind(INBOUND, snapshot, view, type);
    case 'gateway':
      return bind(GATEWAY, snapshot, view, type);
    case 'grpc-client':
      return bind(GRPC_CLIENT, snapshot, view, type);
    case 'grpc-server':
      return bind(GRPC_SERVER, snapshot, view, type);
  }
}

/** All units of one type that a view has in a snapshot. */
export function unitsOf(mesh: MeshSnapshot, view: View, type: GeneratedType): readonly Unit[] {
  return generatorOf(MeshReader.of(mesh), view, type).units();
}

/**
 * Builds the selected units, those that depend on the placement once for each of `placements`. Deterministic: equal
 * snapshots, views and selections give equal bytes, and a unit's bytes do not depend on what else is selected, or on
 * the other placements. Never throws because of the configuration.
 *
 * @param former the EnvoyFilters that units were last generated with, used if the current ones do not fit; empty for
 * units that were generated with the current ones or never
 */
export function generate(
  mesh: MeshSnapshot,
  view: View,
  selection: UnitSelection,
  placements: readonly Placement[] = [DEFAULT_PLACEMENT],
  former: readonly FormerFilters[] = [],
): GenerationResult {
  return finish(generateInSlices(mesh, view, selection, placements, former));
}

/** What is generated when a proxy needs it. */
export interface OnNeed {
  /** Clusters that `all` does not include. */
  readonly later?: ReadonlySet<Unit>;
  /** The names that virtual hosts are generated for (`<route configuration>/<host>`); absent: all virtual hosts. */
  readonly hosts?: Iterable<string> | undefined;
}

/** The same, interrupted after each unit. */
export function* generateInSlices(
  mesh: MeshSnapshot,
  view: View,
  selection: UnitSelection,
  placements: readonly Placement[],
  former: readonly FormerFilters[],
  { later = NO_UNITS, hosts }: OnNeed = {},
): Slices<GenerationResult> {
  const snapshot = MeshReader.of(mesh);
  const units: Partial<Record<GeneratedType, ReadonlyMap<Unit, readonly GeneratedResource[]>>> = {};
  const placed = new Map<Unit, PlacedResources>();
  const parts = new Map<Unit, HostsPart>();
  const reads: Partial<Record<GeneratedType, TypeReads>> = {};
  const findings: GenerationFinding[] = [];
  const failures: GenerationFailure[] = [];
  const shared = sharedMisfits();
  const dangling = danglingRefs(snapshot, view);
  for (const type of GENERATED_TYPES) {
    const selected = selection[type];
    if (selected === undefined) continue;
    const all = without(type === 'cds' ? later : NO_UNITS, generatorOf(snapshot, view, type, former));
    const generator = type === 'vhds' && hosts !== undefined ? forHosts(hosts, all, snapshot, view) : all;
    const built = new Map<Unit, readonly GeneratedResource[]>();
    const generated = yield* unitOutputs(generator, selected, placements, (facts) => factsOfView(facts, view, type));
    for (const [unit, output] of generated.outputs) {
      const problem = problemOf(output, (resources) => dangling(type, resources));
      if (problem !== undefined) failures.push({ type, unit, message: problem });
      if (output instanceof Error || problem !== undefined) continue;
      if (output.problem !== undefined) failures.push({ type, unit, ...shared(output.problem) });
      if (output.placed === undefined) built.set(unit, output.resources);
      else placed.set(unit, output.placed);
      if (output.part !== undefined) parts.set(unit, output.part);
      findings.push(...output.findings);
    }
    units[type] = built;
    reads[type] = generated.reads;
  }
  return { units, placed, parts, reads, findings, failures };
}

/** Units with the same misfits share one list of these: thousands of units may have hundreds of misfits. */
function sharedMisfits(): (problem: PatchProblem) => PatchProblem {
  const known = new Map<string, PatchProblem['misfits']>();
  return ({ message, misfits }) => {
    const name = JSON.stringify(misfits);
    const shared = known.get(name) ?? misfits;
    known.set(name, shared);
    return { message, misfits: shared };
  };
}

interface UnitOutputs {
  readonly outputs: readonly (readonly [unit: Unit, output: UnitOutput | Error])[];
  readonly reads: TypeReads;
}

/** Yields after each unit. No recording of reads is open then. */
function* unitOutputs(
  generator: BoundGenerator,
  selected: 'all' | ReadonlySet<Unit>,
  placements: readonly Placement[],
  factsOf: (read: Facts) => Facts,
): Slices<UnitOutputs> {
  const list = selected === 'all' ? recorded(() => generator.units()) : undefined;
  let existing: ReadonlySet<Unit> | undefined;
  const isListed = (unit: Unit): boolean => {
    existing ??= new Set(list?.value ?? unrecorded(() => generator.units()));
    return existing.has(unit);
  };
  const facts = new Map<Unit, Facts>();
  const ordered = list?.value ?? [...(selected as ReadonlySet<Unit>)].sort();
  const outputs: (readonly [Unit, UnitOutput | Error])[] = [];
  for (const unit of ordered) {
    const { value: output, facts: read } = recorded(() => attempt(() => generator.generate(unit, placements)));
    // Nothing is recorded for a unit that does not exist: the facts with which it would appear are reads of the list of
    // units.
    if (output instanceof Error || exists(output) || isListed(unit)) facts.set(unit, factsOf(read));
    outputs.push([unit, output]);
    yield;
  }
  return { outputs, reads: { list: list && factsOf(list.facts), units: facts } };
}

/** Types whose resources contain no addresses of services. */
const UNADDRESSED: ReadonlySet<GeneratedType> = new Set(['cds', 'sds']);

/** The read facts, extended by the addresses of the read services in the view's cluster. */
function factsOfView(read: Facts, view: View, type: GeneratedType): Facts {
  const cluster = view.part === 'outbound' ? view.cluster : undefined;
  if (cluster === undefined || UNADDRESSED.has(type)) return read;
  return [...read, ...read.filter(fact.isOfServices).map((name) => fact.inCluster(cluster, name))];
}

/** Why an output cannot be used; undefined when it can. */
function problemOf(
  output: UnitOutput | Error,
  dangling: (resources: readonly GeneratedResource[]) => string | undefined,
): string | undefined {
  if (output instanceof Error) return output.message;
  return unrecorded(() => firstOf(output.placed ?? [output.resources], dangling));
}

function firstOf<T, R>(items: readonly T[], find: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function exists({ resources, placed }: UnitOutput): boolean {
  return placed !== undefined || resources.length > 0;
}

function attempt(make: () => UnitOutput): UnitOutput | Error {
  try {
    return make();
  } catch (error) {
    return toError(error);
  }
}

/**
 * Finds a reference to a resource that does not exist: Envoy would wait for it until its fetch timeout, and delay other
 * new clusters or listeners meanwhile.
 */
function danglingRefs(
  snapshot: MeshReader,
  view: View,
): (type: GeneratedType, resources: readonly GeneratedResource[]) => string | undefined {
  // Views with the same service and destination rule share a cluster object. Because these decide how endpoints are
  // provided, the result for one view is valid for all views with the same object.
  const clusters = snapshot.memos.weak<GeneratedResource, { provided: boolean }>('provided clusters');
  const ofCluster = (cluster: GeneratedResource): string | undefined => {
    const known = clusters.get(cluster, () => ({ provided: false }));
    if (known.provided) return undefined;
    const { name, refs } = cluster;
    const missing = refs.find((ref) => !isClientView(view) || endpointsNameOf(snapshot, view, name) !== ref);
    if (missing !== undefined) return `cluster ${name} refers to endpoints ${missing}, which do not exist`;
    known.provided = true;
    return undefined;
  };
  let routeUnits: ReadonlySet<Unit> | undefined;
  const ofListener = ({ name, refs }: GeneratedResource): string | undefined => {
    if (refs.length === 0) return undefined;
    routeUnits ??= new Set(generatorOf(snapshot, view, 'rds').units());
    const missing = refs.find((ref) => routeUnits?.has(ref) !== true);
    return missing === undefined ? undefined : `listener ${name} refers to routes ${missing}, which do not exist`;
  };
  return (type, resources) => {
    if (type === 'cds') return firstOf(resources, ofCluster);
    return type === 'lds' ? firstOf(resources, ofListener) : undefined;
  };
}
