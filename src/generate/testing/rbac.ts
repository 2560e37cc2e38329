/**
 * Envoy's RBAC filters as far as the tests need them: their decision on a request, computed from the encoded messages
 * alone. The behavior of each matcher was determined with the real Envoy (several headers of one name, names of
 * certificates, values of metadata).
 */
import { createRequire } from 'node:module';
import { BlockList, isIPv6 } from 'node:net';
import { isObject } from '../../core/objects.ts';
import { envoy } from '../../protobuf/index.ts';
import type { HttpFilter } from '../policies/types.ts';

const { RE2JS } = createRequire(import.meta.url)('re2js') as typeof import('re2js');

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A request, or a connection when the filters are those of connections. */
export interface Request {
  /** URIs of the client's certificate; without mutual TLS undefined. */
  readonly peer?: readonly string[];
  readonly from?: string;
  /** The client's address from headers; that of the peer when absent. */
  readonly client?: string;
  readonly to?: string;
  readonly port?: number;
  readonly sni?: string;
  readonly method?: string;
  readonly host?: string;
  /** With query. */
  readonly path?: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** The payload of a verified token. */
  readonly token?: { readonly [claim: string]: Json };
  /** Of all other filters. */
  readonly metadata?: { readonly [field: string]: Json };
}

type Rbac = envoy.config.rbac.v3.RBAC;
type Principal = envoy.config.rbac.v3.Principal;
type Permission = envoy.config.rbac.v3.Permission;
type Text = envoy.type.matcher.v3.StringMatcher;
type Header = envoy.config.route.v3.HeaderMatcher;
type Metadata = envoy.type.matcher.v3.MetadataMatcher;
type Range = envoy.config.core.v3.CidrRange;

/** Whether all filters let it pass. Marking filters do; filters that call an authorizer are not supported here. */
export function passes(filters: readonly HttpFilter[], request: Request): boolean {
  return filters.every((filter) => {
    const { rules } = decode(filter);
    if (rules === null) return true;
    const { ALLOW, DENY } = envoy.config.rbac.v3.RBAC.Action;
    if (rules.action === ALLOW) return matches(rules, request);
    return rules.action === DENY ? !matches(rules, request) : true;
  });
}

export function decode({ name, typedConfig }: HttpFilter) {
  const bytes = typedConfig?.value as Uint8Array;
  const { http, network } = envoy.extensions.filters;
  if (name === 'envoy.filters.http.rbac') return http.rbac.v3.RBAC.decode(bytes);
  if (name === 'envoy.filters.network.rbac') return network.rbac.v3.RBAC.decode(bytes);
  throw new Error(`${name} is not an RBAC filter`);
}

/** Whether some policy of the rules matches. */
export function matches({ policies }: Rbac, request: Request): boolean {
  return Object.values(policies).some(
    ({ permissions, principals }) =>
      permissions.some((permission) => isAsked(permission, request)) &&
      principals.some((principal) => matchesPrincipal(principal, request)),
  );
}

function matchesPrincipal(principal: Principal, request: Request): boolean {
  switch (principal.identifier) {
    case 'any':
      return true;
    case 'andIds':
      return some(principal.andIds).ids.every((id) => matchesPrincipal(id, request));
    case 'orIds':
      return some(principal.orIds).ids.some((id) => matchesPrincipal(id, request));
    case 'notId':
      return !matchesPrincipal(some(principal.notId), request);
    case 'authenticated': {
      const name = some(some(principal.authenticated).principalName);
      // The subject of the mesh's certificates is empty.
      return request.peer !== undefined && [...request.peer, ''].some((uri) => textMatches(name, uri));
    }
    case 'directRemoteIp':
      return isIn(some(principal.directRemoteIp), request.from ?? '127.0.0.1');
    case 'remoteIp':
      return isIn(some(principal.remoteIp), request.client ?? request.from ?? '127.0.0.1');
    case 'header':
      return hasHeader(some(principal.header), request);
    case 'metadata':
      return hasMetadata(some(principal.metadata), request);
    default:
      throw new Error(`unexpected principal ${principal.identifier}`);
  }
}

