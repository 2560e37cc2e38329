/**
 * The bundles of a view: those that all its proxies have, and in each placement those of clusters and endpoints. Where
 * nothing depends on the placement, all placements have the same bundles, and so one difference and one encoded body;
 * else a placement's own bundles share what they can with the common ones.
 */
import { byXdsType, XDS } from '../../core/xds-types.ts';
import {
  GENERATED_TYPES,
  type GeneratedType,
  type Placement,
  type Unit,
  type View,
  XDS_TYPES,
  type XdsType,
} from '../../generate/types.ts';
import type { Snapshot } from '../../model/types.ts';
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

/** Where encoded resources come from. */
export interface Encoders {
  readonly interner: Interner;
  readonly endpoints: EndpointEncoder;
  readonly templates: BundleTemplates;
}

/** What a placement has of its own. */
export interface PlacedBundles {
  readonly placement: Placement;
  /** Names the placement. */
  readonly key: string;
  /** Units of clusters that depend on the placement. */
  readonly clusters: Map<Unit, readonly EncodedResource[]>;
  initialized: boolean;
  bundles: Bundles;
}

/** Types whose bundle is another one than before, by placement. */
export type ChangedTypes<P extends PlacedBundles> = ReadonlyMap<P, ReadonlySet<XdsType>>;

/** What a job makes of a view. */
export interface Commit<P extends PlacedBundles> {
  /** As they were. */
  readonly units: Units;
  readonly edits: Record<GeneratedType, Edits>;
  /** All placements of the view. */
  readonly placements: Iterable<P>;
  /** Those that the job is about, each with what becomes of its own clusters. */
  readonly placed: ReadonlyMap<P, Edits>;
  /** Whether all clusters of the view are there after it. */
  readonly complete: boolean;
}

/** What bundles are made with. */
export interface BuildContext {
  readonly snapshot: Snapshot;
  readonly encoders: Encoders;
  /** Takes what could not be made. */
  readonly failures: BuildFailure[];
}

/** Bundles that are to take the place of others: nothing is changed before `apply`. */
interface Next<P extends PlacedBundles> {
  readonly changed: ChangedTypes<P>;
  apply(): void;
}

type Changes = ReadonlyMap<string, EncodedResource | undefined>;

type Clusters = ReadonlyMap<Unit, readonly EncodedResource[]>;

/** What depends on the placement. */
type PlacementBundles = Pick<Bundles, 'cds' | 'eds'>;

const NO_CHANGES: Changes = new Map();
const NO_UNITS: UnitContents = new Map();

export class ViewBundles<P extends PlacedBundles> {
  readonly #key: string;
  readonly #view: View;
  /** What does not depend on the placement. Another object whenever one of them is another. */
  #common: Bundles;

  constructor(key: string, view: View) {
    this.#key = key;
    this.#view = view;
    this.#common = byXdsType((type) => emptyBundle(type, key));
  }

  /** What a placement has before it is given its clusters and endpoints. */
  get initial(): Bundles {
    return { ...this.#common, cds: emptyBundle('cds', this.#key), eds: emptyBundle('eds', this.#key) };
  }

  /** What a job's results make of the bundles. */
  next(commit: Commit<P>, context: BuildContext): Next<P> {
    const { templates } = context.encoders;
    const { edits } = commit;
    const before = this.#common;
    const bundles = { ...before };
    // Secrets are not initialized with those of another view: there is nothing to gain.
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
   * What becomes of what placements have of their own; takes the common endpoints into `bundles`. Endpoints are looked
   * at also where the cluster's bytes are as before: a subset's labels stand in the endpoints alone.
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

  /** What placements begin with; takes the common endpoints into `bundles` where there were none. */
  #ownAtFirst(
    { units, edits, placed }: Commit<P>,
    uninitialized: readonly P[],
    bundles: Record<XdsType, Bundle>,
    context: BuildContext,
  ): Map<P, PlacementBundles> {
    if (uninitialized.length === 0) return new Map();
    // Mostly all is new.
    const clusters = units.cds.size === 0 ? edits.cds : edited(units.cds, edits.cds);
    const own = uninitialized.map((each) => edited(each.clusters, placed.get(each) ?? new Map()));
    return this.#first(uninitialized, clusters, own, bundles, context);
  }

  /** Gives a placement what it begins with, where no cluster depends on that. */
  begin(placed: P, clusters: Clusters, context: BuildContext): void {
    const own = this.#first([placed], clusters, [new Map()], { ...this.#common }, context);
    this.#replacing(this.#common, own, [placed]).apply();
  }

  /** Encodes the endpoints of these clusters again. Returns the placements in which some are others than before. */
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

  /**
   * Replaces the common bundles, and what placements have of their own; what those have that are not in `own` stays.
   */
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

  /** What placements begin with, each with its own clusters beside the common ones. */
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

  /** Undefined for a part that asks for no endpoints. */
  #endpointContext(placed: readonly P[], { snapshot, encoders, failures }: BuildContext): EndpointContext | undefined {
    const view = this.#view;
    if (view.part === 'inbound') return undefined;
    const placements = placed.map(({ placement }) => placement);
    return { view, key: this.#key, placements, snapshot, encoder: encoders.endpoints, failures };
  }
}

/**
 * What follows a placement's bundle: the common one where nothing in it depends on the placement. One that has become
 * equal to that is kept until something changes, so that no proxy is given another bundle for nothing.
 */
function following(
  bundle: Bundle,
  [before, common]: readonly [before: Bundle, now: Bundle],
  changes: Changes,
  own: Changes,
): Bundle {
  if (bundle === before && own.size === 0) return common;
  const next = nextBundle(bundle, together(changes, own));
  // It has all of the common ones: with as many, it has no others.
  return next !== bundle && next.size === common.size ? common : next;
}

/** Where one side says that a name is gone it may have moved to the other. */
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
