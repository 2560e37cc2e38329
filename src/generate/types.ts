/** What generation is asked for, and its results. */
import { XDS_TYPES, type XdsType } from '../core/xds-types.ts';
import type { ResourceKey } from '../resources/index.ts';
import type { Facts, MeshReader } from './reads/index.ts';
import type { AppliedFilter, PatchedType, Placement, View } from './views.ts';

/** The resource types that are generated in the pool. EDS is encoded on the main thread, where it changes. */
export type GeneratedType = Exclude<XdsType, 'eds'>;
export const GENERATED_TYPES = XDS_TYPES.filter((type): type is GeneratedType => type !== 'eds');

/**
 * Types that are generated for proxies that request a type: listeners together with their routes, and these with their
 * virtual hosts.
 */
export const GENERATED_FOR: Readonly<Record<XdsType, readonly GeneratedType[]>> = {
  cds: ['cds'],
  eds: ['cds'],
  sds: ['sds'],
  ecds: ['ecds'],
  lds: ['lds', 'rds', 'vhds'],
  rds: ['lds', 'rds', 'vhds'],
  vhds: ['lds', 'rds', 'vhds'],
  nds: ['nds'],
};

/**
 * One generated message. `refs` are the names that it makes an Envoy request: EDS service names of a cluster, route
 * configuration names of a listener. (Consistency: EDS ⊆ CDS, RDS ⊆ LDS.) A route configuration with discovered virtual
 * hosts has its own name: the unit of `vhds` that contains them.
 */
export interface GeneratedResource {
  readonly name: string;
  /** Encoded protobuf message (not the Any around it). */
  readonly bytes: Uint8Array;
  /**
   * The same bytes in pieces, the same objects while they are unchanged; absent when the message is encoded as a whole.
   */
  readonly pieces?: readonly Uint8Array[];
  readonly refs: readonly string[];
}

/**
 * The unit of incremental work: generated together and replaced together. Outbound clusters: a host name; listeners: a
 * port (`80`) or `virtual`; routes: the route configuration's name; inbound and gateway parts likewise.
 */
export type Unit = string;

/** Units to generate per type; `all` for every unit of the view. */
export type UnitSelection = Readonly<Partial<Record<GeneratedType, 'all' | ReadonlySet<Unit>>>>;

/** Results by unit: an empty list means that the unit does not exist. */
export type GeneratedUnits = Readonly<Partial<Record<GeneratedType, ReadonlyMap<Unit, readonly GeneratedResource[]>>>>;

/** A unit's resources in each of the requested placements, in their order. */
export type PlacedResources = readonly (readonly GeneratedResource[])[];

/** An EnvoyFilter as a unit was last made with it. */
export interface FormerFilter extends AppliedFilter {
  /** The serialized content of the EnvoyFilter; absent if it and the patches are the current ones. */
  readonly content?: Uint8Array;
}

/** The EnvoyFilters that units were last generated with, which replace current ones that do not fit. */
export interface FormerFilters {
  readonly type: PatchedType;
  /** Absent: all units of the type that no other entry names. */
  readonly units?: readonly Unit[];
  /** Without the EnvoyFilters that the units were not made with. */
  readonly filters: readonly FormerFilter[];
}

/** An EnvoyFilter whose current version does not fit a unit, and the version that is used instead. */
export interface Misfit {
  readonly key: ResourceKey;
  readonly use: 'former version' | 'nothing';
}

/**
 * Problems found while generating, for `ctl_conflict_*` and similar metrics and for /debug/push_status: metric name →
 * what → details.
 */
export interface GenerationFinding {
  readonly metric:
    | 'ctl_conflict_inbound_listener'
    | 'ctl_conflict_outbound_listener_http_over_current_tcp'
    | 'ctl_conflict_outbound_listener_tcp_over_current_http'
    | 'ctl_conflict_outbound_listener_tcp_over_current_tcp'
    | 'ctl_vservice_dup_domain'
    | 'ctl_invalid_out_listeners'
    | 'ctl_duplicate_proxy_clusters'
    | 'ctl_missing_credentials'
    | 'ctl_policy_problems'
    | 'ctl_telemetry_problems'
    | 'ctl_unsupported_by_grpc'
    | 'ctl_refused_inbound_ports';
  /** The unit it was found in, so that the finding is removed when the unit is generated again. */
  readonly type: GeneratedType;
  readonly unit: Unit;
  readonly message: string;
}

export interface PatchProblem {
  /** One line. */
  readonly message: string;
  readonly misfits: readonly Misfit[];
}

/** A generator's output for one unit. No resources: the unit does not exist. */
export interface UnitOutput {
  readonly resources: readonly GeneratedResource[];
  readonly findings: readonly GenerationFinding[];
  /** Present when the unit depends on the placement; `resources` is empty then. */
  readonly placed?: PlacedResources;
  /** Which EnvoyFilters do not fit the unit, and why. */
  readonly problem?: PatchProblem;
  /** Set if `resources` are the virtual hosts for some names. */
  readonly part?: HostsPart;
}

/** A part of the virtual hosts of a route configuration, generated for names. */
export interface HostsPart {
  /** How many virtual hosts there are at most in all. */
  readonly among: number;
  /**
   * Of the names those without which the virtual hosts would be the same: there is none for them, or names before them
   * have it.
   */
  readonly spare: readonly string[];
}

/**
 * Generator of one type and one part: pure, with the snapshot, the view and the placements as its only inputs. `units`
 * returns all units that exist in the snapshot; `generate` must also accept others, for which it returns nothing.
 */
export interface UnitGenerator<V extends View> {
  readonly units: (snapshot: MeshReader, view: V) => readonly Unit[];
  readonly generate: (snapshot: MeshReader, view: V, unit: Unit, placements: readonly Placement[]) => UnitOutput;
}

/** Facts that were read for a type. */
export interface TypeReads {
  /** For the list of units; undefined if only some units were requested. */
  readonly list: Facts | undefined;
  /** For each selected unit that exists, including those that could not be built. */
  readonly units: ReadonlyMap<Unit, Facts>;
}

/**
 * `units` has an entry for each selected unit that could be built, except for clusters that depend on the placement,
 * which are in `placed`. Where the selection was `all`, a unit that is neither here nor in `failures` does not exist.
 */
export interface GenerationResult {
  readonly units: GeneratedUnits;
  readonly placed: ReadonlyMap<Unit, PlacedResources>;
  /** Units of virtual hosts of which a part was generated. */
  readonly parts: ReadonlyMap<Unit, HostsPart>;
  readonly reads: Readonly<Partial<Record<GeneratedType, TypeReads>>>;
  readonly findings: readonly GenerationFinding[];
  readonly failures: readonly GenerationFailure[];
}

/**
 * A unit that could not be built and keeps its last good version, or that was built with other EnvoyFilters than the
 * current ones.
 */
export interface GenerationFailure {
  readonly type: GeneratedType;
  readonly unit: Unit;
  /** One line. */
  readonly message: string;
  /** Present if the unit was built nevertheless. */
  readonly misfits?: readonly Misfit[];
}
