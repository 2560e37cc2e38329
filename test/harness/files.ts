/** Temporary folders and free ports. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
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

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
    );
    server.listen(port, host, () => server.close(() => resolve(true)));
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
