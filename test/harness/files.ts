/** Temporary folders and free ports. */
import { createSocket } from 'node:dgram';
import type { EventEmitter } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { claimNumber } from './claims.ts';
import type { Owner } from './owner.ts';

/** An empty folder that is removed with its owner. */
export async function tempDir(owner: Owner): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-test-'));
  owner.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * The range of ports for tests: below Linux' default `ip_local_port_range` (from 32768 on), above what services use.
 * The kernel gives ports of that range to outgoing connections, which could take one before its server does; and a
 * client that retries a closed port of it, as after a restart, may at last be connected to itself. Demos have the ports
 * from 20000 to 23999.
 */
const FIRST_PORT = 24_000;
const PORTS_END = 32_000;
const ATTEMPTS = 1_000;

/** For TCP and for UDP: servers of DNS need both. */
async function isFree(port: number, host: string): Promise<boolean> {
  const server = createServer();
  const ofTcp = await isBound(server, () => server.listen(port, host, () => server.close()));
  if (!ofTcp) return false;
  const socket = createSocket(isIP(host) === 6 ? 'udp6' : 'udp4');
  return await isBound(socket, () => socket.bind(port, host, () => socket.close()));
}

/** Resolves when the socket has closed, or with false when its port is in use. */
function isBound(socket: EventEmitter, bind: () => void): Promise<boolean> {
  return new Promise((resolve, reject) => {
    socket.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
    );
    socket.once('close', () => resolve(true));
    bind();
  });
}

/**
 * `count` ports of a loopback address that are free and that no other test gets. They stay reserved until this process
 * ends, so that a server on them can be restarted.
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const ports: number[] = [];
  for (let attempt = 0; ports.length < count; attempt++) {
    if (attempt === ATTEMPTS) throw new Error(`no free port from ${FIRST_PORT} to ${PORTS_END}`);
    const port = claimNumber('port', FIRST_PORT, PORTS_END);
    // A program other than a test may listen there.
    if (await isFree(port, host)) ports.push(port);
  }
  return ports;
}

export async function freePort(host = '127.0.0.1'): Promise<number> {
  const [port] = await freePorts(1, host);
  if (port === undefined) throw new Error('no free port');
  return port;
}
