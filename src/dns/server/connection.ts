/** One connection of a client, TCP or TLS: pipelined queries (RFC 7766 section 6.2.1.1), limits, idle timeout. */
import type { Socket } from 'node:net';
import type { DnsClient } from '../types.ts';
import { createFrameReader, framed } from '../wire/frames.ts';
import { MAX_QUERY_BYTES } from '../wire/query.ts';
import type { Handler } from './handler.ts';

export interface ConnectionLimits {
  /** A connection without a complete query, or whose client does not read its responses, is closed after this, ms. */
  readonly idleMs: number;
  /** After this, ms, no further queries are read, and the connection is closed when those before are answered. */
  readonly maxAgeMs: number;
  /** Maximum number of waiting queries of one connection; more are read when one is answered. */
  readonly maxPipelined: number;
}

/** Limit of responses that wait for the client to read them, bytes: above it, no queries are read. */
const MAX_UNREAD_BYTES = 256 * 1024;

/** Serves a connection until it is closed. */
export function serveConnection(socket: Socket, client: DnsClient, handler: Handler, limits: ConnectionLimits): void {
  const reader = createFrameReader(MAX_QUERY_BYTES);
  const queued: Buffer[] = [];
  let [waiting, ended, retired] = [0, false, false];

  const idle = setTimeout(() => {
    // A query that the upstream resolver has not answered yet has its own timeout.
    if (waiting > 0 && socket.writableLength === 0) idle.refresh();
    else socket.destroy();
  }, limits.idleMs).unref();
  // RFC 7766 section 6.2.4: a client sends queries without an answer again on another connection.
  const age = setTimeout(() => {
    [ended, retired] = [true, true];
    proceed();
  }, limits.maxAgeMs).unref();
  const send = (response: Buffer): void => {
    if (!socket.writable) return;
    socket.write(framed(response), () => idle.refresh());
  };
  const answer = (message: Buffer): void => {
    const response = handler.handle(message, client);
    if (response === undefined) return;
    if (Buffer.isBuffer(response)) {
      send(response);
      return;
    }
    waiting++;
    void response.then((bytes) => {
      waiting--;
      send(bytes);
      proceed();
    });
  };
  const proceed = (): void => {
    while (waiting < limits.maxPipelined && socket.writableLength < MAX_UNREAD_BYTES) {
      const message = queued.shift();
      if (message === undefined) {
        if (ended && waiting === 0) socket.end();
        else socket.resume();
        return;
      }
      answer(message);
    }
    socket.pause();
  };

  socket.on('data', (chunk: Buffer) => {
    if (retired) return;
    const messages = reader.read(chunk);
    if (messages === undefined) {
      socket.destroy();
      return;
    }
    if (messages.length > 0) idle.refresh();
    queued.push(...messages);
    proceed();
  });
  socket.on('drain', proceed);
  // The client may close its side after its last query.
  socket.on('end', () => {
    ended = true;
    proceed();
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => {
    clearTimeout(idle);
    clearTimeout(age);
  });
}
