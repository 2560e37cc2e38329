/** Debug pages about the mesh as the program sees it: services, endpoints, configuration, and what is wrong with it. */
import { redactByName } from '../../core/redact.ts';
import { meshKindNamed } from '../../resources/index.ts';
import {
  type AnyResource,
  CORE_KINDS,
  MESH_KINDS,
  type MeshKind,
  type ResourceKey,
  type ResourceProblem,
} from '../../resources/types.ts';
import { lazyList } from './proxies.ts';
import { redactContent } from './redact-resource.ts';
import type { Viewed } from './viewed.ts';

/** API groups as a user writes them. */
function apiVersion(resource: AnyResource): string {
  switch (resource.kind) {
    case 'AuthorizationPolicy':
    case 'PeerAuthentication':
    case 'RequestAuthentication':
      return 'security.mesh.io/v1beta1';
    default:
      return 'networking.mesh.io/v1alpha3';
  }
}

/** A problem without what the program needs of it beside the message. */
function shownProblem({ substitutes: _substitutes, kept: _kept, ...problem }: ResourceProblem): ResourceProblem {
  return problem;
}

/** What of the configuration is asked for; left out: all. */
interface Wanted {
  readonly kind: MeshKind | undefined;
  readonly namespace: string | undefined;
}

/** `?kind=` and `&namespace=`; one that is empty counts as left out. Throws CtlError invalid_argument for an unknown kind. */
function wantedBy(query: URLSearchParams): Wanted {
  const [kind, namespace] = [query.get('kind') || undefined, query.get('namespace') || undefined];
  return { kind: kind === undefined ? undefined : meshKindNamed(kind), namespace };
}

function isWanted({ kind, namespace }: Wanted, key: ResourceKey | undefined): boolean {
  const [ofKind, ofNamespace] = key?.split('/') ?? [];
  return (kind === undefined || kind === ofKind) && (namespace === undefined || namespace === ofNamespace);
}

/** `/debug/configz`: the mesh configuration resources in force, as objects, the documents that were refused, and claims of others' names. */
export function configz(mesh: Viewed, query: URLSearchParams): Record<string, unknown> {
  const wanted = wantedBy(query);
  return {
    items: items(mesh, wanted),
    problems: mesh
      .problems()
      .filter(({ key }) => isWanted(wanted, key))
      .map(shownProblem),
    nameConflicts: filtered(mesh.nameConflicts(), ({ resource }) => isWanted(wanted, resource)),
  };
}

function* filtered<T>(all: Iterable<T>, wanted: (item: T) => boolean): Generator<T> {
  for (const item of all) if (wanted(item)) yield item;
}

function* items(mesh: Viewed, { kind, namespace }: Wanted): Generator<unknown> {
  for (const each of kind === undefined ? MESH_KINDS : [kind]) {
    for (const resource of mesh.resources(each)) {
      if (namespace === undefined || namespace === resource.meta.namespace)
        yield shownResource(resource as AnyResource);
    }
  }
}

function shownResource(resource: AnyResource): Record<string, unknown> {
  const { kind, meta, content, origin, warnings } = resource;
  const { created, ...metadata } = meta;
  const creationTimestamp = created === undefined ? {} : { creationTimestamp: new Date(created).toISOString() };
  return {
    apiVersion: apiVersion(resource),
    kind,
    metadata: { ...metadata, annotations: redactByName(metadata.annotations), ...creationTimestamp },
    spec: redactContent(kind, content),
    origin,
    ...(warnings === undefined ? {} : { warnings }),
  };
}

/** `/debug/resourcesz`: kinds known and how many of each. */
export function resourcesz(mesh: Viewed): Record<string, number> {
  return Object.fromEntries([...CORE_KINDS, ...MESH_KINDS].map((kind) => [kind, [...mesh.resources(kind)].length]));
}

/** `/debug/registryz`: every service. */
export function registryz(mesh: Viewed): Iterable<unknown> {
  return lazyList(mesh.services(), ([, service]) => service);
}

/** `/debug/endpointz`: endpoints by service and port. */
export function* endpointz(mesh: Viewed): Generator<unknown> {
  for (const [, service] of mesh.services()) {
    for (const port of service.ports) {
      yield {
        svc: `${service.hostname}:${port.name}`,
        namespace: service.namespace,
        port: port.port,
        ep: mesh.endpoints(service).filter((endpoint) => endpoint.servicePort === port.name),
      };
    }
  }
}

/** `/debug/endpointShardz`: host name → namespace → endpoints. */
export function endpointShardz(mesh: Viewed): ReadonlyMap<string, ReadonlyMap<string, unknown>> {
  const shards = new Map<string, Map<string, unknown>>();
  for (const [, service] of mesh.services()) {
    const namespaces = shards.get(service.hostname) ?? new Map<string, unknown>();
    shards.set(service.hostname, namespaces.set(service.namespace, mesh.endpoints(service)));
  }
  return shards;
}

/** `/debug/instancesz`: the services that each connected proxy itself serves. */
export function instancesz(mesh: Viewed): ReadonlyMap<string, unknown> {
  return new Map(mesh.connections().map(({ node }) => [node.workload, () => mesh.instancesOf(node)]));
}

/** `/debug/push_status`: what generation found wrong, by metric, views that cannot be generated, and the state of the engine. */
export function pushStatus(mesh: Viewed): Record<string, unknown> {
  const findings = new Map<string, Set<string>>();
  for (const { metric, message } of mesh.findings()) {
    const messages = findings.get(metric) ?? new Set();
    findings.set(metric, messages.add(message));
  }
  const nameConflicts = lazyList(mesh.nameConflicts(), ({ message }) => message);
  const refusedPolicies = lazyList(mesh.refusedPolicies(), ({ problem, keys, inForce }) => ({
    ...shownProblem(problem),
    inForce,
    resources: keys,
  }));
  return { ...mesh.totals(), findings, nameConflicts, refusedPolicies };
}
