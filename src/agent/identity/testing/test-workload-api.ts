/** A SPIFFE Workload API on a socket for tests, by its .proto file: what `send` is given goes to every open stream. */
import { createPrivateKey } from 'node:crypto';
import { Server, ServerCredentials, type ServerWritableStream, status } from '@grpc/grpc-js';
import { readPem } from '../../../core/tls/pem.ts';
import { spiffe } from '../../../protobuf/agent/index.ts';
import { certificateSet, type TestRoot } from './certificates.ts';

type Answer = Parameters<typeof spiffe.workload.X509SVIDResponse.encode>[0];
type Stream = ServerWritableStream<Uint8Array, Uint8Array>;

export interface TestWorkloadApi {
  /** Streams opened so far; those without the header of the standard are refused. */
  readonly opened: number;
  /** Sends to all open streams, and first to those that are opened later; undefined refuses new streams. */
  send(answer: Answer | undefined): void;
  /** Ends all streams with an error. */
  drop(): void;
  close(): void;
}

/** PEM as concatenated DER. */
export const derOf = (pem: string): Buffer =>
  Buffer.concat(readPem(pem, 'CERTIFICATE').map((each) => Buffer.from(each)));

/** A new key and certificate of a SPIFFE ID. */
export function svidOf(root: TestRoot, spiffeId: string, lifeMs?: number) {
  const { key, leaf } = certificateSet(root, spiffeId, lifeMs);
  const x509SvidKey = createPrivateKey(key).export({ format: 'der', type: 'pkcs8' });
  return { spiffeId, x509Svid: derOf(leaf), x509SvidKey, bundle: derOf(root.pem) };
}

export async function startTestWorkloadApi(path: string): Promise<TestWorkloadApi> {
  const streams = new Set<Stream>();
  let opened = 0;
  let current: Answer | undefined;
  const server = new Server();
  const encode = (answer: Answer): Uint8Array => spiffe.workload.X509SVIDResponse.encode(answer).finish();
  const service = {
    fetch: {
      path: '/SpiffeWorkloadAPI/FetchX509SVID',
      requestStream: false as const,
      responseStream: true as const,
      requestSerialize: (value: Uint8Array) => Buffer.from(value),
      requestDeserialize: (value: Buffer): Uint8Array => value,
      responseSerialize: (value: Uint8Array) => Buffer.from(value),
      responseDeserialize: (value: Buffer): Uint8Array => value,
    },
  };
  server.addService(service, {
    fetch(stream: Stream) {
      opened++;
      const [header] = stream.metadata.get('workload.spiffe.io');
      if (header !== 'true') return void stream.emit('error', { code: status.INVALID_ARGUMENT, details: 'no header' });
      if (current === undefined)
        return void stream.emit('error', { code: status.PERMISSION_DENIED, details: 'no identity issued' });
      streams.add(stream);
      stream.on('close', () => streams.delete(stream));
      stream.write(encode(current));
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    );
  });
  return {
    get opened() {
      return opened;
    },
    send(answer) {
      current = answer;
      if (answer !== undefined) for (const stream of streams) stream.write(encode(answer));
    },
    drop() {
      for (const stream of streams) stream.emit('error', { code: status.UNAVAILABLE, details: 'stopping' });
    },
    close: () => server.forceShutdown(),
  };
}
