/** A client of the secret discovery service, with gRPC's own client and the generated messages. */
import { Client, type ClientDuplexStream, credentials, Metadata } from '@grpc/grpc-js';
import { envoy } from '../../../protobuf/index.ts';

const discovery = envoy.service.discovery.v3;

export const METHOD = '/envoy.service.secret.v3.SecretDiscoveryService/';

/** One stream. */
export interface Peer<Q, A> {
  readonly answers: A[];
  readonly ended: Promise<{ readonly code: number; readonly details: string }>;
  send(request: Q): void;
  close(): void;
}

/** Opens a stream of the method; `encode` and `decode` convert its requests and responses. */
export function peer<Q, A>(
  path: string,
  method: string,
  encode: (request: Q) => Uint8Array,
  decode: (bytes: Buffer) => A,
): Peer<Q, A> {
  const client = new Client(`unix:${path}`, credentials.createInsecure());
  const stream: ClientDuplexStream<Q, A> = client.makeBidiStreamRequest(
    METHOD + method,
    (request) => Buffer.from(encode(request)),
    decode,
    new Metadata(),
  );
  const answers: A[] = [];
  const ended = Promise.withResolvers<{ code: number; details: string }>();
  stream.on('data', (answer: A) => answers.push(answer));
  stream.on('error', () => undefined);
  stream.on('status', ended.resolve);
  return { answers, ended: ended.promise, send: (request) => void stream.write(request), close: () => client.close() };
}

export const sotw = (path: string) =>
  peer(
    path,
    'StreamSecrets',
    (request: Parameters<typeof discovery.DiscoveryRequest.encode>[0]) =>
      discovery.DiscoveryRequest.encode(request).finish(),
    (bytes) => discovery.DiscoveryResponse.decode(bytes),
  );

export const delta = (path: string) =>
  peer(
    path,
    'DeltaSecrets',
    (request: Parameters<typeof discovery.DeltaDiscoveryRequest.encode>[0]) =>
      discovery.DeltaDiscoveryRequest.encode(request).finish(),
    (bytes) => discovery.DeltaDiscoveryResponse.decode(bytes),
  );
