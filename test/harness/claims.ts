/**
 * Names that one process of this machine reserves: ports and loopback networks that tests choose. A reservation is an
 * abstract unix domain socket (unix(7)), so that copies of the suite in other folders see it too, and it ends with the
 * process, however that ends.
 */
import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';

/** Open for as long as this process lives. */
const held = new Set<Server>();

/** Reserves a name until this process ends; false when another process has it. */
export function claim(name: string): boolean {
  const server = createServer();
  // Node binds before `listen` returns and reports a failure later; `listening` below shows which.
  server.on('error', () => undefined);
  server.listen({ path: `\0meshd-test-${name}` });
  if (!server.listening) return false;
  server.unref();
  held.add(server);
  return true;
}

const ATTEMPTS = 1_000;

/**
 * Reserves `<kind>-<number>` for a random number from `from` up to `end` and returns the number. Throws when every
 * attempt meets a name that is taken.
 */
export function claimNumber(kind: string, from: number, end: number): number {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const number = randomInt(from, end);
    if (claim(`${kind}-${number}`)) return number;
  }
  throw new Error(`no free ${kind} from ${from} to ${end}`);
}
