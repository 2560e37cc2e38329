/**
 * The certificate service over gRPC (proto/mesh/v1/auth/ca.proto), under its own name and under the one that existing
 * agents call. A certificate gets the caller's identity; of the request only the public key is used.
 */
import { CtlError } from '../core/errors.ts';
import { TRUST_DOMAIN_METADATA } from '../core/identity.ts';
import type { GrpcService, UnaryCall, UnaryHandler } from '../grpc/index.ts';
import { encode, mesh } from '../protobuf/index.ts';
import { credentialsOfCall } from './tls-credentials.ts';
import type { Authentication, Authority, Caller } from './types.ts';

export interface CertificateObserver {
  requested(): void;
  /** An authenticated caller's identity cannot have a certificate. */
  unfitIdentity(peer: string): void;
  issued(caller: Caller): void;
  refused(peer: string, error: CtlError): void;
  internalError(error: unknown): void;
}

export interface CertificateServiceOptions {
  readonly authority: Pick<Authority, 'sign' | 'trustBundle'>;
  readonly authentication: Authentication;
  /** Certificates are issued for workloads of this domain only. */
  readonly trustDomain: string;
  /**
   * Other names of that domain (trustDomainAliases): the agent of a workload may still be configured with one of them.
   */
  readonly trustDomainAliases: readonly string[];
  readonly observer: CertificateObserver;
}

const SERVICES = ['mesh.v1.auth.MeshCertificateService', 'istio.v1.auth.IstioCertificateService'];

/** A request of an RSA key of 4096 bits has 2 kB. */
const MAX_RECEIVE_BYTES = 64 * 1024;

/** Concurrent calls: more than the signing pool queues, so that the pool's queue decides which are served first. */
const MAX_CALLS = 20_000;

type Answer = (call: UnaryCall, caller: Caller) => Promise<Buffer>;

/**
 * Authenticates the caller and handles the call. Failures are reported to the observer; of an internal error the caller
 * sees only that it is one.
 */
function unary({ authentication, observer }: CertificateServiceOptions, answer: Answer): UnaryHandler {
  let running = 0;
  const serve = async (call: UnaryCall): Promise<Buffer> => {
    const credentials = credentialsOfCall(call);
    if (credentials === undefined) throw new CtlError('unimplemented', 'served only on the secure gRPC address');
    if (running >= MAX_CALLS) throw new CtlError('resource_exhausted', 'too many requests, try again later');
    running++;
    try {
      return await answer(call, await authentication.authenticate(credentials));
    } finally {
      running--;
    }
  };
  return async (call) => {
    try {
      return await serve(call);
    } catch (error) {
      if (error instanceof CtlError && error.code !== 'internal') {
        observer.refused(call.connection.peer, error);
        throw error;
      }
      observer.internalError(error);
      throw new CtlError('internal', 'internal error');
    }
  };
}

const { MeshCertificateRequest, MeshCertificateResponse, TrustBundleResponse } = mesh.v1.auth;

function decodeRequest(bytes: Buffer): { readonly csr: string; readonly lifetimeSeconds: number } {
  try {
    const { csr, validityDuration } = MeshCertificateRequest.decode(bytes);
    const seconds = typeof validityDuration === 'number' ? validityDuration : validityDuration.toNumber();
    return { csr, lifetimeSeconds: seconds };
  } catch (error) {
    throw new CtlError('invalid_argument', 'the message cannot be read', {}, error);
  }
}

function creation(options: CertificateServiceOptions): UnaryHandler {
  const { authority, trustDomain, observer } = options;
  const handler = unary(options, async (call, caller) => {
    const { identity } = caller;
    if (identity.trustDomain !== trustDomain) {
      observer.unfitIdentity(call.connection.peer);
      const message = `certificates are issued for trust domain ${trustDomain} only, not for ${identity.trustDomain}`;
      throw new CtlError('permission_denied', message);
    }
    checkSetDomain(call, options);
    const { csr, lifetimeSeconds } = decodeRequest(call.request);
    const certChain = await authority.sign({ csr, identity, lifetimeSeconds });
    observer.issued(caller);
    return Buffer.from(encode(MeshCertificateResponse, { certChain }));
  });
  return (call) => {
    observer.requested();
    return handler(call);
  };
}

/**
 * Throws CtlError permission_denied for a workload whose agent is configured with another trust domain than this
 * authority's.
 */
function checkSetDomain(call: UnaryCall, { trustDomain, trustDomainAliases }: CertificateServiceOptions): void {
  const other = call.metadata
    .get(TRUST_DOMAIN_METADATA)
    .find((set) => set !== trustDomain && !trustDomainAliases.includes(set));
  if (other === undefined) return;
  const shown = JSON.stringify(other.slice(0, 80));
  const message = `certificates are issued for trust domain ${trustDomain}, but the workload is set to ${shown}`;
  throw new CtlError('permission_denied', `${message} (--trust-domain, TRUST_DOMAIN or trustDomain of its agent)`);
}

/** The gRPC services of the certificate authority. */
export function createCertificateServices(options: CertificateServiceOptions): GrpcService[] {
  const create = { handler: creation(options), maxReceiveBytes: MAX_RECEIVE_BYTES };
  const bundle = {
    handler: unary(options, async () =>
      Buffer.from(encode(TrustBundleResponse, { roots: [...options.authority.trustBundle()] })),
    ),
    maxReceiveBytes: MAX_RECEIVE_BYTES,
  };
  return SERVICES.map((service) => ({
    unary: { [`/${service}/CreateCertificate`]: create, [`/${service}/GetTrustBundle`]: bundle },
  }));
}
