/** A real Redis for tests, from the unpacked Debian package. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { eventually, exchange, type Owner, startChild } from '../../harness/index.ts';

const REDIS = process.env.REDIS_PATH ?? '';

/** Why tests with Redis are skipped; false: they run. */
export const redisUnavailable = existsSync(REDIS) ? false : 'Redis is not unpacked';

export async function startRedis(owner: Owner, at: string, port: number): Promise<void> {
  // The Debian package is not installed: its libraries are beside the program.
  const libraries = ['x86_64-linux-gnu', 'aarch64-linux-gnu'].map((each) => join(dirname(REDIS), '../lib', each));
  await startChild(owner, {
    name: `redis ${at}`,
    command: REDIS,
    args: ['--port', String(port), '--bind', at, '--save', '', '--appendonly', 'no'],
    env: { LD_LIBRARY_PATH: libraries.join(':') },
  });
  await eventually(async () => assert.equal(await redis(at, port, 'PING', '+PONG\r\n'), '+PONG\r\n'));
}

/** What a server of Redis says to a command, up to an expected end. */
export function redis(at: string, port: number, command: string, until: string): Promise<string> {
  return exchange({ address: at, port, send: `${command}\r\n`, until });
}
