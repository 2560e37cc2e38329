/** Debug pages about the mesh as the program sees it: services, endpoints, configuration, and what is wrong with it. */
import type { Endpoint, Service, Snapshot } from '../../model/types.ts';
import { type AnyResource, CORE_KINDS, MESH_KINDS, type Resource } from '../../resources/types.ts';
import type { DebugSource } from './types.ts';

/** API groups as a user writes them. */
function apiVersion(resource: Resource): string {
  switch (resource.kind) {
    case 'AuthorizationPolicy':
    case 'PeerAuthentication':
    case 'RequestAuthentication':
      return 'security.mesh.io/v1beta1';
    default:
      return 'networking.mesh.io/v1alpha3';
  }
}

/** `/debug/configz`: the mesh configuration resources in force, as objects, and the documents that were refused. */
export function configz(source: DebugSource): Record<string, unknown> {
  const snapshot = source.snapshot();
  const items = MESH_KINDS.flatMap((kind) =>
    snapshot
      .resources(kind)
      .sorted()
      .map(([, resource]) => {
        const { kind: name, meta, content, origin } = resource as AnyResource;
        const { created, ...metadata } = meta;
        const creationTimestamp = created === undefined ? {} : { creationTimestamp: new Date(created).toISOString() };
        return {
          apiVersion: apiVersion(resource),
          kind: name,
          metadata: { ...metadata, ...creationTimestamp },
          spec: content,
          origin,
        };
      }),
  );
  return { items, problems: source.problems() };
}

/** `/debug/resourcesz`: kinds known and how many of each. */
export function resourcesz(snapshot: Snapshot): Record<string, number> {
  return Object.fromEntries([...CORE_KINDS, ...MESH_KINDS].map((kind) => [kind, snapshot.resources(kind).size]));
}

/** `/debug/registryz`: every service. */
export function registryz(snapshot: Snapshot): readonly Service[] {
  return snapshot.services.sorted().map(([, service]) => service);
}

/** `/debug/endpointz`: endpoints by service and port. */
export function endpointz(snapshot: Snapshot): unknown[] {
  return snapshot.services.sorted().flatMap(([key, service]) =>
    service.ports.map((port) => ({
      svc: `${service.hostname}:${port.name}`,
      namespace: service.namespace,
      port: port.port,
      ep: endpointsOf(snapshot, key).filter((endpoint) => endpoint.servicePort === port.name),
    })),
  );
}

/** `/debug/endpointShardz`: host name → namespace → endpoints. */
export function endpointShardz(snapshot: Snapshot): Record<string, Record<string, readonly Endpoint[]>> {
  const shards: Record<string, Record<string, readonly Endpoint[]>> = {};
  for (const [key, service] of snapshot.services.sorted()) {
    shards[service.hostname] ??= {};
    const namespaces = shards[service.hostname];
    if (namespaces !== undefined) namespaces[service.namespace] = endpointsOf(snapshot, key);
  }
  return shards;
}

function endpointsOf(snapshot: Snapshot, key: string): readonly Endpoint[] {
  return snapshot.endpoints.get(key) ?? [];
}

/** `/debug/instancesz`: the services that each connected proxy itself serves. */
export function instancesz(source: DebugSource): Record<string, unknown> {
  const snapshot = source.snapshot();
  const byProxy = source
    .connections()
    .map(({ node }) => [node.workload, node.addresses.flatMap((address) => snapshot.instancesAt(address))]);
  return Object.fromEntries(byProxy);
}

/** `/debug/push_status`: what generation found wrong, by metric, views that cannot be generated, and the state of the engine. */
export function pushStatus(source: DebugSource): Record<string, unknown> {
  const findings: Record<string, string[]> = {};
  for (const { metric, message } of source.findings()) {
    findings[metric] ??= [];
    const messages = findings[metric];
    if (messages !== undefined && !messages.includes(message)) messages.push(message);
  }
  const snapshot = source.snapshot();
  const failing = source.failing();
  return { version: snapshot.version, engine: source.engine(), failing, model: snapshot.findings(), findings };
}
