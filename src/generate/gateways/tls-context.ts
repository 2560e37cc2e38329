/** TLS that ends at a gateway, with certificates from files. */
import { envoy } from '../../protobuf/index.ts';
import type { ServerTlsSettings } from '../../resources/schemas.ts';
import { exactName } from '../mesh-tls.ts';

type DownstreamTlsContext = envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext.Input;
type CommonTlsContext = envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.Input;
type ValidationContext = envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.Input;
type TlsParameters = envoy.extensions.transport_sockets.tls.v3.TlsParameters.Input;

const { TlsProtocol } = envoy.extensions.transport_sockets.tls.v3.TlsParameters;

/** The transport socket's configuration; `tls` has passed the checks of `servers.ts`. `alpn` is empty for plain bytes. */
export function downstreamTlsContext(tls: ServerTlsSettings, alpn: readonly string[]): DownstreamTlsContext {
  const validation = validationContext(tls);
  const parameters = tlsParameters(tls);
  const common: CommonTlsContext = {
    ...(parameters === undefined ? {} : { tlsParams: parameters }),
    tlsCertificates: (tls.tlsCertificates?.length ? tls.tlsCertificates : [tls]).map((pair) => ({
      certificateChain: { filename: pair.serverCertificate },
      privateKey: { filename: pair.privateKey },
    })),
    ...(validation === undefined ? {} : { validationContext: validation }),
    ...(alpn.length === 0 ? {} : { alpnProtocols: alpn }),
  };
  return { commonTlsContext: common, requireClientCertificate: { value: tls.mode === 'MUTUAL' } };
}

/** Checks of client certificates: only where clients are asked for one. */
function validationContext(tls: ServerTlsSettings): ValidationContext | undefined {
  if (tls.mode !== 'MUTUAL' && tls.mode !== 'OPTIONAL_MUTUAL') return undefined;
  const names = tls.subjectAltNames ?? [];
  return {
    trustedCa: { filename: tls.caCertificates },
    ...(tls.caCrl ? { crl: { filename: tls.caCrl } } : {}),
    ...(names.length > 0 ? { matchTypedSubjectAltNames: names.map(exactName) } : {}),
    ...(tls.verifyCertificateSpki?.length ? { verifyCertificateSpki: tls.verifyCertificateSpki } : {}),
    ...(tls.verifyCertificateHash?.length ? { verifyCertificateHash: tls.verifyCertificateHash } : {}),
  };
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
