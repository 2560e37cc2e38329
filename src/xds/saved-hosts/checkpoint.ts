/**
 * The hosts that proxies have learned, as a string: each host once, and by scope the number of each of its hosts with
 * the time of its last use, minutes since the epoch.
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import { type LearnedScope, MAX_HOSTS, MAX_SCOPES } from '../on-demand/index.ts';

/** Maximum length: an object of an API server has at most 1.5 MB, a ConfigMap 1 MiB. */
export const MAX_CHECKPOINT_BYTES = 768 * 1024;
/** Names of scopes and hosts: a host name has at most 253 characters, the name of a route configuration few more. */
const MAX_NAME = 1024;
/** Bytes of a number and a time. */
const BYTES_OF_USE = 20;

const MINUTE_MS = 60_000;

const NAME = z.string().max(MAX_NAME);
const WHOLE = z.int().min(0);
const CHECKPOINT = z.strictObject({
  version: z.literal(1),
  hosts: z.array(NAME),
  scopes: z.array(z.tuple([NAME, z.array(z.tuple([WHOLE, WHOLE])).max(MAX_HOSTS)])).max(MAX_SCOPES),
});

/**
 * @param scopes the last used one last
 * @param now epoch ms
 * @returns the string, what is in it, and the number of scopes that are left out because it would be too long: those
 *   used first
 */
export function writeCheckpoint(
  scopes: readonly LearnedScope[],
  now: number,
): { readonly text: string; readonly written: readonly LearnedScope[]; readonly left: number } {
  const numbers = new Map<string, number>();
  const rows: [string, [number, number][]][] = [];
  let bytes = 64;
  for (const { scope, hosts } of scopes.toReversed()) {
    const added = hosts.filter(({ name }) => !numbers.has(name));
    bytes += [scope, ...added.map(({ name }) => name)].reduce((sum, name) => sum + JSON.stringify(name).length + 8, 0);
    bytes += hosts.length * BYTES_OF_USE;
    if (bytes > MAX_CHECKPOINT_BYTES || rows.length === MAX_SCOPES) break;
    for (const { name } of added) numbers.set(name, numbers.size);
    const uses = hosts.map(({ name, unusedMs }): [number, number] => {
      return [numbers.get(name) ?? 0, Math.floor(Math.max(0, now - unusedMs) / MINUTE_MS)];
    });
    rows.push([scope, uses]);
  }
  const checkpoint: z.infer<typeof CHECKPOINT> = {
    version: 1,
    hosts: [...numbers.keys()],
    scopes: rows.toReversed(),
  };
  const left = scopes.length - rows.length;
  return { text: JSON.stringify(checkpoint), written: scopes.slice(left), left };
}

/**
 * @param now epoch ms
 * @throws CtlError with one line about what is wrong
 */
export function readCheckpoint(text: string, now: number): readonly LearnedScope[] {
  if (text.length > MAX_CHECKPOINT_BYTES)
    throw new CtlError('invalid_argument', `it has more than ${MAX_CHECKPOINT_BYTES} bytes`);
  const { hosts, scopes } = parsed(text);
  return scopes.map(([scope, uses]) => ({
    scope,
    hosts: uses.map(([number, minutes]) => {
      const name = hosts[number];
      if (name === undefined) throw new CtlError('invalid_argument', `scope ${scope} names a host that is not there`);
      return { name, unusedMs: Math.max(0, now - minutes * MINUTE_MS) };
    }),
  }));
}

function parsed(text: string): z.infer<typeof CHECKPOINT> {
  try {
    const result = CHECKPOINT.safeParse(JSON.parse(text));
    if (result.success) return result.data;
  } catch {
    // Not JSON.
  }
  throw new CtlError('invalid_argument', 'it has an unknown format');
}
