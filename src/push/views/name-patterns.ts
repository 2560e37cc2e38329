/**
 * The names by which proxies are found that a change concerns: names of what they hold, and patterns for all names that
 * end alike. A pattern is the domain of a virtual host with a wildcard: `<route configuration>/*.example.com`.
 */
import type { Names } from '../types.ts';

const ANY = '*';

/** Tells the names that a pattern is for; undefined for a name that is none. */
export function patternOf(name: string): ((held: string) => boolean) | undefined {
  const start = name.lastIndexOf('/') + 1;
  if (start === 0 || name[start] !== ANY) return undefined;
  const [routes, suffix] = [name.slice(0, start), name.slice(start + ANY.length)];
  return (held) => held.startsWith(routes) && held.endsWith(suffix);
}

/** Whether a name, or one that a pattern is for, is in any of these sets. */
export function isHeldIn(held: readonly (Names & { has(name: string): boolean })[], name: string): boolean {
  if (held.some((each) => each.has(name))) return true;
  const isMatch = patternOf(name);
  return isMatch !== undefined && held.some(({ names }) => Iterator.from(names).some(isMatch));
}
