/**
 * Bundles in which some resources are withheld: those that were generated, with the last accepted version in place of
 * what is withheld. What the proxies keep must remain usable, and what they are sent too:
 *
 * - A resource that was removed stays as long as a withheld one still refers to it (its last accepted version).
 * - A resource that refers to a withheld one of which there is no accepted version is withheld as well; of a route
 *   configuration only the virtual hosts that do so.
 * - Endpoints are those that were generated, and those of clusters that stay.
 */
import { XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import { nextBundle } from '../bundles/index.ts';
import type { Bundle, EncodedResource } from '../types.ts';
import type { Bundles } from '../views/index.ts';
import { refersTo, type Typed, type TypedName } from './references.ts';
import { type KeptHosts, withKeptHosts } from './route-hosts.ts';

/**
 * The types that are tried. Endpoints change all the time and Envoy refuses none that are generated; secrets are key
 * material, which is neither delayed nor kept; name tables are for agents.
 */
export const TRIED_TYPES = ['cds', 'ecds', 'lds', 'rds', 'vhds'] as const satisfies readonly XdsType[];

/** The types that sessions are not shown at once. */
export const HELD_TYPES: readonly XdsType[] = [...TRIED_TYPES, 'nds'];

/** From the types that refer to others to those that are referred to. */
const REFERRING_FIRST = ['lds', 'rds', 'vhds', 'ecds', 'cds'] as const satisfies readonly XdsType[];

/**
 * Most pairs of resources that are searched for references, so that a view of thousands of withheld resources costs
 * the main thread milliseconds.
 */
const MAX_PAIRS = 10_000;

/** Names by type. */
export type Names = ReadonlyMap<XdsType, ReadonlySet<string>>;

/** What bundles are composed of. */
export interface Composition {
  /** What was generated. */
  readonly made: Bundles;
  /** The bundles with the accepted versions, which proxies have now. */
  readonly accepted: Bundles;
  /** What was generated last, for the types that are not tried. */
  readonly latest: Bundles;
  /** Route configurations of `made` that {@link withoutMissingClusters} has changed. */
  readonly spliced?: readonly Spliced[];
}

/** A route configuration without references to a withheld cluster. */
export interface Spliced extends KeptHosts {
  readonly clusters: readonly string[];
  /** The version that was generated. */
  readonly version: string;
}

/**
 * What was generated, with route configurations that do not refer to withheld clusters of which proxies have no
 * version. Where that is impossible, {@link dependentsOf} finds them.
 */
export function withoutMissingClusters<C extends Composition>(composition: C, withheld: Names): C {
  const { made, accepted } = composition;
  const clusters = [...(withheld.get('cds') ?? [])].filter((name) => accepted.cds.get(name) === undefined);
  if (clusters.length === 0) return composition;
  const { changed } = made.rds.diffFrom(accepted.rds);
  if (changed.length * clusters.length > MAX_PAIRS) return composition;
  const spliced = changed.flatMap((resource): Spliced[] => {
    const named = clusters.filter((name) => refersTo({ type: 'rds', resource }, { type: 'cds', name }));
    const kept = named.length === 0 ? undefined : withKeptHosts(resource, accepted.rds.get(resource.name), named);
    return kept === undefined ? [] : [{ ...kept, clusters: named, version: resource.version }];
  });
  if (spliced.length === 0) return composition;
  const rds = nextBundle(
    made.rds,
    spliced.map(({ resource }) => [resource.name, resource] as const),
  );
  return { ...composition, made: { ...made, rds }, spliced };
}

/** The name of a withheld resource that another one refers to. */
export interface Dependent extends Typed {
  readonly on: TypedName;
}

/** The resources that cannot be sent because they refer to a withheld one that proxies have no version of. */
export function dependentsOf({ made, accepted }: Composition, withheld: Names): readonly Dependent[] {
  const found: Dependent[] = [];
  const missing: TypedName[] = [];
  for (const [type, names] of withheld) {
    // A route configuration does without a virtual host.
    if (type === 'vhds') continue;
    for (const name of names) if (accepted[type].get(name) === undefined) missing.push({ type, name });
  }
  if (missing.length === 0) return found;
  const known = new Set(missing.map(({ type, name }) => `${type} ${name}`));
  for (const type of REFERRING_FIRST.toReversed()) {
    const changed = made[type].diffFrom(accepted[type]).changed.filter(({ name }) => !withheld.get(type)?.has(name));
    const unbounded = changed.length * missing.length > MAX_PAIRS;
    for (const resource of changed) {
      const typed = { type, resource };
      const on = missing.find((each) => (unbounded ? XDS[type].refersTo.includes(each.type) : refersTo(typed, each)));
      if (on === undefined) continue;
      found.push({ ...typed, on });
      const own = { type, name: resource.name };
      if (accepted[type].get(resource.name) !== undefined || known.has(`${type} ${resource.name}`)) continue;
      known.add(`${type} ${resource.name}`);
      missing.push(own);
    }
  }
  return found;
}

/** Composes bundles of the placements of one view, which share what is equal. */
export class Composer {
  readonly #made: { readonly from: Bundle; readonly changes: ReadonlyMap<string, unknown>; readonly bundle: Bundle }[] =
    [];

  /** @param withheld names with all that depends on them */
  compose(composition: Composition, withheld: Names): Bundles {
    const { made, accepted, latest } = composition;
    const kept = keptRemovals(composition, withheld);
    const bundles = { ...made, sds: latest.sds };
    for (const type of TRIED_TYPES) {
      const changes = new Map<string, EncodedResource | undefined>(kept.get(type));
      for (const name of withheld.get(type) ?? []) changes.set(name, accepted[type].get(name));
      bundles[type] = this.#with(made[type], changes, accepted[type]);
    }
    bundles.eds = this.endpoints(bundles.cds, latest, accepted.eds);
    return [latest, accepted].find((known) => sameBundles(bundles, known)) ?? bundles;
  }

  /**
   * The endpoints for these clusters: the current ones, and those before of clusters that are no longer generated.
   * @param latest what was generated last
   */
  endpoints(clusters: Bundle, latest: Bundles, before: Bundle): Bundle {
    if (clusters === latest.cds) return latest.eds;
    const kept = new Map<string, EncodedResource | undefined>();
    for (const { refs } of clusters.diffFrom(latest.cds).changed)
      for (const ref of refs) {
        const known = latest.eds.get(ref) === undefined ? before.get(ref) : undefined;
        if (known !== undefined) kept.set(ref, known);
      }
    return this.#with(latest.eds, kept, before);
  }

  /** @param before what the proxies have: the same bundle costs them nothing */
  #with(from: Bundle, changes: ReadonlyMap<string, EncodedResource | undefined>, before: Bundle): Bundle {
    if (changes.size === 0) return from;
    const known = this.#made.find((each) => each.from === from && isSame(each.changes, changes));
    if (known !== undefined) return known.bundle;
    const next = nextBundle(from, changes);
    const { changed, removed } = next.diffFrom(before);
    const bundle = changed.length + removed.length === 0 && before.viewKey === from.viewKey ? before : next;
    this.#made.push({ from, changes, bundle });
    return bundle;
  }
}

