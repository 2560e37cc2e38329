/** What a resource makes an Envoy ask for next, read from its bytes: for simulated proxies, which hold no configuration. */
import { createHash } from 'node:crypto';
import { envoy } from '../../src/protobuf/index.ts';

const HCM = 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { Cluster } = envoy.config.cluster.v3;
const { Listener } = envoy.config.listener.v3;
const { ClusterLoadAssignment } = envoy.config.endpoint.v3;
const { RouteConfiguration } = envoy.config.route.v3;

export type SimType = 'cds' | 'eds' | 'lds' | 'rds';

/** Name of a resource and the names that it refers to. */
export interface Facts {
  readonly name: string;
  readonly refs: readonly string[];
}

function routeNames(bytes: Uint8Array): string[] {
  const listener = Listener.decode(bytes);
  const chains = [
    ...listener.filterChains,
    ...(listener.defaultFilterChain === null ? [] : [listener.defaultFilterChain]),
  ];
  const names = new Set<string>();
  for (const filter of chains.flatMap((chain) => chain.filters)) {
    if (filter.typedConfig?.typeUrl !== HCM) continue;
    const name = HttpConnectionManager.decode(filter.typedConfig.value).rds?.routeConfigName;
    if (name !== undefined) names.add(name);
  }
  return [...names];
}

function readFacts(type: SimType, bytes: Uint8Array): Facts {
  switch (type) {
    case 'cds': {
      const { name, edsClusterConfig } = Cluster.decode(bytes);
      if (edsClusterConfig === null) return { name, refs: [] };
      return { name, refs: [edsClusterConfig.serviceName === '' ? name : edsClusterConfig.serviceName] };
    }
    case 'lds':
      return { name: Listener.decode(bytes).name, refs: routeNames(bytes) };
    case 'eds':
      return { name: ClusterLoadAssignment.decode(bytes).clusterName, refs: [] };
    case 'rds':
      return { name: RouteConfiguration.decode(bytes).name, refs: [] };
  }
}

/** Shared by all simulated proxies of a process: a thousand of them read each resource once. */
const known = new Map<string, Facts>();

export function factsOf(type: SimType, bytes: Uint8Array): Facts & { readonly hash: string } {
  const hash = createHash('sha1').update(bytes).digest('base64');
  const key = `${type}${hash}`;
  let facts = known.get(key);
  if (facts === undefined) {
    facts = readFacts(type, bytes);
    known.set(key, facts);
  }
  return { ...facts, hash };
}
