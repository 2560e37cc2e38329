/**
 * A certificate service for tests of the agent, with @grpc/grpc-js and the generated messages (the agent loads
 * neither): it signs every request, and records the credentials.
 */
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import { mesh } from '../../../protobuf/index.ts';
import { keyOfRequest, type TestRoot, testRoot } from './certificates.ts';

export interface TestCall {
  readonly method: 'CreateCertificate' | 'GetTrustBundle';
  readonly authorization: string | undefined;
  /** Fingerprint of the client's certificate. */
  readonly certificate: string | undefined;
  readonly validitySeconds: number;
}

export interface TestCa {
  readonly port: number;
  /** The root that signs now; tests replace it. */
  root: TestRoot;
  /** The trust bundle; undefined answers UNIMPLEMENTED. */
  bundle: readonly string[] | undefined;
  /** GetTrustBundle alone fails. */
  bundleFails: boolean;
  lifeMs: number;
  /** Every call fails with it while it is set. */
  failure: { readonly code: number; readonly details: string } | undefined;
  readonly calls: readonly TestCall[];
  /** Fingerprints of the certificates that it signed. */
  readonly issued: readonly string[];
  close(): void;
}

const NAME = 'spiffe://cluster.local/ns/default/sa/web';
export const TEST_IDENTITY = { trustDomain: 'cluster.local', namespace: 'default', serviceAccount: 'web' };
export const TEST_SERVER_NAME = 'meshd.mesh-system.svc';

export interface TestCaOptions {
  /** Signs the server's certificate, and at first the workloads'. */
  readonly root?: TestRoot;
  /** Clients without a certificate of the root are refused. */
  readonly certificateRequired?: boolean;
}

export async function startTestCa(options: TestCaOptions = {}): Promise<TestCa> {
  const { root: serverRoot = testRoot('test root'), certificateRequired = false } = options;
  const calls: TestCall[] = [];
  const issued: string[] = [];
  const server = new Server();
  const state = {
    root: serverRoot,
    bundle: undefined as readonly string[] | undefined,
    bundleFails: false,
    lifeMs: 3_600_000,
    failure: undefined as TestCa['failure'],
    calls,
    issued,
    close: () => server.forceShutdown(),
  };
  const note = (method: TestCall['method'], call: ServerUnaryCall<Uint8Array, Uint8Array>, seconds = 0): void => {
    const authorization = call.metadata.get('authorization')[0]?.toString();
    const certificate = call.getAuthContext().sslPeerCertificate?.fingerprint256;
    calls.push({ method, authorization, certificate, validitySeconds: seconds });
  };
  const bytes = { serialize: (value: Uint8Array) => Buffer.from(value), deserialize: (value: Buffer) => value };
  const method = (path: string) => ({
    path,
    requestStream: false as const,
    responseStream: false as const,
    requestSerialize: bytes.serialize,
    requestDeserialize: bytes.deserialize,
    responseSerialize: bytes.serialize,
    responseDeserialize: bytes.deserialize,
  });
  const service = {
    createCertificate: method('/mesh.v1.auth.MeshCertificateService/CreateCertificate'),
    getTrustBundle: method('/mesh.v1.auth.MeshCertificateService/GetTrustBundle'),
  };
  server.addService(service, {
    createCertificate(call: ServerUnaryCall<Uint8Array, Uint8Array>, done: sendUnaryData<Uint8Array>) {
      const { csr, validityDuration } = mesh.v1.auth.MeshCertificateRequest.decode(call.request);
      note('CreateCertificate', call, Number(validityDuration));
      if (state.failure !== undefined) return done(state.failure);
      const leaf = state.root.issue(keyOfRequest(csr), [NAME], state.lifeMs);
      issued.push(new X509Certificate(leaf).fingerprint256);
      done(null, mesh.v1.auth.MeshCertificateResponse.encode({ certChain: [leaf, state.root.pem] }).finish());
    },
    getTrustBundle(call: ServerUnaryCall<Uint8Array, Uint8Array>, done: sendUnaryData<Uint8Array>) {
      note('GetTrustBundle', call);
      if (state.failure !== undefined) return done(state.failure);
      if (state.bundleFails) return done({ code: status.INTERNAL, details: 'broken' });
      if (state.bundle === undefined) return done({ code: status.UNIMPLEMENTED, details: 'no bundles here' });
      done(null, mesh.v1.auth.TrustBundleResponse.encode({ roots: [...state.bundle] }).finish());
    },
  });
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const credentials = ServerCredentials.createSsl(
    Buffer.from(serverRoot.pem),
    [
      {
        cert_chain: Buffer.from(serverRoot.issue(publicKey, [TEST_SERVER_NAME], 3_600_000)),
        private_key: Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' })),
      },
    ],
    certificateRequired,
  );
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', credentials, (error, at) => (error ? reject(error) : resolve(at)));
  });
  return Object.assign(state, { port: bound });
}
