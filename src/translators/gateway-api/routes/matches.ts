/** Matches of HTTPRoute and GRPCRoute rules as matches of a virtual service, with their precedence. */
import {
  derivedMatchProblem,
  type GrpcRouteMatch,
  type HttpMatch,
  type HttpRouteMatch,
  type NamedMatch,
  type StringMatch,
} from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import type { Precedence } from '../precedence.ts';
import { escapeRegex } from './filters.ts';
import type { MatchedPath } from './paths.ts';

export interface CompiledMatch extends Omit<Precedence, 'path'> {
  /** Undefined: every request. */
  readonly match: HttpMatch | undefined;
  readonly path: MatchedPath;
  /** Why Envoy cannot compare the match. */
  readonly problem: string | undefined;
}

const ROOT: MatchedPath = { type: 'prefix', value: '' };

export interface CompiledMatches {
  /** The matches that Envoy can compare. */
  readonly matches: readonly CompiledMatch[];
  /** Why Envoy cannot compare the others. */
  readonly unsupported: Complaint | undefined;
}

export function httpMatches(matches: readonly HttpRouteMatch[]): CompiledMatches {
  return separated(matches.length === 0 ? [compiled({}, ROOT, ROOT.value.length + 1)] : matches.map(httpMatch));
}

function httpMatch({ path, headers = [], queryParams = [], method }: HttpRouteMatch): CompiledMatch | Complaint {
  const matched = httpPath(path);
  if ('reason' in matched) return matched;
  const fields = namedFields(headers, queryParams);
  if ('reason' in fields) return fields;
  const match: HttpMatch = {
    ...pathField(matched),
    ...(method === undefined ? {} : { method: { exact: method } }),
    ...fields,
  };
  return compiled(match, matched, path?.value?.length ?? 1);
}

function httpPath(path: HttpRouteMatch['path']): MatchedPath | Complaint {
  const { type = 'PathPrefix', value = '/' } = path ?? {};
  switch (type) {
    case 'Exact':
      return { type: 'exact', value };
    case 'PathPrefix':
      return { type: 'prefix', value: value.replace(/\/+$/, '') };
    case 'RegularExpression':
      return { type: 'regex', value };
    default:
      return unsupported(`path matches of type ${type} are not supported`);
  }
}

function pathField({ type, value }: MatchedPath): HttpMatch {
  if (type === 'exact') return { uri: { exact: value } };
  if (type === 'regex') return { uri: { regex: value } };
  return value === '' ? {} : { pathPrefix: value };
}

function compiled(match: HttpMatch, path: MatchedPath, length: number): CompiledMatch {
  const isEmpty = Object.keys(match).length === 0;
  return {
    match: isEmpty ? undefined : match,
    path,
    problem: isEmpty ? undefined : derivedMatchProblem(match),
    length,
    method: match.method !== undefined,
    headers: Object.keys(match.headers ?? {}).length,
    parameters: Object.keys(match.queryParams ?? {}).length,
  };
}

type NamedFields = Pick<HttpMatch, 'headers' | 'queryParams'>;

function namedFields(headers: readonly NamedMatch[], parameters: readonly NamedMatch[]): NamedFields | Complaint {
  const byHeader = new Map<string, StringMatch>();
  const byParameter = new Map<string, StringMatch>();
  const all = [
    ...headers.map((each) => ({ each, name: each.name.toLowerCase(), into: byHeader })),
    ...parameters.map((each) => ({ each, name: each.name, into: byParameter })),
  ];
  for (const { each, name, into } of all) {
    const match = valueMatch(each);
    if ('reason' in match) return match;
    // The first of several matches with one name is used.
    if (!into.has(name)) into.set(name, match);
  }
  return {
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(byHeader) }),
    ...(parameters.length === 0 ? {} : { queryParams: Object.fromEntries(byParameter) }),
  };
}

function valueMatch({ type = 'Exact', name, value }: NamedMatch): StringMatch | Complaint {
  if (type === 'Exact') return { exact: value };
  if (type === 'RegularExpression') return { regex: value };
  return unsupported(`${name}: matches of type ${type} are not supported`);
}

/** The path of a gRPC request is `/<service>/<method>` (gRPC over HTTP/2). */
export function grpcMatches(matches: readonly GrpcRouteMatch[]): CompiledMatches {
  return separated(matches.length === 0 ? [compiled({}, ROOT, 0)] : matches.map(grpcMatch));
}

function grpcMatch({ method, headers = [] }: GrpcRouteMatch): CompiledMatch | Complaint {
  const path = grpcPath(method);
  if ('reason' in path) return path;
  const fields = namedFields(headers, []);
  if ('reason' in fields) return fields;
  const length = (method?.service?.length ?? 0) + (method?.method?.length ?? 0);
  return compiled({ ...pathField(path), ...fields }, path, length);
}

function grpcPath(written: GrpcRouteMatch['method']): MatchedPath | Complaint {
  const { type = 'Exact', service = '', method = '' } = written ?? {};
  if (service === '' && method === '') return ROOT;
  if (type === 'Exact') {
    if (method === '') return { type: 'prefix', value: `/${service}` };
    if (service === '') return { type: 'regex', value: `/[^/]+/${escapeRegex(method)}` };
    return { type: 'exact', value: `/${service}/${method}` };
  }
  if (type !== 'RegularExpression') return unsupported(`method matches of type ${type} are not supported`);
  const part = (regex: string): string => (regex === '' ? '[^/]+' : `(?:${regex})`);
  return { type: 'regex', value: `/${part(service)}/${part(method)}` };
}

function unsupported(message: string): Complaint {
  return { reason: 'UnsupportedValue', message };
}

function separated(results: readonly (CompiledMatch | Complaint)[]): CompiledMatches {
  return {
    matches: results.flatMap((result) => ('reason' in result ? [] : result)),
    unsupported: results.find((result) => 'reason' in result),
  };
}
