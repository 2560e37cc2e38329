/** Test support: a client of an ADS stream over grpc-js. */
import { type Client, type ClientDuplexStream, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { ADS_PATHS } from '../server/services.ts';
import { type ParsedResponse, parseDelta, parseSotw } from './content.ts';

type Call = ClientDuplexStream<Buffer, Buffer>;

/** Has grpc-js pass messages as bytes. */
export function asIs(bytes: Buffer): Buffer {
  return bytes;
}

/** A stream of messages as bytes. */
export function openCall(client: Client, path: string, metadata = new Metadata()): Call {
  return client.makeBidiStreamRequest(path, asIs, asIs, metadata);
}

/** A client of one ADS stream that sends the requests of a test. */
export interface Peer {
  readonly call: Call;
  send(bytes: Buffer): void;
  /** The next response; rejects with the stream's status when it ends first. */
  next(): Promise<ParsedResponse>;
  /** Resolves when the stream has ended. */
  readonly ended: Promise<{ code: number; details: string }>;
  received(): number;
}

/** Opens an ADS stream. */
export function openPeer(client: Client, mode: 'sotw' | 'delta', paths: typeof ADS_PATHS, metadata?: Metadata): Peer {
  const call = openCall(client, paths[mode], metadata);
  const parse = mode === 'sotw' ? parseSotw : parseDelta;
  const messages: ParsedResponse[] = [];
  const waiting: { resolve(m: ParsedResponse): void; reject(error: unknown): void }[] = [];
  let count = 0;
  call.on('data', (bytes: Buffer) => {
    count++;
    const waiter = waiting.shift();
    if (waiter === undefined) messages.push(parse(bytes));
    else waiter.resolve(parse(bytes));
  });
  const ended = new Promise<{ code: number; details: string }>((resolve) => {
    call.on('error', (error: ServiceError) => resolve(error));
    call.on('status', resolve);
  });
  ended.then((reason) => {
    for (const waiter of waiting.splice(0)) waiter.reject(new Error(`ended: ${reason.details}`));
  });
  return {
    call,
    ended,
    send: (bytes) => call.write(bytes),
    next: () =>
      new Promise((resolve, reject) => {
        const message = messages.shift();
        if (message === undefined) waiting.push({ resolve, reject });
        else resolve(message);
      }),
    received: () => count,
  };
}
