/** A control plane for tests: both ADS methods over grpc-js; the test reads requests and writes responses. */
import * as grpc from '@grpc/grpc-js';
import type { Owner } from '../../../../test/harness/index.ts';
import { encodeFields } from '../../../protobuf/wire/index.ts';
import { type DiscoveryRequest, readRequest, type Variant, writeResponse } from '../messages.ts';

type Call = grpc.ServerDuplexStream<Buffer, Buffer>;

/** One stream that a client has opened. */
export interface PeerStream {
  readonly variant: Variant;
  readonly requests: DiscoveryRequest[];
  /** SHA-256 of the client's certificate, if it has one. */
  readonly certificate: string | undefined;
  send(bytes: Buffer): void;
  end(): void;
  closed: boolean;
}

export interface TestControlPlane {
  readonly port: number;
  readonly streams: PeerStream[];
  /** Ends all connections and stops to listen. */
  stop(): void;
}

const SERVICE = '/envoy.service.discovery.v3.AggregatedDiscoveryService';
const bytesOf = (bytes: Buffer): Buffer => bytes;

export async function startControlPlane(
  owner: Owner,
  options: {
    readonly port?: number;
    readonly tls?: ServerTls;
    /** Called with each request. */
    readonly answer?: (stream: PeerStream, request: DiscoveryRequest) => void;
  } = {},
): Promise<TestControlPlane> {
  const { tls, port = 0, answer } = options;
  const server = new grpc.Server({ 'grpc.enable_channelz': 0 });
  const streams: PeerStream[] = [];
  const accept =
    (variant: Variant) =>
    (call: Call): void => {
      const stream: PeerStream = {
        variant,
        requests: [],
        certificate: call.getAuthContext().sslPeerCertificate?.fingerprint256,
        send: (bytes) => void call.write(bytes),
        end: () => call.end(),
        closed: false,
      };
      streams.push(stream);
      call.on('data', (bytes: Buffer) => {
        const request = readRequest(variant, bytes);
        stream.requests.push(request);
        answer?.(stream, request);
      });
      call.on('error', () => undefined);
      call.on('close', () => {
        stream.closed = true;
      });
      call.on('cancelled', () => {
        stream.closed = true;
      });
    };
  const method = (name: string) => ({
    path: `${SERVICE}/${name}`,
    requestStream: true,
    responseStream: true,
    requestSerialize: bytesOf,
    requestDeserialize: bytesOf,
    responseSerialize: bytesOf,
    responseDeserialize: bytesOf,
  });
  server.addService(
    { sotw: method('StreamAggregatedResources'), delta: method('DeltaAggregatedResources') },
    { sotw: accept('sotw'), delta: accept('delta') },
  );
  const bound = await listen(server, tls, port);
  const stop = (): void => server.forceShutdown();
  owner.after(stop);
  return { port: bound, streams, stop };
}

/** PEM: roots of clients, which need a certificate, and those of the server. */
export interface ServerTls {
  readonly roots: string;
  readonly key: string;
  readonly chain: string;
}

/**
 * @param tls undefined: plain text
 * @param port 0: a free one
 * @returns the port
 */
export function listen(server: grpc.Server, tls: ServerTls | undefined, port = 0): Promise<number> {
  const credentials =
    tls === undefined
      ? grpc.ServerCredentials.createInsecure()
      : grpc.ServerCredentials.createSsl(
          Buffer.from(tls.roots),
          [{ private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.chain) }],
          true,
        );
  return new Promise((resolve, reject) =>
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, found) => (error ? reject(error) : resolve(found))),
  );
}

/** A response with one resource, in the format of the variant. */
export function responseOf(
  variant: Variant,
  typeUrl: string,
  resources: readonly (readonly [name: string, version: string, value: Buffer])[],
  {
    nonce,
    version = nonce,
    removed = [],
  }: { readonly nonce: string; readonly version?: string; readonly removed?: readonly string[] },
): Buffer {
  const any = (value: Buffer): Buffer =>
    encodeFields([
      [1, typeUrl],
      [2, value],
    ]);
  const encoded = resources.map(([name, each, value]) =>
    variant === 'sotw'
      ? any(value)
      : encodeFields([
          [1, each],
          [2, any(value)],
          [3, name],
        ]),
  );
  return writeResponse({ typeUrl, version, nonce, resources: encoded, removed });
}
