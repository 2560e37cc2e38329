/** Temporary folders and free ports. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
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
 * `count` ports of a loopback address that nothing listens on. All are held open until the last one is known, so that no
 * port is given twice; another process could still take one before it is used, which no test can rule out.
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(0, host, resolve);
      });
      return server;
    }),
  );
  return Promise.all(
    servers.map(async (server) => {
      const address = server.address();
      await new Promise((resolve) => server.close(resolve));
      if (address === null || typeof address === 'string') throw new Error('a TCP server has no port');
      return address.port;
    }),
  );
}

export async function freePort(host = '127.0.0.1'): Promise<number> {
  const [port] = await freePorts(1, host);
  if (port === undefined) throw new Error('no free port');
  return port;
}
