/**
 * The endpoint resources of a view's clusters: one for all placements if these have the same endpoints, otherwise one
 * for each. Endpoints are encoded on the main thread whenever they change.
 */
import { messageOf } from '../../core/errors.ts';
import type { XdsType } from '../../core/xds-types.ts';
import {
  type ClientView,
  DEFAULT_PLACEMENT,
  type EdsInput,
  endpointName,
  endpointsOfHost,
  hostOfCluster,
  type Placement,
  type Unit,
} from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import type { EndpointEncoder, UnitContents } from '../bundles/index.ts';
import type { Bundle, EncodedResource } from '../types.ts';

/** A failure, as one line. */
export interface BuildFailure {
  readonly type: XdsType;
  readonly message: string;
}

/** The inputs of endpoint resources: the snapshot, the view and the placement. */
export interface EndpointContext {
  readonly view: ClientView;
  /** Key of the view, for messages. */
  readonly key: string;
  readonly placements: readonly Placement[];
  readonly snapshot: Snapshot;
  readonly encoder: EndpointEncoder;
  /** Collects failures. */
  readonly failures: BuildFailure[];
}

type Resources = Map<string, EncodedResource | undefined>;

/** Resources set and (undefined) removed. */
export interface EndpointChanges {
  /** For all placements; entries of `placed` take precedence. */
  readonly common: Resources;
  /** For each placement, the differences from `common`. */
  readonly placed: readonly Resources[];
}

/** Resources by the unit of their clusters; for a placement, entries of `placed` take precedence. */
export interface EndpointUnits {
  readonly common: UnitContents;
  readonly placed: readonly UnitContents[];
}

/**
 * Endpoint resources for clusters with these names: encoded for EDS clusters, removed for others. @param clusters the
 * common clusters; clusters that depend on the placement contain their endpoints
 */
export function endpointChanges(
  clusterNames: Iterable<string>,
  clusters: Bundle,
  context: EndpointContext,
): EndpointChanges {
  const { view, key, placements, encoder, failures } = context;
  const common: Resources = new Map();
  const placed = placements.map((): Resources => new Map());
  const inputs = new HostInputs(context);
  for (const clusterName of clusterNames) {
    const cluster = clusters.get(clusterName);
    if (cluster === undefined || cluster.refs.length === 0) {
      common.set(endpointName(view.endpointNames, clusterName), undefined);
      continue;
    }
    try {
      const input = inputs.at(DEFAULT_PLACEMENT, clusterName);
      // The service no longer exists: a running job removes the cluster, and until then the endpoints stay.
      if (input === undefined) continue;
      const { name } = input;
      if (!input.placed) {
        common.set(name, encoder.encode(input));
        continue;
      }
      const each = placements.map((placement) => inputs.at(placement, clusterName));
      const encoded = each.map((own) => own && encoder.encode(own));
      common.set(name, undefined);
      for (const [index, resource] of encoded.entries()) placed[index]?.set(name, resource);
    } catch (error) {
      const reason = messageOf(error);
      failures.push({
        type: 'eds',
        message: `eds ${clusterName} of ${key}: ${reason}; the last good version stays in force`,
      });
    }
  }
  return { common, placed };
}

/** The same for all clusters of these units; views with equal units share the results. */
export function endpointUnits(units: UnitContents, clusters: Bundle, context: EndpointContext): EndpointUnits {
  const { view, placements, snapshot, encoder } = context;
  const common = new Map<Unit, readonly EncodedResource[]>();
  const placed = placements.map(() => new Map<Unit, readonly EncodedResource[]>());
  const encoded = (members: readonly EncodedResource[], host: string, placement: Placement) =>
    encoder.encodeUnit(members, () => endpointsOfHost(snapshot, view, placement, host));
  for (const [unit, members] of units) {
    if (members === undefined) continue;
    const host = encoder.hostOfUnit(members);
    const inputs = host === undefined ? undefined : inputsOf(host, context);
    if (host !== undefined && inputs !== undefined) {
      if (!isPlaced(inputs)) {
        const shared = encoder.encodeUnit(members, () => inputs);
        if (shared !== undefined) {
          common.set(unit, shared);
          continue;
        }
      } else {
        const each = placements.map((placement) => encoded(members, host, placement));
        if (each.every((resources) => resources !== undefined)) {
          for (const [index, resources] of each.entries()) placed[index]?.set(unit, resources);
          continue;
        }
      }
    }
    const names = members.map(({ name }) => name);
    const apart = endpointChanges(names, clusters, context);
    const everywhere = present(apart.common);
    common.set(unit, everywhere);
    for (const [index, resources] of apart.placed.entries())
      if (resources.size > 0) placed[index]?.set(unit, [...everywhere, ...present(resources)]);
  }
  return { common, placed };
}

function present(resources: Resources): readonly EncodedResource[] {
  return [...resources.values()].filter((resource) => resource !== undefined);
}

type Inputs = ReadonlyMap<string, EdsInput>;

const NO_INPUTS: Inputs = new Map();

/** Inputs of a host's clusters, '' for no host; undefined when one of them fails. */
function inputsOf(host: string, { snapshot, view }: EndpointContext): Inputs | undefined {
  if (host === '') return NO_INPUTS;
  try {
    return endpointsOfHost(snapshot, view, DEFAULT_PLACEMENT, host);
  } catch {
    // The caller finds out which of them fails.
    return undefined;
  }
}

/** True when the clusters of a host depend on the placement: all of them do, or none. */
function isPlaced(inputs: Inputs): boolean {
  for (const { placed } of inputs.values()) return placed;
  return false;
}

/** Endpoint inputs by cluster; keeps those of one host at a time. */
class HostInputs {
  readonly #context: EndpointContext;
  readonly #known = new Map<Placement, Inputs>();
  #host: string | undefined;

  constructor(context: EndpointContext) {
    this.#context = context;
  }

  /** Throws what building the inputs throws. */
  at(placement: Placement, clusterName: string): EdsInput | undefined {
    const { snapshot, view } = this.#context;
    // Clusters of one host are requested in sequence.
    const host = hostOfCluster(clusterName);
    if (host !== this.#host) this.#known.clear();
    this.#host = host;
    let inputs = this.#known.get(placement);
    if (inputs === undefined) {
      inputs = endpointsOfHost(snapshot, view, placement, host);
      this.#known.set(placement, inputs);
    }
    return inputs.get(clusterName);
  }
}
