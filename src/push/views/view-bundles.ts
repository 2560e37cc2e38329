/**
 * The bundles of a view: common bundles, and for each placement those of clusters and endpoints. If nothing depends on
 * the placement, all placements have the common bundles, and so share one difference and one encoded body. Otherwise a
 * placement's bundles share memory with the common ones.
 */
import { byXdsType, XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import {
  GENERATED_TYPES,
  type GeneratedType,
  isClientView,
  type Placement,
  type Unit,
  type View,
} from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import {
  type BundleTemplates,
  type EndpointEncoder,
  emptyBundle,
  type Interner,
  isUntouched,
  nextBundle,
  type UnitContents,
} from '../bundles/index.ts';
import type { Bundle, EncodedResource } from '../types.ts';
import { applyEdits, type Edits, resourceChanges, type Units } from './job-changes.ts';
import type { Bundles } from './placed-view.ts';
import {
  type BuildFailure,
  type EndpointContext,
  type EndpointUnits,
  endpointChanges,
  endpointUnits,
} from './view-endpoints.ts';

/** Makes encoded resources and bundles. */
export interface Encoders {
  readonly interner: Interner;
  readonly endpoints: EndpointEncoder;
  readonly templates: BundleTemplates;
}

/** The bundles of a placement. */
export interface PlacedBundles {
  readonly placement: Placement;
  /** Key of the placement. */
  readonly key: string;
  /** Clusters that depend on the placement. */
  readonly clusters: Map<Unit, readonly EncodedResource[]>;
  initialized: boolean;
  bundles: Bundles;
}

/** Types whose bundle was replaced, by placement. */
export type ChangedTypes<P extends PlacedBundles> = ReadonlyMap<P, ReadonlySet<XdsType>>;

/** The result of a job for a view. */
export interface Commit<P extends PlacedBundles> {
  /** Before the job. */
  readonly units: Units;
  readonly edits: Record<GeneratedType, Edits>;
  /** All placements of the view. */
  readonly placements: Iterable<P>;
  /** The placements of the job, with the edits of their own clusters. */
  readonly placed: ReadonlyMap<P, Edits>;
  /** Whether all clusters of the view exist after the job. */
  readonly complete: boolean;
}

/** The inputs of building bundles. */
export interface BuildContext {
  readonly snapshot: Snapshot;
  readonly encoders: Encoders;
  /** Collects failures. */
  readonly failures: BuildFailure[];
}

/** New bundles; nothing changes before `apply`. */
interface Next<P extends PlacedBundles> {
  readonly changed: ChangedTypes<P>;
  apply(): void;
}

type Changes = ReadonlyMap<string, EncodedResource | undefined>;

type Clusters = ReadonlyMap<Unit, readonly EncodedResource[]>;

/** The bundles that may depend on the placement. */
type PlacementBundles = Pick<Bundles, 'cds' | 'eds'>;

const NO_CHANGES: Changes = new Map();
const NO_UNITS: UnitContents = new Map();

export class ViewBundles<P extends PlacedBundles> {
  readonly #key: string;
  readonly #view: View;
  /** The common bundles; a new object whenever one of them is replaced. */
  #common: Bundles;

  constructor(key: string, view: View) {
    this.#key = key;
    this.#view = view;
    this.#common = byXdsType((type) => emptyBundle(type, key));
  }

  /** The bundles of a placement before it gets its clusters and endpoints. */
  get initial(): Bundles {
    return { ...this.#common, cds: emptyBundle('cds', this.#key), eds: emptyBundle('eds', this.#key) };
  }

  /** The bundles after a job. */
  next(commit: Commit<P>, context: BuildContext): Next<P> {
    const { templates } = context.encoders;
    const { edits } = commit;
    const before = this.#common;
    const bundles = { ...before };
    // No template for secrets: views have few in common.
    for (const type of GENERATED_TYPES)
      bundles[type] =
        isUntouched(before[type]) && !XDS[type].confidential
          ? templates.begin(this.#view.part, before[type], edits[type])
          : nextBundle(before[type], resourceChanges(commit.units[type], edits[type]));
    const initialized = [...commit.placed.keys()].filter((each) => each.initialized);
    const uninitialized = commit.complete ? [...commit.placed.keys()].filter((each) => !each.initialized) : [];
    const own = new Map([
      ...this.#ownAfter(commit, initialized, bundles, context),
      ...this.#ownAtFirst(commit, uninitialized, bundles, context),
    ]);
    return this.#replacing(bundles, own, commit.placements);
  }

  /**
   * The next bundles of initialized placements; puts the common endpoints into `bundles`. Endpoints are encoded even if
   * the cluster's bytes are unchanged, because the labels of a subset only affect its endpoints.
   */
  #ownAfter(
    { units, edits, placed }: Commit<P>,
    initialized: readonly P[],
    bundles: Record<XdsType, Bundle>,
    context: BuildContext,
  ): Map<P, PlacementBundles> {
    const before = this.#common;
    if (initialized.length === 0 && isUntouched(before.eds)) return new Map();
    const clusters = resourceChanges(units.cds, edits.cds);
    const endpoints = this.#endpointChanges(clusters.keys(), bundles.cds, initialized, context);
    bundles.eds = nextBundle(before.eds, endpoints.common);
    const own = initialized.map((each, index): [P, PlacementBundles] => {
      const ownClusters = resourceChanges(each.clusters, placed.get(each) ?? new Map());
      const ownEndpoints = endpoints.placed[index] ?? NO_CHANGES;
      const cds = following(each.bundles.cds, [before.cds, bundles.cds], clusters, ownClusters);
      const eds = following(each.bundles.eds, [before.eds, bundles.eds], endpoints.common, ownEndpoints);
      return [each, { cds, eds }];
    });
    return new Map(own);
  }

  /** The first bundles of placements; puts the common endpoints into `bundles` if there were none. */
  #ownAtFirst(
    { units, edits, placed }: Commit<P>,
    uninitialized: readonly P[],
    bundles: Record<XdsType, Bundle>,
    context: BuildContext,
  ): Map<P, PlacementBundles> {
    if (uninitialized.length === 0) return new Map();
    // Mostly the view is new, and so is every unit.
    const clusters = units.cds.size === 0 ? edits.cds : edited(units.cds, edits.cds);
    const own = uninitialized.map((each) => edited(each.clusters, placed.get(each) ?? new Map()));
    return this.#first(uninitialized, clusters, own, bundles, context);
  }

  /** Gives a placement its first bundles if no cluster depends on the placement. */
  begin(placed: P, clusters: Clusters, context: BuildContext): void {
    const own = this.#first([placed], clusters, [new Map()], { ...this.#common }, context);
    this.#replacing(this.#common, own, [placed]).apply();
  }

  /** Encodes the endpoints of these clusters again. Returns the placements whose endpoints changed. */
  update(clusterNames: readonly string[], placements: Iterable<P>, context: BuildContext): readonly P[] {
    const before = this.#common;
    const initialized = [...placements].filter((each) => each.initialized);
    const changes = this.#endpointChanges(clusterNames, before.cds, initialized, context);
    const eds = nextBundle(before.eds, changes.common);
    const own = initialized.map((each, index): [P, PlacementBundles] => {
      const ownChanges = changes.placed[index] ?? NO_CHANGES;
      const { cds } = each.bundles;
      return [each, { cds, eds: following(each.bundles.eds, [before.eds, eds], changes.common, ownChanges) }];
    });
    const { changed, apply } = this.#replacing({ ...before, eds }, new Map(own), initialized);
    apply();
    return [...changed.keys()];
  }

  /** Replaces the common bundles, and those of the placements in `own`; other placements keep their own. */
  #replacing(bundles: Bundles, own: ReadonlyMap<P, PlacementBundles>, placements: Iterable<P>): Next<P> {
    const before = this.#common;
    const common = XDS_TYPES.every((type) => bundles[type] === before[type]) ? before : bundles;
    const changed = new Map<P, ReadonlySet<XdsType>>();
    const next = new Map<P, Bundles>();
    for (const each of placements) {
      const { cds, eds } = own.get(each) ?? each.bundles;
      const made = cds === common.cds && eds === common.eds ? common : { ...common, cds, eds };
      const types = new Set(XDS_TYPES.filter((type) => made[type] !== each.bundles[type]));
      if (types.size === 0) continue;
      changed.set(each, types);
      next.set(each, made);
    }
    const apply = () => {
      this.#common = common;
      for (const [each, made] of next) each.bundles = made;
      for (const each of own.keys()) each.initialized = true;
    };
    return { changed, apply };
  }

  /** The first bundles of placements: the common clusters and their own. */
  #first(
    placed: readonly P[],
    clusters: UnitContents,
    ownClusters: readonly Clusters[],
    bundles: Record<XdsType, Bundle>,
    context: BuildContext,
  ): Map<P, PlacementBundles> {
    const { part } = this.#view;
    const { templates } = context.encoders;
    const endpointContext = this.#endpointContext(placed, context);
    const endpoints: EndpointUnits =
      endpointContext === undefined
        ? { common: NO_UNITS, placed: [] }
        : endpointUnits(clusters, bundles.cds, endpointContext);
    if (isUntouched(bundles.eds)) bundles.eds = templates.begin(part, bundles.eds, endpoints.common);
    const own = placed.map((each, index): [P, PlacementBundles] => {
      const begin = (type: 'cds' | 'eds', common: UnitContents, more: UnitContents = NO_UNITS) =>
        more.size === 0
          ? bundles[type]
          : templates.begin(`${part} ${each.key}`, each.bundles[type], new Map([...common, ...more]));
      return [
        each,
        {
          cds: begin('cds', clusters, ownClusters[index]),
          eds: begin('eds', endpoints.common, endpoints.placed[index]),
        },
      ];
    });
    return new Map(own);
  }

  #endpointChanges(
    clusterNames: Iterable<string>,
    clusters: Bundle,
    placed: readonly P[],
    context: BuildContext,
  ): { readonly common: Changes; readonly placed: readonly Changes[] } {
    const endpointContext = this.#endpointContext(placed, context);
    return endpointContext === undefined
      ? { common: NO_CHANGES, placed: [] }
      : endpointChanges(clusterNames, clusters, endpointContext);
  }

  /** Undefined for a part without endpoints. */
  #endpointContext(placed: readonly P[], { snapshot, encoders, failures }: BuildContext): EndpointContext | undefined {
    const view = this.#view;
    if (!isClientView(view)) return undefined;
    const placements = placed.map(({ placement }) => placement);
    return { view, key: this.#key, placements, snapshot, encoder: encoders.endpoints, failures };
  }
}

/**
 * The next bundle of a placement: the common one if nothing in it depends on the placement. A bundle that has become
 * equal to the common one is kept until something changes, because every proxy would have to compare a new bundle.
 */
function following(
  bundle: Bundle,
  [before, common]: readonly [before: Bundle, now: Bundle],
  changes: Changes,
  own: Changes,
): Bundle {
  if (bundle === before && own.size === 0) return common;
  const next = nextBundle(bundle, together(changes, own));
  // It contains all common resources; with the same size it has no others.
  return next !== bundle && next.size === common.size ? common : next;
}

/** Merges two sets of changes: a name that one removes may have moved to the other. */
function together(changes: Changes, own: Changes): Changes {
  const all = new Map(changes);
  for (const [name, resource] of own) if (resource !== undefined || !all.has(name)) all.set(name, resource);
  return all;
}

function edited(units: Clusters, edits: Edits): Clusters {
  const after = new Map(units);
  applyEdits(after, edits);
  return after;
}
