/** TLS that a cluster originates, with certificates in files of the proxy's machine, or for gateways in Secrets. */
import { CtlError } from '../../core/errors.ts';
import type { ClientFiles } from '../../core/proxy.ts';
import { authoritiesFileName, keyPairFileName, SYSTEM_AUTHORITIES } from '../../core/tls/file-secret-names.ts';
import { envoy, packAny } from '../../protobuf/index.ts';
import type { ClientTlsSettings } from '../../resources/index.ts';
import { agentFileSecret, type SanMatcher, TLS_SOCKET } from '../common/index.ts';
import { adsSecret, type ClientCredential } from '../secrets/index.ts';
import type { ServerNames } from './upstream-names.ts';

const { TlsParameters, UpstreamTlsContext } = envoy.extensions.transport_sockets.tls.v3;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;

/**
 * The program that reads the files in a rule. If an agent serves them as secrets, a missing or invalid file only
 * affects the connections that need it; if Envoy reads them, it rejects the whole cluster. Istio's agent does not
 * support revocation lists.
 */
export type FileReader = 'agent' | 'istio-agent' | 'envoy';

/**
 * The file with the trusted authorities of the machine in most distributions and in the images of Istio's proxies, for
 * proxies without an agent that finds it. Envoy has no setting for it (`system_root_certs` is not implemented, and
 * would disable verification).
 */
const SYSTEM_AUTHORITIES_FILE = '/etc/ssl/certs/ca-certificates.crt';

/** The settings if they request TLS that is not that of the mesh. */
export function originatedTls(tls: ClientTlsSettings | undefined): ClientTlsSettings | undefined {
  return tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL' ? tls : undefined;
}

/**
 * The settings with the files that a proxy specifies itself. Certificates from Secrets are kept, and so is disabled
 * verification.
 */
export function withClientFiles(tls: ClientTlsSettings, files: ClientFiles | undefined): ClientTlsSettings {
  if (files === undefined) return tls;
  const { certChain, key, roots } = files;
  return {
    ...tls,
    ...(tls.mode === 'MUTUAL' && certChain !== undefined && { clientCertificate: certChain }),
    ...(tls.mode === 'MUTUAL' && key !== undefined && { privateKey: key }),
    ...(tls.caCertificates && roots !== undefined && { caCertificates: roots }),
  };
}

/** Whether the server's certificate is verified, which only an explicit setting disables. */
export function verifiesServer({ insecureSkipVerify }: ClientTlsSettings): boolean {
  return insecureSkipVerify !== true;
}

export interface TlsSocketOptions {
  readonly tls: ClientTlsSettings;
  readonly credential: ClientCredential | undefined;
  /** SDS name of the key pair to present, if the gateway determines it. */
  readonly keyPair?: string | undefined;
  readonly names: ServerNames;
  readonly files: FileReader;
  readonly http2: boolean;
}

/**
 * The transport socket of a cluster. Throws CtlError `failed_precondition` when a certificate is missing, because
 * falling back to plain text would be worse than no cluster.
 */
export function tlsSocket(options: TlsSocketOptions): envoy.config.core.v3.TransportSocket.Input {
  const { names, http2 } = options;
  const { TLSv1_2, TLSv1_3 } = TlsParameters.TlsProtocol;
  const commonTlsContext: CommonTlsContext = {
    // As a client, Envoy uses at most TLS 1.2 by default.
    tlsParams: { tlsMinimumProtocolVersion: TLSv1_2, tlsMaximumProtocolVersion: TLSv1_3 },
    ...ownCertificate(options),
    ...serverChecks(options),
    ...(http2 && { alpnProtocols: ['h2'] }),
  };
  const context = { commonTlsContext, ...(names.sni !== undefined && { sni: names.sni }) };
  return { name: TLS_SOCKET, typedConfig: packAny(UpstreamTlsContext, context) };
}

function ownCertificate({ tls, credential, keyPair: own, files }: TlsSocketOptions): CommonTlsContext {
  if (own !== undefined) return { tlsCertificateSdsSecretConfigs: [adsSecret(own)] };
  if (credential !== undefined) {
    const { keyPair } = credential;
    return keyPair === undefined ? {} : { tlsCertificateSdsSecretConfigs: [adsSecret(keyPair)] };
  }
  if (tls.mode !== 'MUTUAL') return {};
  const { clientCertificate, privateKey } = tls;
  if (!clientCertificate || !privateKey) {
    throw new CtlError('failed_precondition', 'tls.mode MUTUAL needs tls.clientCertificate and tls.privateKey');
  }
  const name = files === 'envoy' ? undefined : keyPairFileName(clientCertificate, privateKey);
  if (name !== undefined) return { tlsCertificateSdsSecretConfigs: [agentFileSecret(name)] };
  const pair = { certificateChain: { filename: clientCertificate }, privateKey: { filename: privateKey } };
  return { tlsCertificates: [pair] };
}

function serverChecks({ tls, credential, names, files }: TlsSocketOptions): CommonTlsContext {
  if (!verifiesServer(tls)) return {};
  const crl = tls.caCrl ? { crl: { filename: tls.caCrl } } : {};
  const expected = matching(names.matchers);
  if (credential !== undefined) {
    const { authorities } = credential;
    if (authorities === undefined) return {};
    return {
      combinedValidationContext: {
        // The revocation list of the Secret replaces it.
        defaultValidationContext: { ...crl, ...expected },
        validationContextSdsSecretConfig: adsSecret(authorities),
      },
    };
  }
  if (tls.authorities !== undefined) {
    return { validationContext: { trustedCa: { inlineString: tls.authorities }, ...expected } };
  }
  const roots = tls.caCertificates || SYSTEM_AUTHORITIES;
  const path = roots === SYSTEM_AUTHORITIES ? SYSTEM_AUTHORITIES_FILE : roots;
  const name = authoritiesName(files, roots, path, tls.caCrl);
  if (name === undefined) return { validationContext: { trustedCa: { filename: path }, ...crl, ...expected } };
  return {
    combinedValidationContext: {
      defaultValidationContext: { ...(files === 'istio-agent' && crl), ...expected },
      validationContextSdsSecretConfig: agentFileSecret(name),
    },
  };
}

function authoritiesName(files: FileReader, roots: string, path: string, crl: string | undefined): string | undefined {
  switch (files) {
    case 'agent':
      return authoritiesFileName(roots, crl);
    case 'istio-agent':
      return authoritiesFileName(path, undefined);
    case 'envoy':
      return undefined;
  }
}

function matching(matchers: readonly SanMatcher[]): { matchTypedSubjectAltNames?: readonly SanMatcher[] } {
  return matchers.length === 0 ? {} : { matchTypedSubjectAltNames: matchers };
}
