/**
 * Ports for a server that thousands of clients of the same machine connect to. Not from the range that the kernel gives to
 * outgoing connections: one of those could take a port before the server does, and a client that knocks at a closed port of that
 * range again and again, as after a restart, may at last be connected to itself.
 */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import type { DiscoveryPorts } from '../test/harness/discovery.ts';

/** Below Linux' default `ip_local_port_range` (from 32768 on), above what services use. */
const FIRST = 20_000;
const LAST = 32_000;
const ATTEMPTS = 100;

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

async function freePort(taken: Set<number>): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = randomInt(FIRST, LAST);
    if (taken.has(port) || !(await isFree(port))) continue;
    taken.add(port);
    return port;
  }
  throw new Error(`no free port from ${FIRST} to ${LAST}`);
}

export type ServerPorts = DiscoveryPorts & { readonly secure: number };

export async function serverPorts(): Promise<ServerPorts> {
  const taken = new Set<number>();
  return {
    grpc: await freePort(taken),
    http: await freePort(taken),
    monitoring: await freePort(taken),
    introspection: await freePort(taken),
    secure: await freePort(taken),
  };
}
