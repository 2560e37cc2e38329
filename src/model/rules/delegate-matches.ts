/**
 * Merges the matches of a delegate's route with those of the route that delegates to it. A delegate may only narrow
 * matches: each of its matches must be contained in a match of the root, otherwise the route is left out
 * (https://istio.io/latest/docs/reference/config/networking/virtual-service/#Delegate).
 */
import type { HeaderMatch, HttpMatch, StringMatch } from '../../resources/index.ts';

type Matches = readonly HttpMatch[] | undefined;
type Named = Readonly<Record<string, HeaderMatch>> | undefined;

/** More pairs of matches are not compared: see `MAX_ROUTES` of delegates.ts. */
export const MAX_PAIRS = 100_000;

/** The merged matches; undefined if a match of the delegate is not contained in a match of the root. */
export function mergeMatches(root: Matches, delegate: Matches): HttpMatch[] | undefined {
  if (root === undefined || root.length === 0) return [...(delegate ?? [])];
  if (delegate === undefined || delegate.length === 0) return [...root];
  const merged: HttpMatch[] = [];
  for (const part of delegate) {
    const wholes = root.filter((whole) => isPart(whole, part));
    if (wholes.length === 0) return undefined;
    for (const whole of wholes) merged.push(mergeMatch(whole, part));
  }
  return merged;
}

export function joinNames(root: string | undefined, delegate: string | undefined): string | undefined {
  return root && delegate ? `${root}-${delegate}` : delegate || root;
}

function mergeMatch(root: HttpMatch, delegate: HttpMatch): HttpMatch {
  const name = joinNames(root.name, delegate.name);
  const headers = both(root.headers, delegate.headers);
  const withoutHeaders = both(root.withoutHeaders, delegate.withoutHeaders);
  const queryParams = both(root.queryParams, delegate.queryParams);
  const sourceLabels = both(root.sourceLabels, delegate.sourceLabels);
  const gateways = delegate.gateways?.length ? delegate.gateways : root.gateways;
  return {
    ...root,
    ...delegate,
    ...(name === undefined ? {} : { name }),
    ...(headers && { headers }),
    ...(withoutHeaders && { withoutHeaders }),
    ...(queryParams && { queryParams }),
    ...(sourceLabels && { sourceLabels }),
    ...(gateways && { gateways }),
    ...(root.port && !delegate.port ? { port: root.port } : {}),
    ...(root.sourceNamespace && !delegate.sourceNamespace ? { sourceNamespace: root.sourceNamespace } : {}),
  };
}

function both<T>(
  root: Readonly<Record<string, T>> | undefined,
  delegate: Readonly<Record<string, T>> | undefined,
): Record<string, T> | undefined {
  return root === undefined && delegate === undefined ? undefined : { ...root, ...delegate };
}

/** Whether `part` can only narrow what `whole` matches. */
function isPart(whole: HttpMatch, part: HttpMatch): boolean {
  if ((whole.ignoreUriCase === true) !== (part.ignoreUriCase === true)) return false;
  if (whole.port && part.port && whole.port !== part.port) return false;
  if (whole.sourceNamespace && part.sourceNamespace && whole.sourceNamespace !== part.sourceNamespace) return false;
  const labels = Object.entries(part.sourceLabels ?? {});
  if (labels.some(([key, value]) => (ownValue(whole.sourceLabels, key) ?? value) !== value)) return false;
  if (whole.gateways?.length && part.gateways?.some((name) => !whole.gateways?.includes(name))) return false;
  return (
    (['uri', 'scheme', 'method', 'authority'] as const).every((field) => covers(whole[field], part[field])) &&
    namedParts(whole.headers, part.headers, covers) &&
    namedParts(whole.queryParams, part.queryParams, covers) &&
    // Headers that the root excludes stay excluded.
    namedParts(whole.withoutHeaders, part.withoutHeaders, (outer, inner) => covers(inner, outer))
  );
}

function namedParts(
  whole: Named,
  part: Named,
  isCovered: (whole: HeaderMatch | undefined, part: HeaderMatch | undefined) => boolean,
): boolean {
  return Object.entries(part ?? {}).every(([name, match]) => {
    const outer = ownValue(whole, name);
    return outer === undefined || isCovered(outer, match);
  });
}

function ownValue<T>(record: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined;
}

type Match = StringMatch | HeaderMatch | undefined;

/** Whether `whole` matches every value that `part` matches. An absent match matches everything. */
function covers(whole: Match, part: Match): boolean {
  if (whole === undefined || part === undefined || 'present' in whole) return true;
  if ('present' in part) return false;
  if ('regex' in whole || 'regex' in part) return 'regex' in whole && 'regex' in part && whole.regex === part.regex;
  if ('exact' in whole) return 'exact' in part && part.exact === whole.exact;
  return ('exact' in part ? part.exact : part.prefix).startsWith(whole.prefix);
}
