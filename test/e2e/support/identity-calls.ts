/** Calls of callers with an identity: to the certificate service, and streams of a proxy. */
import type { TestContext } from 'node:test';
import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { encode, envoy, mesh } from '../../../src/protobuf/index.ts';
import { csr, type KeyPair } from '../../../src/security/authority/testing/fixtures.ts';
import { encodeNode, encodeSotwRequest } from '../../../src/xds/testing/content.ts';
import type { Owner } from '../../harness/index.ts';

const { MeshCertificateRequest, MeshCertificateResponse } = mesh.v1.auth;
type DebugResponse = envoy.service.discovery.v3.DiscoveryResponse;
/** The certificate service under its own name, and under that of existing agents. */
export const MESH = '/mesh.v1.auth.MeshCertificateService';
export const ISTIO = '/istio.v1.auth.IstioCertificateService';
const ADS = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';
const CLUSTERS = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';

const asIs = (bytes: Buffer): Buffer => bytes;

/** Shows the certificate, when there is one. */
export function channel(
  { root }: { readonly root: string },
  shown?: { readonly chain: string; readonly keys: KeyPair },
): ChannelCredentials {
  const key = shown?.keys.privateKey.export({ type: 'pkcs8', format: 'pem' });
  return credentials.createSsl(
    Buffer.from(root),
    key === undefined ? null : Buffer.from(key),
    shown === undefined ? null : Buffer.from(shown.chain),
  );
}

export function client(t: Owner | TestContext, port: number, over: ChannelCredentials): Client {
  const made = new Client(`localhost:${port}`, over, { 'grpc.use_local_subchannel_pool': 1 });
  t.after(() => made.close());
  return made;
}

function bearer(token: string | undefined): Metadata {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  return metadata;
}

export function call(from: Client, path: string, request: Uint8Array, token?: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    from.makeUnaryRequest(
      path,
      asIs,
      asIs,
      Buffer.from(request),
      bearer(token),
      { deadline: Date.now() + 30_000 },
      (error, value) => (value === undefined ? reject(error ?? new Error('no answer')) : resolve(value)),
    );
  });
}

/** The chain of a new certificate, leaf first. */
export async function certificate(
  from: Client,
  keys: KeyPair,
  token?: string,
  service = MESH,
  seconds = 0,
): Promise<readonly string[]> {
  const request = encode(MeshCertificateRequest, { csr: csr({ key: keys }), validityDuration: seconds });
  return MeshCertificateResponse.decode(await call(from, `${service}/CreateCertificate`, request, token)).certChain;
}

/** What a stream's node says; default: the Pod `web` of the namespace, at 10.0.0.1. */
export interface NodeClaim {
  readonly namespace?: string;
  readonly pod?: string;
  readonly address?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Opens a stream, for a minute at most; `first` is `served`, or the status that the stream ended with. */
export function stream(from: Client, claim: NodeClaim = {}, token?: string, seconds = 60) {
  const { namespace = 'shop', pod = 'web', address = '10.0.0.1', metadata = {} } = claim;
  const opened = from.makeBidiStreamRequest(ADS, asIs, asIs, bearer(token), { deadline: Date.now() + seconds * 1000 });
  const first = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<ServiceError>();
  opened.on('data', () => first.resolve('served'));
  opened.on('error', (error: ServiceError) => {
    first.resolve(`${status[error.code]}: ${error.details}`);
    ended.resolve(error);
  });
  const id = `sidecar~${address}~${pod}.${namespace}~${namespace}.svc.cluster.local`;
  const node = encodeNode(id, { NAMESPACE: namespace, ...metadata });
  opened.write(encodeSotwRequest({ typeUrl: CLUSTERS, node }));
  return { first: first.promise, ended: ended.promise, call: opened };
}

/** Asks for a debug page over xDS, as Istio's command line does; rejects with the status of the stream. */
export function debugPage(from: Client, typeUrl: string, name: string, token?: string): Promise<DebugResponse> {
  const opened = from.makeBidiStreamRequest(ADS, asIs, asIs, bearer(token), { deadline: Date.now() + 60_000 });
  const node = encodeNode('sidecar~0.0.0.0~tool.mesh-system~mesh-system.svc.cluster.local');
  opened.write(encodeSotwRequest({ typeUrl, node, names: name === '' ? [] : [name] }));
  return new Promise((resolve, reject) => {
    opened.on('data', (bytes: Buffer) => {
      resolve(envoy.service.discovery.v3.DiscoveryResponse.decode(bytes));
      opened.cancel();
    });
    opened.on('error', reject);
  });
}

/** The name of the status that a call ended with. */
export const codeOf = (error: unknown): string => status[(error as ServiceError).code] ?? String(error);