/** The bundles without any version of these. */
export function without(bundles: Bundles, withheld: Names): Bundles {
  const left = { ...bundles };
  for (const [type, names] of withheld)
    left[type] = nextBundle(
      bundles[type],
      Array.from(names, (name) => [name, undefined]),
    );
  return left;
}

export function sameBundles(one: Bundles, other: Bundles): boolean {
  return XDS_TYPES.every((type) => one[type] === other[type]);
}

function isSame(one: ReadonlyMap<string, unknown>, other: ReadonlyMap<string, unknown>): boolean {
  return one.size === other.size && [...one].every(([key, value]) => other.has(key) && other.get(key) === value);
}

/** Removed resources that what is kept in place of the withheld ones refers to. */
function keptRemovals(
  { made, accepted, spliced = [] }: Composition,
  withheld: Names,
): Map<XdsType, Map<string, EncodedResource>> {
  const keepers = spliced.map(({ resource }): Typed => ({ type: 'rds', resource }));
  for (const [type, names] of withheld)
    for (const name of names) {
      const resource = accepted[type].get(name);
      if (resource !== undefined) keepers.push({ type, resource });
    }
  const kept = new Map<XdsType, Map<string, EncodedResource>>();
  if (keepers.length === 0) return kept;
  for (const type of REFERRING_FIRST) {
    const { removed } = made[type].diffFrom(accepted[type]);
    if (removed.length * keepers.length > MAX_PAIRS) continue;
    for (const name of removed) {
      const resource = accepted[type].get(name);
      if (resource === undefined || !keepers.some((keeper) => refersTo(keeper, { type, name }))) continue;
      const ofType = kept.get(type) ?? new Map<string, EncodedResource>();
      kept.set(type, ofType.set(name, resource));
      keepers.push({ type, resource });
    }
  }
  return kept;
}
