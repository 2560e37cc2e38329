/** A TCP relay in front of a server on loopback: a test can make its connections silent, or end and refuse them. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Relay {
  readonly port: number;
  /** Stops the data of the connections that exist. */
  freeze(): void;
  /** Ends all connections, and refuses new ones until `restore`. */
  cut(): void;
  restore(): void;
  /** Connections that were refused. */
  refused(): number;
  close(): Promise<void>;
}

/** Relays to a port of 127.0.0.1. Listens by default on a free port of 127.0.0.1. */
export async function startRelay(target: number, host = '127.0.0.1', port = 0): Promise<Relay> {
  const sockets = new Set<Socket>();
  let isCut = false;
  let refused = 0;
  const server = createServer((near) => {
    if (isCut) {
      refused++;
      near.destroy();
      return;
    }
    const far = connect(target, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    freeze() {
      for (const socket of sockets) socket.unpipe().pause();
    },
    cut() {
      isCut = true;
      for (const socket of sockets) socket.destroy();
    },
    restore() {
      isCut = false;
    },
    refused: () => refused,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
