/**
 * TCP traffic to a port that may be HTTP. The port's cluster announces HTTP inside mutual TLS, because that is its
 * purpose; a TCP proxy that uses the cluster must override this.
 */

import type { ModelSettings } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import type { Tunnel } from '../../resources/index.ts';
import { effectivePolicy, gatewayPolicy } from '../common/index.ts';
import type { ScopeReader } from '../reads/index.ts';
import { hasExtension, type ProxyCapabilities, SET_FILTER_STATE, type TypedConfig, typedConfig } from './extensions.ts';
import { tcpAlpn, tellsServers } from './peer-exchange.ts';
import { protocolKind } from './protocol-kind.ts';

/** Envoy's well-known key for the protocol names of upstream connections, which override the cluster's. */
const UPSTREAM_ALPN = 'envoy.network.application_protocols';

/** Settings of a destination rule for TCP connections. */
export interface ConnectionSettings {
  /** The server is an HTTP proxy, which is asked for a connection to the target. */
  readonly tunnel: Tunnel | undefined;
  /** In milliseconds: after this time without bytes a connection is closed; 0: never. */
  readonly idleTimeout: number | undefined;
  /** In milliseconds: after this time a connection is closed. */
  readonly maxDuration: number | undefined;
}

/** What a TCP proxy needs to know about a destination in addition to its cluster. */
export interface DestinationTraits extends ConnectionSettings {
  /** Same client address, same endpoint. */
  readonly hashSourceIp: boolean;
  /** Whether connections go to their original destination, because the cluster has no endpoints. */
  readonly original: boolean;
  /**
   * `named`: its cluster announces HTTP. `foreign`: it originates TLS that is not that of the mesh, with the ALPN
   * protocols of the cluster.
   */
  readonly tls: 'named' | 'unnamed' | 'foreign';
}

/** The listener for which the traits of a destination are read. */
export interface TraitsReader {
  /** Its port; undefined for one of a gateway. */
  readonly at: number | undefined;
  /** Whether its proxies have mesh certificates: only mutual TLS announces the protocol inside. */
  readonly sds: boolean;
}

/** The traits of a destination, from the services and destination rules of a scope. */
export function destinationTraits(
  scope: Pick<ScopeReader, 'services' | 'rules'>,
  host: string,
  subset: string,
  port: number,
  { at, sds }: TraitsReader,
): DestinationTraits {
  const { services, rules } = scope;
  const ofConnections = effectivePolicy(rules.asReadAt(at, host, services, 'connections'), subset, port);
  const { loadBalancer, connectionPool, tunnel } = ofConnections;
  const policyOf = at === undefined ? gatewayPolicy : effectivePolicy;
  const tls = sds ? policyOf(rules.asReadAt(at, host, services, 'TLS'), subset, port).tls : undefined;
  const service = services.getAt(at, host);
  const protocol = service?.ports.find((candidate) => candidate.port === port)?.protocol;
  const http = protocol !== undefined && protocolKind(protocol, true) !== 'tcp';
  return {
    original: service?.resolution === 'passthrough' || loadBalancer?.simple === 'PASSTHROUGH',
    hashSourceIp: loadBalancer?.consistentHash?.useSourceIp === true,
    tunnel,
    idleTimeout: connectionPool?.tcp?.idleTimeout,
    maxDuration: connectionPool?.tcp?.maxConnectionDuration,
    tls: tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL' ? 'foreign' : http ? 'named' : 'unnamed',
  };
}

/** The network filter before a TCP proxy to such destinations; none if nothing has to be overridden. */
export function bytesInside(
  settings: ModelSettings,
  view: ProxyCapabilities,
  destinations: readonly DestinationTraits['tls'][],
): TypedConfig[] {
  const says = destinations.includes('named') && !destinations.includes('foreign');
  if (!says || !view.capabilities.sds || !hasExtension(view, SET_FILTER_STATE)) return [];
  const value = {
    objectKey: UPSTREAM_ALPN,
    formatString: { textFormatSource: { inlineString: tcpAlpn(tellsServers(settings, view)).join() } },
  };
  const { Config } = envoy.extensions.filters.network.set_filter_state.v3;
  return [typedConfig(SET_FILTER_STATE, Config, { onNewConnection: [value] })];
}
