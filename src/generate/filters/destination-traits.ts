/**
 * Bytes sent to a port that may be HTTP. Its cluster tells the proxies of the mesh that there is HTTP inside mutual
 * TLS, for that is what it is made for; a TCP proxy that uses the cluster has to say otherwise.
 */

import { envoy } from '../../protobuf/index.ts';
import { effectivePolicy, MESH_ALPN } from '../common/index.ts';
import type { ScopeReader } from '../reads/index.ts';
import { hasExtension, type ProxyCapabilities, SET_FILTER_STATE, type TypedConfig, typedConfig } from './extensions.ts';
import { protocolKind } from './protocol-kind.ts';

/** Envoy's well-known key: the protocol names that connections upstream offer, whatever their cluster says. */
const UPSTREAM_ALPN = 'envoy.network.application_protocols';

/** What a TCP proxy has to know about a destination besides its cluster. */
export interface DestinationTraits {
  /** Same client address, same endpoint. */
  readonly hashSourceIp: boolean;
  /**
   * `named`: its cluster names HTTP. `foreign`: it originates TLS that is not the mesh's, whose names are the
   * cluster's.
   */
  readonly tls: 'named' | 'unnamed' | 'foreign';
}

/** For which listener the traits of a destination are read. */
export interface TraitsReader {
  /** Its port; undefined for one of a gateway. */
  readonly at: number | undefined;
  /** Whether its proxies have certificates of the mesh: no others say what is inside. */
  readonly sds: boolean;
}

/** What the services and destination rules of a scope say of a destination. */
export function destinationTraits(
  scope: Pick<ScopeReader, 'services' | 'rules'>,
  host: string,
  subset: string,
  port: number,
  { at, sds }: TraitsReader,
): DestinationTraits {
  const { services, rules } = scope;
  const { loadBalancer } = effectivePolicy(rules.asReadAt(at, host, services, 'hash of connections'), subset, port);
  const tls = sds ? effectivePolicy(rules.asReadAt(at, host, services, 'TLS'), subset, port).tls : undefined;
  const protocol = services.getAt(at, host)?.ports.find((candidate) => candidate.port === port)?.protocol;
  const http = protocol !== undefined && protocolKind(protocol, true) !== 'tcp';
  return {
    hashSourceIp: loadBalancer?.consistentHash?.useSourceIp === true,
    tls: tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL' ? 'foreign' : http ? 'named' : 'unnamed',
  };
}

/** The network filter that stands before a TCP proxy to such destinations; none where there is nothing to say. */
export function bytesInside(view: ProxyCapabilities, destinations: readonly DestinationTraits['tls'][]): TypedConfig[] {
  const says = destinations.includes('named') && !destinations.includes('foreign');
  if (!says || !view.capabilities.sds || !hasExtension(view, SET_FILTER_STATE)) return [];
  const value = {
    objectKey: UPSTREAM_ALPN,
    formatString: { textFormatSource: { inlineString: MESH_ALPN.tcp.join() } },
  };
  const { Config } = envoy.extensions.filters.network.set_filter_state.v3;
  return [typedConfig(SET_FILTER_STATE, Config, { onNewConnection: [value] })];
}
