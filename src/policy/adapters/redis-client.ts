/**
 * A client of Redis for scripts whose results are integers: a few connections, each with pipelined commands, bounded
 * in number and time. https://redis.io/docs/latest/develop/reference/protocol-spec/ (RESP2)
 */
import { createConnection, type Socket } from 'node:net';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import type { AdapterHost } from './types.ts';

/** A command without a reply after this time fails, and with it the connection, whose replies come in order. */
const TIMEOUT_MS = 1_000;
/** Commands of one connection that wait for their replies. */
const MAX_PENDING = 1_000;
/** Longest reply: integers and lines of errors. */
const MAX_REPLY_BYTES = 4_096;
/** After a failed connection, commands fail at once for this time, ms. */
const RETRY_MS = 500;
/** Connections of one handler, whatever a document says. */
const MAX_CONNECTIONS = 100;

interface Pending {
  readonly resolve: (reply: number) => void;
  readonly reject: (error: CtlError) => void;
}

export interface RedisClientOptions {
  /** `host:port`. */
  readonly address: string;
  readonly connections: number;
  readonly host: Pick<AdapterHost, 'resolve' | 'later' | 'monotonic'>;
}

export class RedisClient {
  readonly #connections: RedisConnection[];
  #next = 0;

  /** Throws CtlError `invalid_argument` for an address of another form. */
  constructor({ address, connections, host }: RedisClientOptions) {
    const target = parseAddress(address);
    const count = Math.min(MAX_CONNECTIONS, Math.max(1, connections));
    this.#connections = Array.from({ length: count }, () => new RedisConnection(target, host));
  }

  /** Commands that wait for their replies. */
  get pending(): number {
    return this.#connections.reduce((sum, { pending }) => sum + pending, 0);
  }

  /** Rejects with CtlError: unavailable, deadline_exceeded, resource_exhausted. */
  command(...parts: readonly string[]): Promise<number> {
    this.#next = (this.#next + 1) % this.#connections.length;
    const connection = this.#connections[this.#next];
    if (connection === undefined) throw new CtlError('internal', 'no connection');
    return connection.command(parts);
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

interface Target {
  readonly host: string;
  readonly port: number;
}

function parseAddress(address: string): Target {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(address) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > 65_535 || Number(port) === 0)
    throw new CtlError('invalid_argument', `${JSON.stringify(address.slice(0, 200))} is not host:port`);
  return { host, port: Number(port) };
}

class RedisConnection {
  readonly #target: Target;
  readonly #host: RedisClientOptions['host'];
  #socket: Socket | undefined;
  #connecting: Promise<Socket> | undefined;
  #pending: Pending[] = [];
  #received = '';
  #retryAt = 0;
  #lastError = '';
  #closed = false;

  constructor(target: Target, host: RedisClientOptions['host']) {
    this.#target = target;
    this.#host = host;
  }

  get pending(): number {
    return this.#pending.length;
  }

  async command(parts: readonly string[]): Promise<number> {
    if (this.#pending.length >= MAX_PENDING)
      throw new CtlError('resource_exhausted', `more than ${MAX_PENDING} commands wait for Redis`);
    const socket = this.#socket ?? (await this.#connect());
    return new Promise<number>((resolve, reject) => {
      const timer = this.#host.later(TIMEOUT_MS, () =>
        this.#fail(socket, new CtlError('deadline_exceeded', `Redis did not reply within ${TIMEOUT_MS} ms`)),
      );
      this.#pending.push({
        resolve: (reply) => {
          timer();
          resolve(reply);
        },
        reject: (error) => {
          timer();
          reject(error);
        },
      });
      socket.write(encoded(parts));
    });
  }

  close(): void {
    this.#closed = true;
    if (this.#socket !== undefined) this.#fail(this.#socket, new CtlError('unavailable', 'the handler is closed'));
  }

  /** One attempt for all commands that wait for it. */
  #connect(): Promise<Socket> {
    if (this.#closed) throw new CtlError('unavailable', 'the handler is closed');
    if (this.#host.monotonic() < this.#retryAt) throw new CtlError('unavailable', `Redis: ${this.#lastError}`);
    this.#connecting ??= this.#open()
      .catch((error: unknown) => {
        this.#retryAt = this.#host.monotonic() + RETRY_MS;
        this.#lastError = oneLineOf(error);
        throw new CtlError('unavailable', `Redis: ${this.#lastError}`, {}, error);
      })
      .finally(() => {
        this.#connecting = undefined;
      });
    return this.#connecting;
  }

  async #open(): Promise<Socket> {
    const { host, port } = this.#target;
    const address = await this.#host.resolve(host);
    const socket = createConnection({ host: address, port, noDelay: true });
    await new Promise<void>((resolve, reject) => {
      const cancel = this.#host.later(TIMEOUT_MS, () => socket.destroy(new CtlError('unavailable', 'no connection')));
      socket.once('connect', () => {
        cancel();
        resolve();
      });
      socket.once('error', (error) => {
        cancel();
        reject(error);
      });
    });
    const lost = (): void => this.#fail(socket, new CtlError('unavailable', 'Redis closed the connection'));
    socket.on('error', () => undefined);
    socket.on('close', lost);
    socket.on('data', (bytes) => this.#read(socket, bytes.toString('latin1')));
    this.#socket = socket;
    if (this.#closed) lost();
    return socket;
  }

  #read(socket: Socket, text: string): void {
    this.#received += text;
    for (let end = this.#received.indexOf('\r\n'); end >= 0; end = this.#received.indexOf('\r\n')) {
      const line = this.#received.slice(0, end);
      this.#received = this.#received.slice(end + 2);
      const pending = this.#pending.shift();
      const reply = /^:(-?\d{1,15})$/.exec(line)?.[1];
      if (reply !== undefined) pending?.resolve(Number(reply));
      else if (line.startsWith('-'))
        pending?.reject(new CtlError('unavailable', `Redis returned: ${line.slice(1, 200)}`));
      else {
        pending?.reject(new CtlError('unavailable', 'Redis returned no integer'));
        this.#fail(socket, new CtlError('unavailable', 'the server does not reply as Redis does'));
        return;
      }
    }
    if (this.#received.length > MAX_REPLY_BYTES)
      this.#fail(socket, new CtlError('unavailable', 'the reply of Redis is too long'));
  }

  #fail(socket: Socket, error: CtlError): void {
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    this.#received = '';
    socket.destroy();
    const pending = this.#pending;
    this.#pending = [];
    for (const { reject } of pending) reject(error);
  }
}

function encoded(parts: readonly string[]): string {
  const strings = parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
  return `*${parts.length}\r\n${strings.join('')}`;
}
