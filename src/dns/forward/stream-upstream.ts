/** Queries over a connection, TCP or TLS: one connection for all of them, responses in any order (RFC 7766, RFC 7858). */
import { randomInt } from 'node:crypto';
import type { Socket } from 'node:net';
import { backoff } from '../../core/backoff.ts';
import { CtlError, messageOf } from '../../core/errors.ts';
import { MAX_MESSAGE_BYTES } from '../wire/constants.ts';
import { createFrameReader, framed } from '../wire/frames.ts';
import { encodeRequest, type Request, readResponse, type UpstreamResponse } from './request.ts';
import type { Upstream } from './upstream.ts';

export interface StreamUpstreamOptions {
  readonly name: string;
  /** A connection takes no new queries after this, ms; default 10 minutes. */
  readonly maxAgeMs?: number;
  /** Opens a connection. */
  dial(): Socket;
  /** The event after which the connection can be used. */
  readonly ready: 'connect' | 'secureConnect';
  /** An unused connection is closed after this, ms. */
  readonly idleMs: number;
  /** Reports why a connection could not be opened, and that the server responds. */
  readonly report?: { failed(reason: string): void; succeeded(): void } | undefined;
}

export interface StreamUpstream extends Upstream {
  close(): void;
}

const CONNECT_TIMEOUT_MS = 5000;
/** Certificates and roots may have been replaced since a connection opened. */
const MAX_AGE_MS = 600_000;
/** After a connection that failed, queries fail at once for this long. */
const BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** Maximum number of queries on one connection at the same time. */
const MAX_PENDING = 1000;

interface Pending {
  readonly request: Request;
  resolve(response: UpstreamResponse): void;
  reject(error: CtlError): void;
}

interface Connection {
  readonly socket: Socket;
  readonly pending: Map<number, Pending>;
  /** When it opened, or the last message arrived, monotonic ms; undefined while it is not open. */
  lastReceivedAt(): number | undefined;
  /** Sends a query when the connection is open, for TLS: when the server's certificate has been verified. */
  send(message: Buffer): void;
}

/** The connection closed after it had been used: the server may not have seen the query. */
class ConnectionLost extends CtlError {}

export function createStreamUpstream(options: StreamUpstreamOptions): StreamUpstream {
  const { name, dial, ready, idleMs, report, maxAgeMs = MAX_AGE_MS } = options;
  let connection: Connection | undefined;
  let [openedAt, failures, blockedUntil, reason, closed] = [0, 0, 0, '', false];
  const sockets = new Set<Socket>();

  const open = (): Connection => {
    // A connection that is too old is used for its pending queries only, and is closed when it is idle.
    if (connection !== undefined && performance.now() - openedAt < maxAgeMs) return connection;
    if (closed) throw new CtlError('unavailable', `${name}: closed`);
    if (performance.now() < blockedUntil) throw new CtlError('unavailable', `${name}: ${reason}`);
    const fresh = connect(
      dial(),
      name,
      { ready, idleMs },
      {
        failed(why) {
          failures++;
          blockedUntil = performance.now() + backoff(failures, BACKOFF_MS, MAX_BACKOFF_MS, Math.random);
          reason = why;
          if (!closed) report?.failed(why);
        },
        answered() {
          failures = 0;
          report?.succeeded();
        },
        gone() {
          sockets.delete(fresh.socket);
          if (connection === fresh) connection = undefined;
        },
      },
    );
    sockets.add(fresh.socket);
    [connection, openedAt] = [fresh, performance.now()];
    return fresh;
  };
  return {
    name,
    async exchange(request, timeoutMs) {
      try {
        return await ask(open(), name, request, timeoutMs);
      } catch (error) {
        // RFC 7766 section 6.2.4: a server may close an idle connection while a query is on its way.
        if (error instanceof ConnectionLost) return await ask(open(), name, request, timeoutMs);
        throw error;
      }
    },
    close() {
      closed = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

interface ConnectionEvents {
  failed(reason: string): void;
  answered(): void;
  gone(): void;
}

function connect(
  socket: Socket,
  name: string,
  { ready, idleMs }: Pick<StreamUpstreamOptions, 'ready' | 'idleMs'>,
  events: ConnectionEvents,
): Connection {
  const pending = new Map<number, Pending>();
  const unsent: Buffer[] = [];
  let [isOpen, isUsed, why] = [false, false, 'the connection was closed'];
  let receivedAt = 0;
  socket.setNoDelay(true);
  socket.setTimeout(CONNECT_TIMEOUT_MS);
  socket.once(ready, () => {
    isOpen = true;
    receivedAt = performance.now();
    socket.setTimeout(idleMs);
    for (const message of unsent.splice(0)) socket.write(framed(message));
  });
  socket.on('timeout', () => {
    // Queries have timeouts of their own.
    if (isOpen && pending.size > 0) return;
    if (!isOpen) why = `not connected within ${CONNECT_TIMEOUT_MS} ms`;
    socket.destroy();
  });
  socket.on('error', (error) => {
    why = messageOf(error);
  });
  socket.on('end', () => socket.destroy());
  socket.once('close', () => {
    events.gone();
    if (!isUsed) events.failed(why);
    const text = `${name}: ${why}`;
    const error = isUsed ? new ConnectionLost('unavailable', text) : new CtlError('unavailable', text);
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
  });
  const reader = createFrameReader(MAX_MESSAGE_BYTES);
  socket.on('data', (chunk: Buffer) => {
    const messages = reader.read(chunk);
    if (messages === undefined) {
      why = 'the server does not speak DNS';
      socket.destroy();
      return;
    }
    if (messages.length > 0) receivedAt = performance.now();
    for (const message of messages) {
      const id = message.length < 2 ? -1 : message.readUInt16BE(0);
      const waiting = pending.get(id);
      // Late responses and responses to other questions are ignored.
      const response = waiting === undefined ? undefined : readResponse(message, waiting.request, id);
      if (waiting === undefined || response === undefined) continue;
      pending.delete(id);
      isUsed = true;
      events.answered();
      waiting.resolve(response);
    }
  });
  return {
    socket,
    pending,
    lastReceivedAt: () => (isOpen ? receivedAt : undefined),
    send: (message) => void (isOpen ? socket.write(framed(message)) : unsent.push(message)),
  };
}

function ask(
  { socket, pending, lastReceivedAt, send }: Connection,
  name: string,
  request: Request,
  timeoutMs: number,
): Promise<UpstreamResponse> {
  if (pending.size >= MAX_PENDING)
    return Promise.reject(new CtlError('resource_exhausted', `${name}: ${MAX_PENDING} queries are already waiting`));
  let id = randomInt(0x10000);
  while (pending.has(id)) id = (id + 1) & 0xffff;
  const sentAt = performance.now();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      pending.delete(id);
      reject(new CtlError('unavailable', `${name}: no response within ${timeoutMs} ms`));
      // A connection on which nothing arrives any more is dead. Newer queries on it are sent again on another one.
      // The system would notice only after a quarter of an hour.
      if (pending.size === 0 || (lastReceivedAt() ?? sentAt) < sentAt) socket.destroy();
    }, timeoutMs);
    const settle =
      <T>(act: (value: T) => void) =>
      (value: T): void => {
        clearTimeout(timer);
        act(value);
      };
    pending.set(id, { request, resolve: settle(resolve), reject: settle(reject) });
    send(encodeRequest(request, id));
  });
}
