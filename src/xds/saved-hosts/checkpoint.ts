/**
 * The hosts that proxies have learned, as a string: each host once, and by scope the number of each of its hosts with
 * the time of its last use, minutes since the epoch.
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import { type LearnedScope, MAX_HOSTS, MAX_SCOPES, namespaceOf } from '../on-demand/index.ts';

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
 *   of the namespaces with most scopes, and of these the ones used first
 */
export function writeCheckpoint(
  scopes: readonly LearnedScope[],
  now: number,
): { readonly text: string; readonly written: readonly LearnedScope[]; readonly left: number } {
  const numbers = new Map<string, number>();
  const rows = new Map<LearnedScope, [string, [number, number][]]>();
  let bytes = 64;
  for (const each of byImportance(scopes)) {
    const { scope, hosts } = each;
    const added = hosts.filter(({ name }) => !numbers.has(name));
    bytes += [scope, ...added.map(({ name }) => name)].reduce((sum, name) => sum + JSON.stringify(name).length + 8, 0);
    bytes += hosts.length * BYTES_OF_USE;
    if (bytes > MAX_CHECKPOINT_BYTES || rows.size === MAX_SCOPES) break;
    for (const { name } of added) numbers.set(name, numbers.size);
    const uses = hosts.map(({ name, unusedMs }): [number, number] => {
      return [numbers.get(name) ?? 0, Math.floor(Math.max(0, now - unusedMs) / MINUTE_MS)];
    });
    rows.set(each, [scope, uses]);
  }
  const written = scopes.filter((each) => rows.has(each));
  const checkpoint: z.infer<typeof CHECKPOINT> = {
    version: 1,
    hosts: [...numbers.keys()],
    scopes: written.map((each) => rows.get(each) ?? [each.scope, []]),
  };
  return { text: JSON.stringify(checkpoint), written, left: scopes.length - written.length };
}

/** The last used scope of each namespace, then the second last of each: a namespace may have many. */
function byImportance(scopes: readonly LearnedScope[]): readonly LearnedScope[] {
  const counts = new Map<string, number>();
  const ranked = scopes.toReversed().map((each) => {
    const namespace = namespaceOf(each.scope);
    const rank = counts.get(namespace) ?? 0;
    counts.set(namespace, rank + 1);
    return { each, rank };
  });
  return ranked.sort((a, b) => a.rank - b.rank).map(({ each }) => each);
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
