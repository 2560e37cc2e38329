/**
 * `/debug/configz`: the configuration in force with the source of each resource, other documents with the same key, and
 * refused documents.
 */
import { redactByName } from '../core/redact.ts';
import {
  type AnyResource,
  apiVersionsOf,
  HEALTHY_CONDITION,
  isProbed,
  keyOf,
  MESH_KINDS,
  type MeshKind,
  meshKindNamed,
  type ResourceKey,
  type ResourceOrigin,
  type ResourceProblem,
  type ResourceWarning,
} from '../resources/index.ts';
import type { SourceDocument } from '../store/index.ts';
import { numberOf } from './numbers.ts';
import { redactContent } from './redact-resource.ts';
import type { Viewed } from './viewed.ts';

/** The API group and version that users write. */
function apiVersion({ kind }: AnyResource): string {
  return apiVersionsOf(kind)[0] ?? '';
}

/** A problem without the fields that only the program uses. */
export function shownProblem({ substitutes: _substitutes, kept: _kept, ...problem }: ResourceProblem): ResourceProblem {
  return problem;
}

/** The filter of the request. Undefined: no filter. */
interface Wanted {
  readonly kind: MeshKind | undefined;
  readonly namespace: string | undefined;
  /** In the name of a resource; of `items` alone, as `start` and `limit` are. */
  readonly search: string;
  readonly start: number;
  readonly limit: number;
}

/**
 * `?kind=`, `&namespace=`, `&search=`, `&start=` and `&limit=`; an empty one means no filter. Throws CtlError
 * invalid_argument for an unknown kind, and for what is not a number.
 */
function wantedBy(query: URLSearchParams): Wanted {
  const [kind, namespace] = [query.get('kind') || undefined, query.get('namespace') || undefined];
  return {
    kind: kind === undefined ? undefined : meshKindNamed(kind),
    namespace,
    search: query.get('search') ?? '',
    start: numberOf(query, 'start', 0),
    limit: numberOf(query, 'limit', Number.POSITIVE_INFINITY),
  };
}

function isWanted({ kind, namespace }: Wanted, key: ResourceKey | undefined): boolean {
  const [ofKind, ofNamespace] = key?.split('/') ?? [];
  return (kind === undefined || kind === ofKind) && (namespace === undefined || namespace === ofNamespace);
}

/**
 * The page. `items` has the resources of mesh kinds; where there are more than `limit`, `next` is the `start` of the
 * next ones. `otherKinds` has the keys of other kinds that have documents from several sources, without content.
 * `sources` is only for viewers who see everything.
 */
export function configz(mesh: Viewed, query: URLSearchParams): Record<string, unknown> {
  const wanted = wantedBy(query);
  const problems = mesh.problems().filter(({ key }) => isWanted(wanted, key));
  const refused = Map.groupBy(problems, ({ key }) => key);
  const found = { items: 0 };
  return {
    sources: mesh.sources(),
    items: paged(
      wanted,
      found,
      items(mesh, wanted, (key) => refused.get(key)),
    ),
    // Serialized after the items.
    next: () => (found.items > wanted.start + wanted.limit ? wanted.start + wanted.limit : undefined),
    otherKinds: filtered(
      mesh.sharedKeys(),
      (key) => isWanted(wanted, key) && !isMeshKey(key),
      (key) => ({
        key,
        ...inForce(mesh.documents(key)),
      }),
    ),
    problems: problems.map(shownProblem),
    nameConflicts: filtered(mesh.nameConflicts(), ({ resource }) => isWanted(wanted, resource)),
  };
}

function isMeshKey(key: ResourceKey): boolean {
  return MESH_KINDS.some((kind) => key.startsWith(`${kind}/`));
}

function* filtered<T, R = T>(all: Iterable<T>, wanted: (item: T) => boolean, shown?: (item: T) => R): Generator<T | R> {
  for (const item of all) if (wanted(item)) yield shown === undefined ? item : shown(item);
}

type RefusedOf = (key: ResourceKey) => readonly ResourceProblem[] | undefined;

/** The items of one page. One more is counted in `found`, to know that there are more. */
function* paged(
  { start, limit }: Wanted,
  found: { items: number },
  all: Iterable<() => unknown>,
): Generator<() => unknown> {
  for (const item of all) {
    if (++found.items > start + limit) return;
    if (found.items > start) yield item;
  }
}

function* items(
  mesh: Viewed,
  { kind, namespace, search }: Wanted,
  refusedOf: RefusedOf,
): Generator<() => Record<string, unknown>> {
  for (const each of kind === undefined ? MESH_KINDS : [kind]) {
    for (const resource of mesh.resources(each)) {
      if (namespace !== undefined && namespace !== resource.meta.namespace) continue;
      if (!resource.meta.name.includes(search)) continue;
      const key = keyOf(resource);
      yield () => {
        const refused = refusedOf(key)?.map(shownProblem);
        return {
          ...shownResource(withWarnings(resource as AnyResource, mesh.warningsOf(key))),
          ...inForce(mesh.documents(key), shownResource),
          ...(refused === undefined ? {} : { refused }),
        };
      };
    }
  }
}

function withWarnings(resource: AnyResource, more: readonly ResourceWarning[]): AnyResource {
  return more.length === 0 ? resource : { ...resource, warnings: [...(resource.warnings ?? []), ...more] };
}

/** The source and origin of the document in force, and the other documents. */
function inForce(
  [first, ...others]: readonly SourceDocument[],
  shown: (resource: AnyResource) => object = ({ origin }) => ({ origin }),
): Record<string, unknown> {
  if (first === undefined) return {};
  return {
    ...sourceOf(first),
    ...(others.length === 0
      ? {}
      : { others: others.map((other) => ({ ...shown(other.resource), ...sourceOf(other) })) }),
  };
}

/** `held`: the document is in force instead of a refused one. */
function sourceOf({ source, resource, replacesRefused }: SourceDocument): {
  source: string;
  origin: ResourceOrigin;
  held?: true;
} {
  return { source, origin: resource.origin, ...(replacesRefused ? { held: true } : {}) };
}

function shownResource(resource: AnyResource): Record<string, unknown> {
  const { kind, meta, content, origin, warnings } = resource;
  const { created, unhealthy, ofMachines: _ofMachines, unhealthyEndpoints, ...metadata } = meta;
  const creationTimestamp = created === undefined ? {} : { creationTimestamp: new Date(created).toISOString() };
  return {
    apiVersion: apiVersion(resource),
    kind,
    metadata: { ...metadata, annotations: redactByName(metadata.annotations), ...creationTimestamp },
    spec: redactContent(kind, content),
    ...(kind === 'WorkloadEntry' && isProbed(meta.annotations) ? { status: healthStatus(unhealthy !== true) } : {}),
    // Indexes of endpoints, where a source knows their health.
    ...(unhealthyEndpoints === undefined ? {} : { status: { unhealthyEndpoints } }),
    origin,
    ...(warnings === undefined ? {} : { warnings }),
  };
}

/** As a WorkloadEntry in a cluster shows the health that is in force. */
function healthStatus(healthy: boolean): object {
  return { conditions: [{ type: HEALTHY_CONDITION, status: healthy ? 'True' : 'False' }] };
}
