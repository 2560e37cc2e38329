/** TLS that a cluster originates, with certificates in the proxy's files, or for gateways in Secrets. */
import { CtlError } from '../../core/errors.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { ClientTlsSettings } from '../../resources/schemas.ts';
import { adsSecret } from '../gateways/secrets.ts';
import { exactName, TLS_SOCKET } from '../mesh-tls.ts';
import type { ClientCredential } from './client-credentials.ts';

const { UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type ValidationContext = envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.Input;

/** The settings when they ask for TLS that is not the mesh's. */
export function originatedTls(tls: ClientTlsSettings | undefined): ClientTlsSettings | undefined {
  return tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL' ? tls : undefined;
}

/**
 * The transport socket of a cluster. Throws CtlError `failed_precondition` when it needs a certificate and has none,
 * because falling back to plain text would be worse than no cluster.
 *
 * @param credential what comes from Secrets; nothing of it is missing
 * @param serviceNames the service's own subject alternative names, which hold when the settings have none
 */
export function tlsSocket(
  tls: ClientTlsSettings,
  credential: ClientCredential | undefined,
  serviceNames: readonly string[],
  http2: boolean,
): envoy.config.core.v3.TransportSocket.Input {
  const commonTlsContext: CommonTlsContext = {
    ...(credential === undefined ? fromFiles(tls, serviceNames) : fromSecrets(tls, credential, serviceNames)),
    ...(http2 && { alpnProtocols: ['h2'] }),
  };
  const context = { commonTlsContext, ...(tls.sni !== undefined && { sni: tls.sni }) };
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, context) };
}

function fromFiles(tls: ClientTlsSettings, serviceNames: readonly string[]): CommonTlsContext {
  const validationContext = validation(tls, serviceNames);
  return {
    ...(tls.mode === 'MUTUAL' && { tlsCertificates: [clientCertificate(tls)] }),
    ...(validationContext !== undefined && { validationContext }),
  };
}

function fromSecrets(
  tls: ClientTlsSettings,
  { keyPair, authorities }: ClientCredential,
  serviceNames: readonly string[],
): CommonTlsContext {
  const names = namesOf(tls, serviceNames);
  const { caCrl } = tls;
  return {
    ...(keyPair !== undefined && { tlsCertificateSdsSecretConfigs: [adsSecret(keyPair)] }),
    ...(authorities !== undefined && {
      combinedValidationContext: {
        defaultValidationContext: {
          // A list of the Secret takes its place.
          ...(caCrl !== undefined && caCrl !== '' && { crl: { filename: caCrl } }),
          ...(names.length > 0 && { matchTypedSubjectAltNames: names.map(exactName) }),
        },
        validationContextSdsSecretConfig: adsSecret(authorities),
      },
    }),
  };
}

function namesOf({ subjectAltNames }: ClientTlsSettings, serviceNames: readonly string[]): readonly string[] {
  return subjectAltNames !== undefined && subjectAltNames.length > 0 ? subjectAltNames : serviceNames;
}

function clientCertificate({ clientCertificate: certificate, privateKey }: ClientTlsSettings) {
  if (!certificate || !privateKey) {
    throw new CtlError('failed_precondition', 'tls.mode MUTUAL needs tls.clientCertificate and tls.privateKey');
  }
  return { certificateChain: { filename: certificate }, privateKey: { filename: privateKey } };
}

/** Without CA certificates the peer is not verified; Envoy rejects name checks then, for they would prove nothing. */
function validation(tls: ClientTlsSettings, serviceNames: readonly string[]): ValidationContext | undefined {
  const { caCertificates, caCrl, insecureSkipVerify } = tls;
  if (!caCertificates || insecureSkipVerify === true) return undefined;
  const names = namesOf(tls, serviceNames);
  return {
    trustedCa: { filename: caCertificates },
    ...(caCrl !== undefined && caCrl !== '' && { crl: { filename: caCrl } }),
    ...(names.length > 0 && { matchTypedSubjectAltNames: names.map(exactName) }),
  };
}
