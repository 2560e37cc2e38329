/** Redirects and rewrites, whose effect on the path depends on the match. */
import type { HttpRedirect, HttpRewrite, PathModifier, RequestRedirect, UrlRewrite } from '../../../resources/index.ts';
import type { Complaint } from '../conditions.ts';
import { escapeRegex } from './filters.ts';

/** The path of a match. A prefix has no slash at its end; the empty prefix matches every path. */
export interface MatchedPath {
  readonly type: 'exact' | 'regex' | 'prefix';
  readonly value: string;
}

type PathChange =
  | { readonly whole: string }
  | { readonly prefix: string }
  | { readonly regex: { readonly match: string; readonly rewrite: string } };

function pathChange(modifier: PathModifier | undefined, path: MatchedPath): PathChange | Complaint | undefined {
  if (modifier === undefined) return undefined;
  const { type, replaceFullPath, replacePrefixMatch } = modifier;
  if (type === 'ReplaceFullPath' && replaceFullPath !== undefined) return { whole: replaceFullPath };
  if (type !== 'ReplacePrefixMatch' || replacePrefixMatch === undefined || path.type !== 'prefix') {
    const message = `path modifier ${type} is not supported here: ReplacePrefixMatch needs a match of type PathPrefix`;
    return { reason: 'UnsupportedValue', message };
  }
  const replacement = replacePrefixMatch.replace(/\/+$/, '');
  if (replacement === path.value) return undefined;
  // The matched prefix of every path is its first slash, which is replaced with it.
  if (path.value === '') return { prefix: `${replacement}/` };
  if (replacement !== '') return { prefix: replacement };
  // `/a` and `/a/` become `/`, and `/a/b` becomes `/b`.
  return { regex: { match: `^${escapeRegex(path.value)}/*`, rewrite: '/' } };
}

/** @returns undefined where there is nothing to rewrite */
export function toRewrite({ hostname, path }: UrlRewrite, matched: MatchedPath): HttpRewrite | Complaint | undefined {
  const change = pathChange(path, matched);
  if (change !== undefined && 'reason' in change) return change;
  const rewrite: HttpRewrite = {
    ...(hostname === undefined ? {} : { authority: hostname }),
    ...(change === undefined
      ? {}
      : 'prefix' in change
        ? { uri: change.prefix }
        : { uriRegexRewrite: 'regex' in change ? change.regex : wholePath(change.whole) }),
  };
  return Object.keys(rewrite).length === 0 ? undefined : rewrite;
}

function wholePath(path: string): { match: string; rewrite: string } {
  return { match: '^/.*$', rewrite: path.replaceAll('\\', '\\\\') };
}

/** The default status code of a redirect. */
const DEFAULT_REDIRECT = 302;

/** A redirect without its port, which depends on the listener: see {@link redirectPort}. */
export function toRedirect(redirect: RequestRedirect, matched: MatchedPath): HttpRedirect | Complaint {
  const change = pathChange(redirect.path, matched);
  if (change !== undefined && 'reason' in change) return change;
  const { hostname, scheme, statusCode = DEFAULT_REDIRECT } = redirect;
  return {
    redirectCode: statusCode,
    ...(hostname === undefined ? {} : { authority: hostname }),
    ...(scheme === undefined ? {} : { scheme }),
    ...(change === undefined
      ? {}
      : 'whole' in change
        ? { uri: change.whole }
        : 'prefix' in change
          ? { uriPrefix: change.prefix }
          : { uriRegexRewrite: change.regex }),
  };
}

const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443 };

/** The scheme and port of the listener where a redirect is returned. */
export interface ListenerScheme {
  readonly port: number;
  readonly scheme: 'http' | 'https';
}

/**
 * The port in the URL of a redirect: the port of the redirect, else the default port of its scheme, else the port of
 * the listener. URLs omit the default port of the scheme; it still replaces a port in the request's host.
 */
export function redirectPort(
  { port, scheme, hostname }: RequestRedirect,
  listener: ListenerScheme,
): Pick<HttpRedirect, 'port' | 'impliedPort'> {
  const effective = port ?? (scheme === undefined ? listener.port : DEFAULT_PORTS[scheme]);
  if (effective === undefined) return {};
  if (effective !== DEFAULT_PORTS[scheme ?? listener.scheme]) return { port: effective };
  return hostname === undefined ? { impliedPort: effective } : {};
}
