/**
 * Names that one process of this machine has for itself: ports and loopback networks that tests choose. A claim is an
 * abstract unix domain socket (unix(7)), so that copies of the suite in other folders see it too, and it ends with the
 * process, however that ends.
 */
import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';

/** Open as long as this process lives. */
const held = new Set<Server>();

/** True when nobody else had the name; then this process has it until it ends. */
export function claim(name: string): boolean {
  const server = createServer();
  // Said by `listening` below: node binds before `listen` returns, and reports a failure later.
  server.on('error', () => undefined);
  server.listen({ path: `\0meshd-test-${name}` });
  if (!server.listening) return false;
  server.unref();
  held.add(server);
  return true;
}

const ATTEMPTS = 1_000;

/**
 * Claims `<kind>-<number>` for a random number from `from` up to `end`, and gives the number. Throws when all that it
 * tries are taken.
 */
export function claimNumber(kind: string, from: number, end: number): number {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const number = randomInt(from, end);
    if (claim(`${kind}-${number}`)) return number;
  }
  throw new Error(`no free ${kind} from ${from} to ${end}`);
}
