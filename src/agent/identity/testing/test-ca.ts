/** Certificate services of all protocols for tests of the agent: they sign every request, and record the credentials. */
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData, status } from '@grpc/grpc-js';
import { google } from '../../../protobuf/agent/index.ts';
import { mesh } from '../../../protobuf/index.ts';
import { keyOfRequest, type TestRoot, testRoot } from './certificates.ts';

export interface TestCall {
  readonly method: 'CreateCertificate' | 'GetTrustBundle';
  readonly path: string;
  readonly metadata: Readonly<Record<string, unknown>>;
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
  /** What the service of the cloud answers; undefined signs the request. */
  cloudChain: ((csr: string) => string[]) | undefined;
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
    cloudChain: undefined as TestCa['cloudChain'],
    calls,
    issued,
    close: () => server.forceShutdown(),
  };
  const note = (method: TestCall['method'], call: ServerUnaryCall<Uint8Array, Uint8Array>, seconds = 0): void => {
    const authorization = call.metadata.get('authorization')[0]?.toString();
    const certificate = call.getAuthContext().sslPeerCertificate?.fingerprint256;
    const [path, metadata] = [call.getPath(), call.metadata.getMap()];
    calls.push({ method, path, metadata, authorization, certificate, validitySeconds: seconds });
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
  const sign = (csr: string): string[] => {
    const leaf = state.root.issue(keyOfRequest(csr), [NAME], state.lifeMs);
    issued.push(new X509Certificate(leaf).fingerprint256);
    return [leaf, state.root.pem];
  };
  type Call = ServerUnaryCall<Uint8Array, Uint8Array>;
  const createCertificate = (call: Call, done: sendUnaryData<Uint8Array>) => {
    const { csr, validityDuration } = mesh.v1.auth.MeshCertificateRequest.decode(call.request);
    note('CreateCertificate', call, Number(validityDuration));
    if (state.failure !== undefined) return done(state.failure);
    done(null, mesh.v1.auth.MeshCertificateResponse.encode({ certChain: sign(csr) }).finish());
  };
  const getTrustBundle = (call: Call, done: sendUnaryData<Uint8Array>) => {
    note('GetTrustBundle', call);
    if (state.failure !== undefined) return done(state.failure);
    if (state.bundleFails) return done({ code: status.INTERNAL, details: 'broken' });
    if (state.bundle === undefined) return done({ code: status.UNIMPLEMENTED, details: 'no bundles here' });
    done(null, mesh.v1.auth.TrustBundleResponse.encode({ roots: [...state.bundle] }).finish());
  };
  const meshCa = {
    createCertificate: method('/mesh.v1.auth.MeshCertificateService/CreateCertificate'),
    getTrustBundle: method('/mesh.v1.auth.MeshCertificateService/GetTrustBundle'),
  };
  server.addService(meshCa, { createCertificate, getTrustBundle });
  // As Istio's authority, which has no method for roots.
  const istioCa = { createCertificate: method('/istio.v1.auth.IstioCertificateService/CreateCertificate') };
  server.addService(istioCa, { createCertificate });
  const cloudCa = { createCertificate: method('/google.security.meshca.v1.MeshCertificateService/CreateCertificate') };
  server.addService(cloudCa, {
    createCertificate(call: Call, done: sendUnaryData<Uint8Array>) {
      const { requestId, csr, validity } = google.security.meshca.v1.MeshCertificateRequest.decode(call.request);
      note('CreateCertificate', call, Number(validity?.seconds));
      if (!/^[0-9a-f-]{36}$/.test(requestId)) return done({ code: status.INVALID_ARGUMENT, details: 'no UUID' });
      if (state.failure !== undefined) return done(state.failure);
      const certChain = state.cloudChain?.(csr) ?? sign(csr);
      done(null, google.security.meshca.v1.MeshCertificateResponse.encode({ certChain }).finish());
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
