/** Requests in several protocols to a proxy in plain text, each on a connection of its own. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { GRPC_METHODS } from './protocol-backend.ts';

/** How long a test waits for an answer. */
const PATIENCE_MS = 60_000;
const CHUNK = 64 * 1024;

export interface Sending {
  readonly address: string;
  readonly port: number;
  readonly host: string;
  readonly path?: string;
  readonly method?: string;
  /** Length of the body, which is streamed without its length. */
  readonly bytes?: number;
}

export interface Received {
  readonly status: number;
  /** The backend that answered; undefined if Envoy did. */
  readonly by: string | undefined;
  /** Body bytes that the backend received. */
  readonly sent: number;
  /** Body bytes of the answer. */
  readonly bytes: number;
  readonly location: string | undefined;
}

/** A request body in parts. */
function bodyOf(bytes: number): Readable {
  const chunk = Buffer.alloc(CHUNK, 'a');
  const chunks = function* () {
    for (let left = bytes; left > 0; left -= CHUNK) yield left < CHUNK ? chunk.subarray(0, left) : chunk;
  };
  return Readable.from(chunks());
}

function received(status: number, headers: Readonly<IncomingHttpHeaders>, bytes: number): Received {
  const [by, location] = [headers['x-backend'], headers.location];
  const sent = Number(headers['x-received'] ?? 0);
  return { status, by: typeof by === 'string' ? by : undefined, sent, bytes, location };
}

async function countBytes(body: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.length;
  return bytes;
}

/** A request in HTTP/1.1. */
export function sendHttp1({ address, port, host, path = '/', bytes = 0, ...more }: Sending): Promise<Received> {
  const { method = bytes > 0 ? 'POST' : 'GET' } = more;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const headers = { host, connection: 'close' };
    const outgoing = httpRequest({ agent: false, host: address, port, path, method, headers, signal });
    outgoing.once('error', reject);
    outgoing.once('response', (incoming) => {
      countBytes(incoming).then(
        (count) => resolve(received(incoming.statusCode ?? 0, incoming.headers, count)),
        reject,
      );
    });
    pipeline(bodyOf(bytes), outgoing).catch(reject);
  });
}

/** A request in HTTP/2 with prior knowledge. */
export async function sendHttp2({ address, port, host, path = '/', bytes = 0, ...more }: Sending): Promise<Received> {
  const { method = bytes > 0 ? 'POST' : 'GET' } = more;
  const session = connectHttp2(`http://${address}:${port}`);
  try {
    return await new Promise<Received>((resolve, reject) => {
      session.once('error', reject);
      const stream = session.request({ ':method': method, ':path': path, ':authority': host });
      stream.setTimeout(PATIENCE_MS, () => reject(new Error('no answer in time')));
      stream.once('error', reject);
      stream.once('response', (headers) => {
        countBytes(stream).then((count) => resolve(received(Number(headers[':status']), headers, count)), reject);
      });
      pipeline(bodyOf(bytes), stream, { end: true }).catch(reject);
    });
  } finally {
    session.destroy();
  }
}

/** Asks for a WebSocket connection, and resolves with what comes back after `message` was sent over it. */
export function webSocketEcho({ address, port, host, path = '/' }: Sending, message: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { host, connection: 'Upgrade', upgrade: 'websocket' };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const outgoing = httpRequest({ agent: false, host: address, port, path, headers, signal });
    outgoing.once('error', reject);
    outgoing.once('response', ({ statusCode }) => reject(new Error(`HTTP ${statusCode}`)));
    outgoing.once('upgrade', (_response, socket, head: Buffer) => {
      let text = head.toString();
      const check = (): void => {
        if (text.length < message.length) return;
        socket.destroy();
        resolve(text);
      };
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString();
        check();
      });
      socket.once('error', reject);
      socket.write(message);
      check();
    });
    outgoing.end();
  });
}

/** Calls both methods of a gRPC service, the streaming one with each message, and returns what comes back. */
export async function grpcEcho(
  kind: 'unary' | 'stream',
  { address, port, host }: Sending,
  messages: readonly string[],
): Promise<readonly string[]> {
  const options = { 'grpc.default_authority': host, 'grpc.use_local_subchannel_pool': 1, 'grpc.enable_retries': 0 };
  const client = new Client(`${address}:${port}`, credentials.createInsecure(), options);
  const { path, requestSerialize, responseDeserialize } = GRPC_METHODS[kind];
  const deadline = { deadline: Date.now() + PATIENCE_MS };
  try {
    return await new Promise<readonly string[]>((resolve, reject) => {
      const sent = messages.map((message) => Buffer.from(message));
      if (kind === 'unary') {
        const [message = Buffer.alloc(0)] = sent;
        const answered = (error: ServiceError | null, reply?: Buffer): void =>
          error === null ? resolve([String(reply)]) : reject(error);
        client.makeUnaryRequest(path, requestSerialize, responseDeserialize, message, deadline, answered);
        return;
      }
      const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, deadline);
      const replies: string[] = [];
      stream.once('error', reject);
      // The next message is sent when the one before it has returned: the stream is in use in both directions.
      const next = (): void => {
        const message = sent[replies.length];
        if (message === undefined) stream.end();
        else stream.write(message);
      };
      stream.on('data', (reply: Buffer) => {
        replies.push(String(reply));
        next();
      });
      stream.once('end', () => resolve(replies));
      next();
    });
  } finally {
    client.close();
  }
}
