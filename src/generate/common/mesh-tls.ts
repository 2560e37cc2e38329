/**
 * Mutual TLS between proxies of the mesh: certificates come from the agent by SDS, peers are identified by their SPIFFE
 * IDs, and traffic for a proxy is recognized by its protocol names (ALPN) and server name, which are those of Istio's
 * proxies.
 */
import { parseSpiffeUri } from '../../core/identity.ts';
import { SDS_CLUSTER } from '../../core/proxy.ts';
import type { ModelSettings } from '../../model/index.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { API_VERSION_V3, isIpAddress, toDuration } from './values.ts';

const { DownstreamTlsContext, TlsParameters } = envoy.extensions.transport_sockets.tls.v3;
const { SanType } = envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher;
const { ApiType } = envoy.config.core.v3.ApiConfigSource;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type SecretConfig = envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig.Input;
type TransportSocket = envoy.config.core.v3.TransportSocket.Input;
export type SanMatcher = envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher.Input;

export const TLS_SOCKET = 'envoy.transport_sockets.tls';

/** Names of the secrets that an agent serves: the proxy's own certificate, and its trusted roots. */
const OWN_CERTIFICATE = 'default';
const ROOT_CERTIFICATES = 'ROOTCA';

/**
 * ALPN protocols that clients of the mesh offer: `istio` means that the TLS is between proxies and not from the
 * application; the longer names mean HTTP inside. Servers do not select any of them (the codec detects the protocol),
 * only `h2` if it is also offered.
 *
 * {@link PEER_EXCHANGE} means TCP too.
 */
export const MESH_ALPN = {
  /** Offered for HTTP/1.1, for HTTP/2, and for the protocol of the client. */
  http1: ['istio-http/1.1', 'istio'],
  http2: ['istio-h2', 'istio', 'h2'],
  http: ['istio-http/1.1', 'istio-h2', 'istio'],
  tcp: ['istio'],
} as const;

/**
 * Peers that negotiate this protocol exchange metadata first. Only Envoys with Istio's extensions support this: others
 * neither offer nor select it.
 */
export const PEER_EXCHANGE = 'istio-peer-exchange';

/** ALPN protocols by which a server recognizes HTTP inside TLS of the mesh, and any TLS of the mesh. */
export const HTTP_INSIDE = ['istio-http/1.0', 'istio-http/1.1', 'istio-h2'] as const;
export const MESH_TLS = ['istio', PEER_EXCHANGE, ...HTTP_INSIDE] as const;

/**
 * The protocols that servers support for HTTP. Without a common protocol, none is selected and the protocol is
 * detected.
 */
const SERVER_HTTP_ALPN = ['h2', 'http/1.1'];

/** For TLS 1.2; those of 1.3 cannot be configured. Only with forward secrecy and authenticated encryption. */
const CIPHER_SUITES = [
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
];

/** The trust domains whose workloads belong to this mesh, its own first. */
export function trustDomainsOf(settings: ModelSettings, mesh: MeshConfig): readonly string[] {
  return [...new Set([settings.trustDomain, ...mesh.trustDomainAliases])];
}

export function anyWorkload(trustDomains: readonly string[]): SanMatcher[] {
  return trustDomains.map((domain) => ({ sanType: SanType.URI, matcher: { prefix: `spiffe://${domain}/` } }));
}

/**
 * The workloads of `accounts` (`namespace/serviceAccount`) in any of the trust domains. An empty `serviceAccount` means
 * any account of the namespace. Names that are not valid in an identity match nothing.
 */
export function workloadsOf(accounts: readonly string[], trustDomains: readonly string[]): SanMatcher[] {
  return trustDomains.flatMap((domain) =>
    accounts.flatMap((account): SanMatcher[] => {
      const slash = account.indexOf('/');
      const uri = `spiffe://${domain}/ns/${account.slice(0, slash)}/sa/${account.slice(slash + 1)}`;
      if (uri.endsWith('/')) return [{ sanType: SanType.URI, matcher: { prefix: uri } }];
      return parseSpiffeUri(uri) === undefined ? [] : [{ sanType: SanType.URI, matcher: { exact: uri } }];
    }),
  );
}

