/** The HTTP version of a cluster. */

import type { Protocol } from '../../model/index.ts';
import { envoy, type google, packAny } from '../../protobuf/index.ts';
import type { ConnectionPool } from '../../resources/index.ts';
import { toDuration } from '../common/index.ts';
import type { ServerNames } from './upstream-names.ts';

const { HttpProtocolOptions } = envoy.extensions.upstreams.http.v3;
const EXTENSION = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions';

/** `none`: not HTTP, or HTTP/1.1 with default options. `client`: the version of the client's request. */
export type UpstreamHttp = 'none' | 'http1' | 'http2' | 'client';

/**
 * @param sniffed whether the protocol of ports without a declared one is detected
 * @param meshUpgrades the mesh configuration's `h2UpgradePolicy`
 */
export function upstreamHttp(
  protocol: Protocol,
  http: ConnectionPool['http'],
  sniffed: boolean,
  meshUpgrades: boolean,
): UpstreamHttp {
  const detects = protocol === 'Unsupported' && sniffed;
  const http2 = protocol === 'HTTP2' || protocol === 'GRPC' || protocol === 'GRPC-Web';
  if (protocol !== 'HTTP' && !http2 && !detects) return 'none';
  if (http?.useClientProtocol === true) return 'client';
  if (http2 || http?.h2UpgradePolicy === 'UPGRADE') return 'http2';
  if (detects) return 'client';
  const keeps = http?.h2UpgradePolicy === 'DO_NOT_UPGRADE';
  return meshUpgrades && !keeps ? 'http2' : 'http1';
}

/** The TLS settings that depend on the host of the request. */
export type RequestNames = Pick<ServerNames, 'sniOfRequest' | 'verifiesRequestHost'>;

const NO_NAMES: RequestNames = { sniOfRequest: false, verifiesRequestHost: false };

/** The cluster's `typed_extension_protocol_options`. */
export function protocolOptions(
  speaks: UpstreamHttp,
  pool: ConnectionPool | undefined,
  names: RequestNames = NO_NAMES,
): Pick<envoy.config.cluster.v3.Cluster.Input, 'typedExtensionProtocolOptions'> {
  if (speaks === 'none') return {};
  const common = commonOptions(pool);
  // Without options Envoy uses HTTP/1.1.
  if (speaks === 'http1' && common === undefined && !names.sniOfRequest) return {};
  const options: envoy.extensions.upstreams.http.v3.HttpProtocolOptions.Input = {
    ...(common !== undefined && { commonHttpProtocolOptions: common }),
    ...(names.sniOfRequest && {
      upstreamHttpProtocolOptions: {
        autoSni: true,
        ...(names.verifiesRequestHost && { autoSanValidation: true }),
      },
    }),
    ...versions(speaks, pool),
  };
  const packed: google.protobuf.Any.Input = packAny(HttpProtocolOptions, options);
  return { typedExtensionProtocolOptions: { [EXTENSION]: packed } };
}

function versions(speaks: UpstreamHttp, pool: ConnectionPool | undefined) {
  const { maxConcurrentStreams: streams = 0, http2KeepAlive: pings } = pool?.http ?? {};
  const http2ProtocolOptions = {
    ...(streams > 0 && { maxConcurrentStreams: { value: streams } }),
    ...(pings && { connectionKeepalive: { interval: toDuration(pings.interval), timeout: toDuration(pings.timeout) } }),
  };
  switch (speaks) {
    case 'client':
      return { useDownstreamProtocolConfig: { httpProtocolOptions: {}, http2ProtocolOptions } };
    case 'http2':
      return { explicitHttpConfig: { http2ProtocolOptions } };
    default:
      return { explicitHttpConfig: { httpProtocolOptions: {} } };
  }
}

function commonOptions(pool: ConnectionPool | undefined): envoy.config.core.v3.HttpProtocolOptions.Input | undefined {
  const idle = pool?.http?.idleTimeout ?? pool?.tcp?.idleTimeout;
  const perConnection = pool?.http?.maxRequestsPerConnection ?? 0;
  const duration = pool?.tcp?.maxConnectionDuration ?? 0;
  const options = {
    ...(idle !== undefined && { idleTimeout: toDuration(idle) }),
    ...(perConnection > 0 && { maxRequestsPerConnection: { value: perConnection } }),
    ...(duration > 0 && { maxConnectionDuration: toDuration(duration) }),
  };
  return Object.keys(options).length === 0 ? undefined : options;
}