function isAsked(permission: Permission, request: Request): boolean {
  switch (permission.rule) {
    case 'any':
      return true;
    case 'andRules':
      return some(permission.andRules).rules.every((rule) => isAsked(rule, request));
    case 'orRules':
      return some(permission.orRules).rules.some((rule) => isAsked(rule, request));
    case 'notRule':
      return !isAsked(some(permission.notRule), request);
    case 'header':
      return hasHeader(some(permission.header), request);
    case 'urlPath': {
      const [path = ''] = (request.path ?? '/').split(/[?#]/);
      return textMatches(some(some(permission.urlPath).path), path);
    }
    case 'destinationIp':
      return isIn(some(permission.destinationIp), request.to ?? '127.0.0.1');
    case 'destinationPort':
      return permission.destinationPort === (request.port ?? 80);
    case 'requestedServerName':
      return textMatches(some(permission.requestedServerName), request.sni ?? '');
    default:
      throw new Error(`unexpected permission ${permission.rule}`);
  }
}

/** Envoy's RE2 compares bytes. */
const bytes = (text: string) => Buffer.from(text).toString('latin1');

function textMatches(matcher: Text, text: string): boolean {
  const fold = (value: string) => (matcher.ignoreCase ? value.toLowerCase() : value);
  switch (matcher.matchPattern) {
    case 'exact':
      return fold(text) === fold(some(matcher.exact));
    case 'prefix':
      return fold(text).startsWith(fold(filled(matcher.prefix)));
    case 'suffix':
      return fold(text).endsWith(fold(filled(matcher.suffix)));
    case 'contains':
      return fold(text).includes(fold(filled(matcher.contains)));
    case 'safeRegex':
      return RE2JS.compile(bytes(some(matcher.safeRegex).regex)).matches(bytes(text));
    default:
      throw new Error(`unexpected text match ${matcher.matchPattern}`);
  }
}

/** One of several headers is enough; `presentMatch` requires any. */
function hasHeader(matcher: Header, { host = '', method = 'GET', path = '/', headers = [] }: Request): boolean {
  const pseudo: readonly (readonly [string, string])[] = [
    [':authority', host],
    [':method', method],
    [':path', path],
  ];
  const values = [...pseudo, ...headers].filter(([name]) => name === matcher.name).map(([, value]) => value);
  if (matcher.headerMatchSpecifier === 'presentMatch') return values.length > 0;
  const text = some(matcher.stringMatch);
  return values.some((value) => textMatches(text, value));
}

function hasMetadata({ filter, path, value }: Metadata, { token, metadata }: Request): boolean {
  const payload = token === undefined ? undefined : { payload: token };
  let at: Json | undefined = filter === 'envoy.filters.http.jwt_authn' ? payload : metadata;
  for (const { key } of path) {
    const within: Json | undefined = at;
    at = isObject(within) && Object.hasOwn(within, some(key)) ? within[some(key)] : undefined;
  }
  return valueMatches(some(value), at);
}

function valueMatches(matcher: envoy.type.matcher.v3.ValueMatcher, value: Json | undefined): boolean {
  switch (matcher.matchPattern) {
    case 'presentMatch':
      return ['string', 'number', 'boolean'].includes(typeof value);
    case 'stringMatch':
      return typeof value === 'string' && textMatches(some(matcher.stringMatch), value);
    case 'listMatch': {
      const { oneOf } = some(matcher.listMatch);
      return Array.isArray(value) && value.some((item: Json) => valueMatches(some(oneOf), item));
    }
    case 'orMatch': {
      const { valueMatchers } = some(matcher.orMatch);
      if (valueMatchers.length < 2) throw new Error('Envoy wants two alternatives at least');
      return valueMatchers.some((each) => valueMatches(each, value));
    }
    default:
      throw new Error(`unexpected value match ${matcher.matchPattern}`);
  }
}

function isIn({ addressPrefix, prefixLen }: Range, address: string): boolean {
  const list = new BlockList();
  list.addSubnet(addressPrefix, prefixLen?.value ?? 0, isIPv6(addressPrefix) ? 'ipv6' : 'ipv4');
  return isIPv6(addressPrefix) === isIPv6(address) && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

function some<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('a field is missing');
  return value;
}

/** Envoy refuses empty prefixes and suffixes. */
function filled(text: string | null): string {
  if (!text) throw new Error('an empty prefix or suffix');
  return text;
}
