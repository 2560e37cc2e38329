/**
 * Connections that begin with a header of the PROXY protocol, which names the client's address
 * (https://www.haproxy.org/download/1.8/doc/proxy-protocol.txt). The header precedes TLS, which is not affected.
 */
import { envoy, packAny } from '../../protobuf/index.ts';
import type { ProxyProtocol } from '../../resources/index.ts';
import type { Transport } from './mesh-upstream.ts';

const { ProxyProtocolUpstreamTransport } = envoy.extensions.transport_sockets.proxy_protocol.v3;
const { RawBuffer } = envoy.extensions.transport_sockets.raw_buffer.v3;
const { V1, V2 } = envoy.config.core.v3.ProxyProtocolConfig.Version;

type TransportSocket = envoy.config.core.v3.TransportSocket.Input;

const UPSTREAM_PROXY_PROTOCOL = 'envoy.transport_sockets.upstream_proxy_protocol';

const PLAIN_SOCKET: TransportSocket = {
  name: 'envoy.transport_sockets.raw_buffer',
  typedConfig: packAny(RawBuffer, {}),
};

/** The transport with the header, for every endpoint. */
export function announced(
  { transportSocket, transportSocketMatches, ...others }: Transport,
  { version }: ProxyProtocol,
): Transport {
  const config = { version: version === 'V2' ? V2 : V1 };
  const after = (socket: TransportSocket | null | undefined): TransportSocket => ({
    name: UPSTREAM_PROXY_PROTOCOL,
    typedConfig: packAny(ProxyProtocolUpstreamTransport, { config, transportSocket: socket ?? PLAIN_SOCKET }),
  });
  const matches = transportSocketMatches?.map((match) => ({ ...match, transportSocket: after(match.transportSocket) }));
  return {
    ...others,
    transportSocket: after(transportSocket),
    ...(matches !== undefined && { transportSocketMatches: matches }),
  };
}
