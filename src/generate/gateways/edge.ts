/**
 * What a gateway does about clients that nobody knows: who they say they are counts only as far as proxies in front are
 * trusted (`gatewayTopology` of the mesh configuration), and those that never finish what they begin are not waited
 * for. Envoy's own limits do the rest (streams of a connection, windows, sizes of headers).
 */
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/mesh-config.ts';
import { durationOf } from '../common/index.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } =
  HttpConnectionManager.ForwardClientCertDetails;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;

/**
 * Slow networks need seconds for headers; whoever sends them byte by byte (slowloris) holds a connection for that long,
 * and no longer.
 */
const REQUEST_HEADERS_TIMEOUT_MS = 30_000;

/** For TLS handshakes: without a limit a client that sends nothing holds its connection for ever. */
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** Of each filter chain in which TLS ends. */
export const HANDSHAKE_LIMIT: Pick<envoy.config.listener.v3.FilterChain.Input, 'transportSocketConnectTimeout'> = {
  transportSocketConnectTimeout: durationOf(HANDSHAKE_TIMEOUT_MS),
};

const DETAILS = { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } as const;

/** Fields of the connection manager. */
export function edgeSettings({ defaultConfig }: MeshConfig): Partial<Manager> {
  const { numTrustedProxies = 0, forwardClientCertDetails = 'UNDEFINED' } = defaultConfig.gatewayTopology ?? {};
  // What clients say of certificates is removed; what Envoy itself verified is said to the services.
  const details = DETAILS[forwardClientCertDetails === 'UNDEFINED' ? 'SANITIZE_SET' : forwardClientCertDetails];
  return {
    xffNumTrustedHops: numTrustedProxies,
    forwardClientCertDetails: details,
    setCurrentClientCertDetails: { subject: { value: true }, cert: true, dns: true, uri: true },
    requestHeadersTimeout: durationOf(REQUEST_HEADERS_TIMEOUT_MS),
  };
}
