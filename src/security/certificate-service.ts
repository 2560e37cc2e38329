/**
 * The certificate service over gRPC (proto/mesh/v1/auth/ca.proto), under its own name and under that which existing agents call. The
 * identity of a certificate is the caller's; of the request only the public key counts.
 */
import type { MethodDefinition, ServerUnaryCall } from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
import { statusOf } from '../core/grpc-status.ts';
import { encode, mesh } from '../protobuf/index.ts';
import { credentialsOfCall } from './tls-credentials.ts';
import type { Authentication, Authority, Caller, GrpcService, UnaryHandler } from './types.ts';

/** What the service tells about itself, for metrics and logs. */
export interface CertificateObserver {
  /** A request for a certificate has come. */
  requested(): void;
  /** An authenticated caller has no identity that a certificate could be made for. */
  unfitIdentity(peer: string): void;
  issued(caller: Caller): void;
  /** A request was turned down. */
  refused(peer: string, error: CtlError): void;
  /** A fault of ours. */
  internalError(error: unknown): void;
}

export interface CertificateServiceOptions {
  readonly authority: Pick<Authority, 'sign' | 'trustBundle'>;
  readonly authentication: Authentication;
  /** Only workloads of this domain get certificates. */
  readonly trustDomain: string;
  readonly observer: CertificateObserver;
}

const SERVICES = ['mesh.v1.auth.MeshCertificateService', 'istio.v1.auth.IstioCertificateService'];

/** A request of an RSA key of 4096 bits has 2 kB. */
const MAX_RECEIVE_BYTES = 64 * 1024;

/** Calls at work at once: more than the signing pool lets wait, so that it is the pool that decides whose turn it is. */
const MAX_CALLS = 20_000;

function method(service: string, name: string): MethodDefinition<Buffer, Buffer> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  return {
    path: `/${service}/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

type Answer = (call: ServerUnaryCall<Buffer, Buffer>, caller: Caller) => Promise<Buffer>;

/** Authenticates, answers, and turns errors into a status. */
function unary({ authentication, observer }: CertificateServiceOptions, answer: Answer): UnaryHandler {
  let running = 0;
  const serve = async (call: ServerUnaryCall<Buffer, Buffer>): Promise<Buffer> => {
    const credentials = credentialsOfCall(call);
    if (credentials === undefined) throw new CtlError('unimplemented', 'served on the secured address only');
    if (running >= MAX_CALLS) throw new CtlError('resource_exhausted', 'too many requests, try again later');
    running++;
    try {
      return await answer(call, await authentication.authenticate(credentials));
    } finally {
      running--;
    }
  };
  return (call, reply) => {
    serve(call).then(
      (bytes) => reply(null, bytes),
      (error: unknown) => {
        if (error instanceof CtlError && error.code !== 'internal') {
          observer.refused(call.getPeer(), error);
          reply(statusOf(error));
        } else {
          observer.internalError(error);
          reply(statusOf(new CtlError('internal', 'internal error')));
        }
      },
    );
  };
}

const { MeshCertificateRequest, MeshCertificateResponse, TrustBundleResponse } = mesh.v1.auth;

function decodeRequest(bytes: Buffer): { readonly csr: string; readonly ttlMs: number } {
  try {
    const { csr, validityDuration } = MeshCertificateRequest.decode(bytes);
    const seconds = typeof validityDuration === 'number' ? validityDuration : validityDuration.toNumber();
    return { csr, ttlMs: seconds * 1000 };
  } catch (error) {
    throw new CtlError('invalid_argument', 'the message cannot be read', {}, error);
  }
}

function creation(options: CertificateServiceOptions): UnaryHandler {
  const { authority, trustDomain, observer } = options;
  const handler = unary(options, async (call, caller) => {
    const { identity } = caller;
    if (identity.trustDomain !== trustDomain) {
      observer.unfitIdentity(call.getPeer());
      const message = `certificates are issued for trust domain ${trustDomain} only, not for ${identity.trustDomain}`;
      throw new CtlError('permission_denied', message);
    }
    const { csr, ttlMs } = decodeRequest(call.request);
    const certChain = await authority.sign({ csr, identity, ttlMs });
    observer.issued(caller);
    return Buffer.from(encode(MeshCertificateResponse, { certChain }));
  });
  return (call, reply) => {
    observer.requested();
    handler(call, reply);
  };
}

/** The services of the certificate authority, one after the other. */
export function createCertificateServices(options: CertificateServiceOptions): GrpcService[] {
  const handlers = {
    CreateCertificate: creation(options),
    GetTrustBundle: unary(options, async () =>
      Buffer.from(encode(TrustBundleResponse, { roots: [...options.authority.trustBundle()] })),
    ),
  };
  return SERVICES.map((service) => ({
    methods: {
      CreateCertificate: method(service, 'CreateCertificate'),
      GetTrustBundle: method(service, 'GetTrustBundle'),
    },
    handlers,
    maxReceiveBytes: MAX_RECEIVE_BYTES,
  }));
}
