/** The services by which authorities sign certificates, each with its messages. */
import { randomUUID } from 'node:crypto';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { google, mesh } from '../../protobuf/agent/index.ts';

export interface CaProtocol {
  /** Path of the gRPC method that signs. */
  readonly signPath: string;
  signRequest(csr: string, lifetimeSeconds: number): Uint8Array;
  /** The chain of an answer, PEM, leaf first and root last. Throws CtlError. */
  chainOf(answer: Uint8Array): readonly string[];
  /**
   * Path of the method with all trusted roots; undefined if the authority has no such method; then the root of the
   * chain is trusted.
   */
  readonly rootsPath: string | undefined;
  /**
   * True for an authority outside the mesh: it knows callers by tokens alone, is sent no certificate and no metadata of
   * the mesh, and the mesh's roots do not verify it.
   */
  readonly external: boolean;
}

/** The authority of the control plane, or Istio's authority, which uses the same messages. */
export function meshProtocol(service: string): CaProtocol {
  const { MeshCertificateRequest, MeshCertificateResponse } = mesh.v1.auth;
  return {
    signPath: `/${service}/CreateCertificate`,
    signRequest: (csr, lifetimeSeconds) =>
      MeshCertificateRequest.encode({ csr, validityDuration: lifetimeSeconds }).finish(),
    chainOf: (answer) => decoded(() => MeshCertificateResponse.decode(answer)).certChain,
    rootsPath: `/${service}/GetTrustBundle`,
    external: false,
  };
}

/** Maximum of google.protobuf.Duration, seconds: 10,000 years. */
const MAX_DURATION_SECONDS = 315_576_000_000;

/** google.security.meshca.v1.MeshCertificateService. */
export const CLOUD_PROTOCOL: CaProtocol = {
  signPath: '/google.security.meshca.v1.MeshCertificateService/CreateCertificate',
  signRequest(csr, lifetimeSeconds) {
    const validity = { seconds: Math.min(lifetimeSeconds, MAX_DURATION_SECONDS) };
    const request = { requestId: randomUUID(), csr, validity };
    return google.security.meshca.v1.MeshCertificateRequest.encode(request).finish();
  },
  chainOf(answer) {
    const { certChain } = decoded(() => google.security.meshca.v1.MeshCertificateResponse.decode(answer));
    if (certChain.length > 1) return certChain;
    throw new CtlError('invalid_argument', "the authority's response has no root certificate");
  },
  rootsPath: undefined,
  external: true,
};

/**
 * Metadata by which a cloud routes requests to the location of the cluster.
 *
 * @param clusterUrl for example https://container.googleapis.com/v1/projects/p/locations/l/clusters/c
 */
export function cloudMetadata(clusterUrl: string | undefined): Readonly<Record<string, string>> {
  const [, location] = /\/projects\/[^/]+\/locations\/([\w.-]+)\/clusters\//.exec(clusterUrl ?? '') ?? [];
  return location === undefined ? {} : { 'x-goog-request-params': `location=locations/${location}` };
}

/** The roots in an answer of `rootsPath`, PEM. Throws CtlError. */
export function decodeBundle(answer: Uint8Array): readonly string[] {
  return decoded(() => mesh.v1.auth.TrustBundleResponse.decode(answer)).roots;
}

function decoded<M>(decode: () => M): M {
  try {
    return decode();
  } catch (error) {
    throw new CtlError('invalid_argument', `the authority's response cannot be read: ${oneLineOf(error)}`, {}, error);
  }
}
