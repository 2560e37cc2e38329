/**
 * Mutual TLS of gRPC applications: certificate and roots come from a provider in the application's bootstrap.
 * Source: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
 */
import { GRPC_CERTIFICATE_PROVIDER } from '../../core/proxy.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import { type SanMatcher, TLS_SOCKET } from '../common/index.ts';

const { DownstreamTlsContext, UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type TransportSocket = envoy.config.core.v3.TransportSocket.Input;

const PROVIDER = { instanceName: GRPC_CERTIFICATE_PROVIDER };

/**
 * @param peers accepted names, which have no type in gRPC; if empty, any certificate of the mesh is accepted
 */
function tlsContext(peers: readonly SanMatcher[]): CommonTlsContext {
  const matchSubjectAltNames = peers.flatMap(({ matcher }) => matcher ?? []);
  return {
    tlsCertificateProviderInstance: PROVIDER,
    combinedValidationContext: {
      defaultValidationContext: {
        caCertificateProviderInstance: PROVIDER,
        ...(matchSubjectAltNames.length > 0 && { matchSubjectAltNames }),
      },
    },
  };
}

/** Connections to servers with one of these names. */
export function clientTls(peers: readonly SanMatcher[]): TransportSocket {
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, { commonTlsContext: tlsContext(peers) }) };
}

/** Accepts clients with a certificate that the mesh's roots verify; gRPC servers do not check names. */
export function serverTls(): TransportSocket {
  const context = { commonTlsContext: tlsContext([]), requireClientCertificate: { value: true } };
  return { name: TLS_SOCKET, typedConfig: packAny(DownstreamTlsContext, context) };
}
