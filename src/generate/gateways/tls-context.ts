/** TLS termination at a gateway, with certificates from files or from Secrets. */
import { authoritiesFileName, keyPairFileName } from '../../core/file-secret-names.ts';
import { envoy } from '../../protobuf/index.ts';
import type { ServerTlsSettings } from '../../resources/index.ts';
import { agentFileSecret, agentKubernetesSecret, exactName } from '../common/index.ts';
import { adsSecret, type RequestedSecret, type ServerCredentials } from '../secrets/index.ts';

type DownstreamTlsContext = envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext.Input;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type ValidationContext = envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.Input;
type TlsParameters = envoy.extensions.transport_sockets.tls.v3.TlsParameters.Input;

const { TlsProtocol } = envoy.extensions.transport_sockets.tls.v3.TlsParameters;

/**
 * The transport socket's configuration. `tls` has been validated by `plans/gateway-servers.ts`, and `credentials` is
 * complete.
 * @param agent whether the proxy has an agent that serves secrets
 * @param alpn empty for TCP
 */
export function downstreamTlsContext(
  tls: ServerTlsSettings,
  credentials: ServerCredentials | undefined,
  agent: boolean,
  alpn: readonly string[],
): DownstreamTlsContext {
  const parameters = tlsParameters(tls);
  const common: CommonTlsContext = {
    ...(parameters === undefined ? {} : { tlsParams: parameters }),
    ...ownCertificates(tls, credentials, agent),
    ...clientChecks(tls, credentials, agent),
    ...(alpn.length === 0 ? {} : { alpnProtocols: alpn }),
  };
  return { commonTlsContext: common, requireClientCertificate: { value: tls.mode === 'MUTUAL' } };
}

/**
 * The agent reads the files where there is one: for a missing file Envoy would refuse the whole listener, with all
 * servers of the port.
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

/** Verification of client certificates, where clients have to present one. */
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
