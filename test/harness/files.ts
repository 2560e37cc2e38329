/** Temporary folders and free ports. */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Owner } from './owner.ts';

/** An empty folder that is removed with its owner. */
export async function tempDir(owner: Owner): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-test-'));
  owner.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * Where ports are looked for: below Linux' default `ip_local_port_range` (from 32768 on), above what services use. From that range
 * the kernel gives ports to outgoing connections, which could take one before its server does; and a client that knocks at a
 * closed port of it again and again, as after a restart, may at last be connected to itself.
 */
const FIRST_PORT = 20_000;
const PORTS_END = 32_000;
const ATTEMPTS = 1_000;

/** Listens on the port; undefined when it is taken. */
function hold(port: number, host: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error),
    );
    server.listen(port, host, () => resolve(server));
  });
}

/**
 * `count` ports of a loopback address that nothing listens on. All are held open until the last one is known, so that no
 * port is given twice; another process could still take one before it is used, which is made unlikely by choosing at random.
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const held = new Map<number, Server>();
  try {
    for (let attempt = 0; held.size < count; attempt++) {
      if (attempt === ATTEMPTS) throw new Error(`no free port from ${FIRST_PORT} to ${PORTS_END}`);
      const port = randomInt(FIRST_PORT, PORTS_END);
      const server = await hold(port, host);
      if (server !== undefined) held.set(port, server);
    }
    return [...held.keys()];
  } finally {
    await Promise.all([...held.values()].map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

export async function freePort(host = '127.0.0.1'): Promise<number> {
  const [port] = await freePorts(1, host);
  if (port === undefined) throw new Error('no free port');
  return port;
}
