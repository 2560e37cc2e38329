/** A TCP load balancer without health checks, as a Service of a cluster: for tests with several replicas. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import type { Owner } from './owner.ts';

export interface Balancer {
  /** Where it listens, on 127.0.0.1. */
  readonly port: number;
  /** New connections lead to these ports of 127.0.0.1, in turn. Those that exist stay. */
  use(...ports: readonly number[]): void;
  /** What arrives from now on is passed on so much later, ms. */
  delay(ms: number): void;
  /** Ends the connections that exist. */
  cut(): void;
}

/** Passes bytes on in their order, each after the delay at its arrival. */
function delayed(delayMs: () => number): Transform {
  const waiting: unknown[] = [];
  const stream = new Transform({
    transform(chunk, _encoding, done) {
      const ms = delayMs();
      if (ms === 0 && waiting.length === 0) stream.push(chunk);
      else {
        waiting.push(chunk);
        setTimeout(() => stream.push(waiting.shift()), ms);
      }
      done();
    },
  });
  return stream;
}

/** Starts a balancer. Without a port in use it refuses connections. It ends with its owner. */
export async function startBalancer(owner: Owner): Promise<Balancer> {
  const sockets = new Set<Socket>();
  let ports: readonly number[] = [];
  let next = 0;
  let delayMs = 0;
  const later = () => delayed(() => delayMs);
  const server = createServer((near) => {
    const port = ports[next++ % Math.max(1, ports.length)];
    if (port === undefined) {
      near.destroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    near.pipe(later()).pipe(far).pipe(later()).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  owner.after(() => {
    cut();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  return {
    port: (server.address() as AddressInfo).port,
    use(...chosen) {
      ports = chosen;
    },
    delay(ms) {
      delayMs = ms;
    },
    cut,
  };
}
