/** What a proxy gets of the mesh: everything, or what it asks for; and why it gets everything where others do not. */
import type { ProxyNode, SidecarConfiguration } from '../../core/proxy.ts';
import { type Capabilities, ON_DEMAND_FILTER } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import { ProxyMesh } from './proxy-mesh.ts';

/**
 * Why a proxy gets everything although the mesh, or the proxy itself, says otherwise. `sidecar`: its Sidecar resource
 * has no wildcards; `protocol`: it does not discover virtual hosts, because its Envoy is too old or uses State of
 * the World; `filter`: its Envoy was built without the on_demand filter.
 */
export type WholeBecause = 'sidecar' | 'gateway' | 'grpc' | 'protocol' | 'filter';

export interface ChosenConfiguration {
  readonly configuration: SidecarConfiguration;
  readonly because?: WholeBecause;
}

const whole = (because: WholeBecause): ChosenConfiguration => ({ configuration: 'all', because });

/** As the workload states, else its Namespace, else the mesh. */
function chosen(mesh: ProxyMesh, node: ProxyNode): ChosenConfiguration {
  const { extensions, namespace, options } = node;
  const configuration =
    options?.configuration ?? mesh.sidecarsOfNamespace(namespace) ?? mesh.settings.sidecarConfiguration;
  if (configuration === 'all') return { configuration };
  if (node.type === 'router') return whole('gateway');
  if (node.proxyless === true) return whole('grpc');
  if (!node.discoversVirtualHosts) return whole('protocol');
  return extensions?.includes(ON_DEMAND_FILTER) === false ? whole('filter') : { configuration };
}

/**
 * The capabilities of the outbound part of a sidecar with this scope. The hosts that a Sidecar names are sent in any
 * case; if it has no wildcards, there is nothing else to ask for.
 */
export function onDemandOf(
  mesh: ProxyMesh,
  node: ProxyNode,
  scope: string,
): Pick<Capabilities, 'onDemand' | 'namedHosts'> {
  const { configuration } = chosen(mesh, node);
  if (configuration === 'all') return {};
  const { hosts = [], hasWildcards = true } = mesh.namedHosts(scope) ?? {};
  if (!hasWildcards) return {};
  return { onDemand: configuration, ...(hosts.length > 0 && { namedHosts: hosts }) };
}

/** What a proxy gets in a snapshot, for pages. */
export function configurationOf(snapshot: Snapshot, node: ProxyNode): ChosenConfiguration {
  const mesh = new ProxyMesh(snapshot);
  const found = chosen(mesh, node);
  if (found.configuration === 'all') return found;
  const named = mesh.namedHosts(mesh.scopeOf(node.namespace, node.labels).id);
  return named?.hasWildcards === false ? whole('sidecar') : found;
}
