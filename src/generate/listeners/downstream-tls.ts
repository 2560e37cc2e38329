/**
 * TLS termination with certificates other than those of the mesh: at a gateway, or at the ingress listener of a
 * Sidecar. They are read from files, at gateways also from Secrets.
 */
import { authoritiesFileName, keyPairFileName } from '../../core/tls/file-secret-names.ts';
import { envoy } from '../../protobuf/index.ts';
import type { ServerTlsSettings } from '../../resources/index.ts';
import { agentFileSecret, agentKubernetesSecret, exactName, TLS_SOCKET, toDuration } from '../common/index.ts';
import { type FilterChain, typedConfig } from '../filters/index.ts';
import { adsSecret, type RequestedSecret, type ServerCredentials } from '../secrets/index.ts';

const { DownstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type ValidationContext = envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.Input;
type TlsParameters = envoy.extensions.transport_sockets.tls.v3.TlsParameters.Input;

const { TlsProtocol } = envoy.extensions.transport_sockets.tls.v3.TlsParameters;

const HTTP_ALPN = ['h2', 'http/1.1'];

/** For TLS handshakes: without a limit a client that sends nothing holds its connection forever. */
const HANDSHAKE_TIMEOUT_MS = 15_000;

/** For each filter chain that terminates TLS of unknown clients. */
export const HANDSHAKE_LIMIT: Pick<FilterChain, 'transportSocketConnectTimeout'> = {
  transportSocketConnectTimeout: toDuration(HANDSHAKE_TIMEOUT_MS),
};

/**
 * The transport socket. `tls` has been validated (`plans/gateway-servers.ts`, `resources/ingress-tls.ts`), and
 * `credentials` is complete.
 * @param agent whether the proxy has an agent that serves secrets
 */
export function downstreamTls(
  tls: ServerTlsSettings,
  credentials: ServerCredentials | undefined,
  agent: boolean,
  inside: 'http' | 'tcp',
): NonNullable<FilterChain['transportSocket']> {
  const parameters = tlsParameters(tls);
  const common: CommonTlsContext = {
    ...(parameters === undefined ? {} : { tlsParams: parameters }),
    ...ownCertificates(tls, credentials, agent),
    ...clientChecks(tls, credentials, agent),
    ...(inside === 'http' && { alpnProtocols: HTTP_ALPN }),
  };
  const context = { commonTlsContext: common, requireClientCertificate: { value: tls.mode === 'MUTUAL' } };
  return typedConfig(TLS_SOCKET, DownstreamTlsContext, context);
}

/**
 * If there is an agent, it reads the files: Envoy would refuse the whole listener, with all servers of the port,
 * because of a missing file.
 */
function ownCertificates(
  tls: ServerTlsSettings,
  credentials: ServerCredentials | undefined,
  agent: boolean,
): CommonTlsContext {
  if (credentials !== undefined && credentials.keyPairs.length > 0) {
    return { tlsCertificateSdsSecretConfigs: credentials.keyPairs.map(requested) };
  }
  const pairs = tls.tlsCertificates?.length ? tls.tlsCertificates : [tls];
  const names = pairs.map(({ serverCertificate = '', privateKey = '' }) =>
    agent ? keyPairFileName(serverCertificate, privateKey) : undefined,
  );
  if (names.every((name) => name !== undefined)) return { tlsCertificateSdsSecretConfigs: names.map(agentFileSecret) };
  return {
    tlsCertificates: pairs.map((pair) => ({
      certificateChain: { filename: pair.serverCertificate },
      privateKey: { filename: pair.privateKey },
    })),
  };
}

/** Verification of client certificates, if they are required. */
function clientChecks(
  tls: ServerTlsSettings,
  credentials: ServerCredentials | undefined,
  agent: boolean,
): CommonTlsContext {
  if (tls.mode !== 'MUTUAL' && tls.mode !== 'OPTIONAL_MUTUAL') return {};
  const names = tls.subjectAltNames ?? [];
  const written: ValidationContext = {
    ...(names.length > 0 ? { matchTypedSubjectAltNames: names.map(exactName) } : {}),
    ...(tls.verifyCertificateSpki?.length ? { verifyCertificateSpki: tls.verifyCertificateSpki } : {}),
    ...(tls.verifyCertificateHash?.length ? { verifyCertificateHash: tls.verifyCertificateHash } : {}),
  };
  if (tls.clientAuthorities !== undefined) {
    return { validationContext: { trustedCa: { inlineString: tls.clientAuthorities }, ...written } };
  }
  const crl = tls.caCrl ? { crl: { filename: tls.caCrl } } : {};
  if (credentials?.authorities !== undefined) {
    return {
      combinedValidationContext: {
        defaultValidationContext: { ...crl, ...written },
        validationContextSdsSecretConfig: requested(credentials.authorities),
      },
    };
  }
  const name = agent ? authoritiesFileName(tls.caCertificates ?? '', tls.caCrl) : undefined;
  if (name !== undefined) {
    return {
      combinedValidationContext: {
        defaultValidationContext: written,
        validationContextSdsSecretConfig: agentFileSecret(name),
      },
    };
  }
  return { validationContext: { trustedCa: { filename: tls.caCertificates }, ...crl, ...written } };
}

function requested({ sdsName, fromAgent }: RequestedSecret) {
  return fromAgent ? agentKubernetesSecret(sdsName) : adsSecret(sdsName);
}

function tlsParameters(tls: ServerTlsSettings): TlsParameters | undefined {
  const { minProtocolVersion, maxProtocolVersion, cipherSuites } = tls;
  if (minProtocolVersion === undefined && maxProtocolVersion === undefined && !cipherSuites?.length) return undefined;
  return {
    ...(minProtocolVersion === undefined ? {} : { tlsMinimumProtocolVersion: protocol(minProtocolVersion) }),
    ...(maxProtocolVersion === undefined ? {} : { tlsMaximumProtocolVersion: protocol(maxProtocolVersion) }),
    ...(cipherSuites?.length ? { cipherSuites } : {}),
  };
}

/** The resources spell versions `TLSV1_2`, Envoy `TLSv1_2`. */
function protocol(version: NonNullable<ServerTlsSettings['minProtocolVersion']>) {
  switch (version) {
    case 'TLS_AUTO':
      return TlsProtocol.TLS_AUTO;
    case 'TLSV1_0':
      return TlsProtocol.TLSv1_0;
    case 'TLSV1_1':
      return TlsProtocol.TLSv1_1;
    case 'TLSV1_2':
      return TlsProtocol.TLSv1_2;
    case 'TLSV1_3':
      return TlsProtocol.TLSv1_3;
  }
}
