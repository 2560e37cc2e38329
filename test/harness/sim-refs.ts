/**
 * The names that a resource makes an Envoy subscribe to, read from its bytes, for simulated proxies.
 */
import { hash } from 'node:crypto';
import { envoy } from '../../src/protobuf/index.ts';
import { LENGTH_DELIMITED, WireReader } from '../../src/protobuf/wire/index.ts';

const HCM = 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { Cluster } = envoy.config.cluster.v3;
const { Listener } = envoy.config.listener.v3;
const { ClusterLoadAssignment } = envoy.config.endpoint.v3;
const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;

export type SimType = 'cds' | 'eds' | 'lds' | 'rds';
/** The types whose resources can be read. */
export type ReadType = SimType | 'vhds';

/**
 * The name of a resource and the names that it refers to. Discovered virtual hosts and their route configuration refer
 * to each other.
 */
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

function readFacts(type: ReadType, bytes: Uint8Array): Facts {
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
    case 'rds': {
      const { name, vhds } = RouteConfiguration.decode(bytes);
      return { name, refs: vhds === null ? [] : [name] };
    }
    case 'vhds': {
      const { name } = VirtualHost.decode(bytes);
      return { name, refs: [name.slice(0, name.lastIndexOf('/'))] };
    }
  }
}

/** Shared by all simulated proxies of a process: a thousand of them read each resource once. */
const known = new Map<string, Facts>();

/** `identity` identifies the content: its hash, or its name and version. */
export function factsOf(type: ReadType, identity: string, bytes: Uint8Array): Facts {
  const key = `${type} ${identity}`;
  let facts = known.get(key);
  if (facts === undefined) {
    facts = readFacts(type, bytes);
    known.set(key, facts);
  }
  return facts;
}

/** Calls back for every length-delimited field of a message and skips other fields. Reads nothing twice. */
export function eachField(message: Buffer, visit: (field: number, value: Buffer) => void): void {
  const reader = new WireReader(message);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.wireType === LENGTH_DELIMITED) visit(field.number, reader.content(field));
}

/** The value of an Any. */
export function anyValue(any: Buffer): Buffer {
  let value: Buffer = Buffer.alloc(0);
  eachField(any, (field, bytes) => {
    if (field === 2) value = bytes;
  });
  return value;
}

export function contentHash(bytes: Uint8Array): string {
  return hash('sha1', bytes, 'base64');
}
