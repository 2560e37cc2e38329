/**
 * A gateway's protection against unknown clients: what they report about themselves counts only as far as proxies in
 * front are trusted (`gatewayTopology` of the mesh configuration), and handshakes and headers that never end time out.
 * Envoy's own limits do the rest (streams of a connection, windows, sizes of headers).
 */
import { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { toDuration } from '../common/index.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
const { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } =
  HttpConnectionManager.ForwardClientCertDetails;
type Manager = envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Input;

/**
 * Slow networks need seconds for headers; a client that sends them byte by byte (slowloris) holds a connection for at
 * most this long.
 */
const REQUEST_HEADERS_TIMEOUT_MS = 30_000;

const DETAILS = { SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY } as const;

export function edgeSettings({ defaultConfig }: MeshConfig): Partial<Manager> {
  const { numTrustedProxies = 0, forwardClientCertDetails = 'UNDEFINED' } = defaultConfig.gatewayTopology ?? {};
  // Clients' values are removed; services receive what Envoy itself verified.
  const details = DETAILS[forwardClientCertDetails === 'UNDEFINED' ? 'SANITIZE_SET' : forwardClientCertDetails];
  return {
    xffNumTrustedHops: numTrustedProxies,
    forwardClientCertDetails: details,
    setCurrentClientCertDetails: { subject: { value: true }, cert: true, dns: true, uri: true },
    requestHeadersTimeout: toDuration(REQUEST_HEADERS_TIMEOUT_MS),
  };
}
