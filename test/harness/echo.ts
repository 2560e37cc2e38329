/** Echo backends that tests send requests to. */
import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { type Child, startChild } from './child.ts';
import { httpEcho, tcpEcho } from './echo-server.ts';
import { eventually } from './eventually.ts';
import type { Namespace } from './netns.ts';
import type { Owner } from './owner.ts';

export type { EchoReply } from './echo-server.ts';

export interface EchoOptions {
  readonly name: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly address?: string;
}

export interface Echo {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  /** Connections accepted so far. */
  connections(): number;
  /** Stops listening and closes the open connections. A second call does nothing. */
  stop(): Promise<void>;
}

async function serve(owner: Owner, server: HttpServer | Server, options: EchoOptions): Promise<Echo> {
  const { name, port = 0, address = '127.0.0.1' } = options;
  const open = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    connections++;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of open) socket.destroy();
    });
    return stopped;
  };
  owner.after(stop);
  return { name, address, port: bound, connections: () => connections, stop };
}

/** An HTTP backend in this process; its answers are `EchoReply` as JSON. */
export function startEcho(owner: Owner, options: EchoOptions): Promise<Echo> {
  return serve(owner, httpEcho(options.name), options);
}

/** A TCP backend in this process: greets with its name and a line feed, then echoes. */
export function startTcpEcho(owner: Owner, options: EchoOptions): Promise<Echo> {
  return serve(owner, tcpEcho(options.name), options);
}

/** An echo backend in a process inside a network namespace. */
export async function startEchoIn(
  owner: Owner,
  namespace: Namespace,
  options: {
    readonly name: string;
    readonly protocol: 'http' | 'http2' | 'tcp';
    readonly address: string;
    readonly port: number;
  },
): Promise<Child> {
  const { name, protocol, address, port } = options;
  const main = join(import.meta.dirname, 'echo-main.ts');
  const [command, ...args] = namespace.command([process.execPath, main, protocol, name, address, String(port)]);
  if (command === undefined) throw new Error('no command');
  const child = await startChild(owner, { name: `echo ${name}`, command, args });
  await eventually(() => {
    child.assertRunning();
    if (!child.output().includes('ready')) throw new Error('not listening yet');
  });
  return child;
}

export interface TcpExchange {
  readonly port: number;
  readonly address?: string;
  /** The client's own address; left out: the operating system chooses. */
  readonly localAddress?: string;
  /** Sent after connecting. */
  readonly send: string;
  /** Settles as soon as what was received contains this. */
  readonly until: string;
  readonly timeoutMs?: number;
}

/** Connects, sends, and resolves with the answer once it contains `until`; rejects when the peer closes before. */
export function exchange(options: TcpExchange): Promise<string> {
  const { port, address = '127.0.0.1', localAddress, send, until, timeoutMs = 15_000 } = options;
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect({ port, host: address, ...(localAddress !== undefined && { localAddress }) });
    const settle = (act: () => void) => {
      socket.destroy();
      act();
    };
    socket.setTimeout(timeoutMs, () =>
      settle(() => reject(new Error(`nothing more after ${JSON.stringify(received)}`))),
    );
    socket.once('error', reject);
    socket.once('connect', () => socket.write(send));
    socket.on('data', (chunk) => {
      received += chunk.toString();
      if (received.includes(until)) settle(() => resolve(received));
    });
    socket.once('close', () => reject(new Error(`closed after ${JSON.stringify(received)}`)));
  });
}
