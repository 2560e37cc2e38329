/** TLS that a cluster originates, from certificates in the proxy's files. */
import { CtlError } from '../../core/errors.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { ClientTlsSettings } from '../../resources/schemas.ts';
import { exactName, TLS_SOCKET } from '../mesh-tls.ts';

const { UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type ValidationContext = envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.Input;

/** The settings when they ask for TLS with certificates from files. */
export function originatedTls(tls: ClientTlsSettings | undefined): ClientTlsSettings | undefined {
  return tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL' ? tls : undefined;
}

/**
 * The transport socket of a cluster. Throws CtlError `failed_precondition` for certificates that are not in files, because falling
 * back to plain text or to an unverified peer would be worse than no cluster.
 *
 * @param serviceNames the service's own subject alternative names, which hold when the settings have none
 */
export function tlsSocket(
  tls: ClientTlsSettings,
  serviceNames: readonly string[],
  http2: boolean,
): envoy.config.core.v3.TransportSocket.Input {
  if (tls.credentialName !== undefined && tls.credentialName !== '') {
    throw new CtlError('failed_precondition', 'tls.credentialName is not supported: give the certificates as files');
  }
  const validationContext = validation(tls, serviceNames);
  const commonTlsContext: CommonTlsContext = {
    ...(tls.mode === 'MUTUAL' && { tlsCertificates: [clientCertificate(tls)] }),
    ...(validationContext !== undefined && { validationContext }),
    ...(http2 && { alpnProtocols: ['h2'] }),
  };
  const context = { commonTlsContext, ...(tls.sni !== undefined && { sni: tls.sni }) };
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, context) };
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
  const names =
    tls.subjectAltNames !== undefined && tls.subjectAltNames.length > 0 ? tls.subjectAltNames : serviceNames;
  return {
    trustedCa: { filename: caCertificates },
    ...(caCrl !== undefined && caCrl !== '' && { crl: { filename: caCrl } }),
    ...(names.length > 0 && { matchTypedSubjectAltNames: names.map(exactName) }),
  };
}