/**
 * Matches exactly this name. Envoy compares a name with subject alternative names of one type, which is determined by
 * the form of the name.
 */
export function exactName(name: string): SanMatcher {
  const sanType = name.includes('://') ? SanType.URI : isIpAddress(name) ? SanType.IP_ADDRESS : SanType.DNS;
  return { sanType, matcher: { exact: name } };
}

/**
 * A secret that the agent serves. The agent has its own secrets in memory, and a listener waits for them without a
 * limit. It may never respond for other secrets: the listener starts without them after `waitMs`. The node is in each
 * request, because the agent of Istio 1.7 crashes without it (`sdsservice.go`, StreamSecrets).
 */
function agentSecret(name: string, waitMs = 0): SecretConfig {
  return {
    name,
    sdsConfig: {
      apiConfigSource: {
        apiType: ApiType.GRPC,
        transportApiVersion: API_VERSION_V3,
        grpcServices: [{ envoyGrpc: { clusterName: SDS_CLUSTER } }],
      },
      initialFetchTimeout: toDuration(waitMs),
      resourceApiVersion: API_VERSION_V3,
    },
  };
}

/**
 * How long a listener or cluster waits for an agent that reads files or Secrets; the agent does not respond for missing
 * ones.
 */
const READ_WAIT_MS = 2_000;

/** A secret whose content the agent reads from files; `core/file-secrets.ts` defines the name. */
export function agentFileSecret(name: string): SecretConfig {
  return agentSecret(name, READ_WAIT_MS);
}

/** A secret that the agent of a gateway reads from its API server; `core/tls-secrets.ts` defines the name. */
export function agentKubernetesSecret(name: string): SecretConfig {
  return agentSecret(name, READ_WAIT_MS);
}

/**
 * The proxy's own certificate, and peers that the mesh's roots verify and whose names match one of `peers` (none: any).
 */
export function meshTlsContext(peers: readonly SanMatcher[], alpn: readonly string[]): CommonTlsContext {
  return {
    tlsCertificateSdsSecretConfigs: [agentSecret(OWN_CERTIFICATE)],
    combinedValidationContext: {
      defaultValidationContext: { ...(peers.length > 0 && { matchTypedSubjectAltNames: peers }) },
      validationContextSdsSecretConfig: agentSecret(ROOT_CERTIFICATES),
    },
    ...(alpn.length > 0 && { alpnProtocols: alpn }),
  };
}

/** The protocol inside mutual TLS; `peer-exchange`: TCP, after a metadata exchange if the client supports it. */
export type Inside = 'http' | 'tcp' | 'peer-exchange';

const SERVER_ALPN: Readonly<Record<Inside, readonly string[]>> = {
  http: SERVER_HTTP_ALPN,
  tcp: [],
  'peer-exchange': [PEER_EXCHANGE, ...MESH_ALPN.tcp],
};

/** TLS termination that accepts only clients with a certificate of the mesh. */
export function meshServerSocket(settings: ModelSettings, mesh: MeshConfig, inside: Inside): TransportSocket {
  const clients = settings.skipTrustDomainCheck ? [] : anyWorkload(trustDomainsOf(settings, mesh));
  const { TLSv1_2, TLSv1_3 } = TlsParameters.TlsProtocol;
  const commonTlsContext: CommonTlsContext = {
    ...meshTlsContext(clients, SERVER_ALPN[inside]),
    tlsParams: {
      tlsMinimumProtocolVersion: TLSv1_2,
      tlsMaximumProtocolVersion: TLSv1_3,
      cipherSuites: CIPHER_SUITES,
    },
  };
  const context = { commonTlsContext, requireClientCertificate: { value: true } };
  return { name: TLS_SOCKET, typedConfig: packAny(DownstreamTlsContext, context) };
}
