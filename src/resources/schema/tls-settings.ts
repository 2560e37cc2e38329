/** TLS towards a host (DestinationRule) and of a listener (Gateway, Sidecar). */
import { z } from 'zod';
import { strings } from './common.ts';
import { type DerivedClientTls, type DerivedServerTls, derivable } from './derived.ts';

const clientTlsMode = z
  .enum(['DISABLE', 'SIMPLE', 'MUTUAL', 'MESH_MUTUAL', 'ISTIO_MUTUAL'])
  .transform((mode) => (mode === 'ISTIO_MUTUAL' ? 'MESH_MUTUAL' : mode));

export const clientTlsSettings = derivable<DerivedClientTls>()(
  z.strictObject({
    mode: clientTlsMode.optional(),
    clientCertificate: z.string().optional(),
    privateKey: z.string().optional(),
    caCertificates: z.string().optional(),
    caCrl: z.string().optional(),
    credentialName: z.string().optional(),
    subjectAltNames: strings.optional(),
    sni: z.string().optional(),
    insecureSkipVerify: z.boolean().optional(),
  }),
);
export type ClientTlsSettings = z.output<typeof clientTlsSettings>;

const serverTlsMode = z
  .enum(['PASSTHROUGH', 'SIMPLE', 'MUTUAL', 'AUTO_PASSTHROUGH', 'MESH_MUTUAL', 'ISTIO_MUTUAL', 'OPTIONAL_MUTUAL'])
  .transform((mode) => (mode === 'ISTIO_MUTUAL' ? 'MESH_MUTUAL' : mode));

const tlsVersion = z.enum(['TLS_AUTO', 'TLSV1_0', 'TLSV1_1', 'TLSV1_2', 'TLSV1_3']);

export const serverTlsSettings = derivable<DerivedServerTls>()(
  z.strictObject({
    httpsRedirect: z.boolean().optional(),
    mode: serverTlsMode.optional(),
    serverCertificate: z.string().optional(),
    privateKey: z.string().optional(),
    caCertificates: z.string().optional(),
    caCrl: z.string().optional(),
    credentialName: z.string().optional(),
    credentialNames: strings.optional(),
    caCertCredentialName: z.string().optional(),
    tlsCertificates: z
      .array(
        z.strictObject({
          serverCertificate: z.string().optional(),
          privateKey: z.string().optional(),
          caCertificates: z.string().optional(),
        }),
      )
      .optional(),
    subjectAltNames: strings.optional(),
    verifyCertificateSpki: strings.optional(),
    verifyCertificateHash: strings.optional(),
    minProtocolVersion: tlsVersion.optional(),
    maxProtocolVersion: tlsVersion.optional(),
    cipherSuites: strings.optional(),
  }),
);
export type ServerTlsSettings = z.output<typeof serverTlsSettings>;
