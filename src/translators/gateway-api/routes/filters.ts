/** Filters of HTTPRoute and GRPCRoute, as fields of a virtual service's route. */
import type {
  Cors,
  CorsPolicy,
  HeaderFilter,
  HeaderOperations,
  HttpHeaders,
  HttpRoute,
  RequestMirror,
  RouteFilter,
  StringMatch,
} from '../../../resources/index.ts';
import { type Backend, type BackendContext, resolveBackend } from '../backends/backends.ts';
import type { Complaint } from '../conditions.ts';

export interface FilterResult {
  /** Redirects and rewrites are in `redirect` and `rewrite`: their paths depend on the match. */
  readonly fields: Pick<HttpRoute, 'headers' | 'mirrors' | 'corsPolicy'>;
  readonly redirect: RouteFilter['requestRedirect'];
  readonly rewrite: RouteFilter['urlRewrite'];
  /** The backends of mirrors. */
  readonly backends: readonly Backend[];
  /** A filter that is not supported: requests of the rule are rejected. */
  readonly unsupported: Complaint | undefined;
  /** References that cannot be resolved. `isFatal`: requests of the rule are rejected. */
  readonly unresolved: (Complaint & { readonly isFatal: boolean }) | undefined;
}

export function readFilters(context: BackendContext, filters: readonly RouteFilter[]): FilterResult {
  const headers: HttpHeaders[] = [];
  const mirrors: NonNullable<HttpRoute['mirrors']> = [];
  const backends: Backend[] = [];
  let result: FilterResult = {
    fields: {},
    redirect: undefined,
    rewrite: undefined,
    backends,
    unsupported: undefined,
    unresolved: undefined,
  };
  for (const filter of filters) {
    const { requestHeaderModifier, responseHeaderModifier, requestMirror, requestRedirect, urlRewrite, cors } = filter;
    if (filter.type === 'RequestHeaderModifier' && requestHeaderModifier !== undefined) {
      headers.push({ request: headerOperations(requestHeaderModifier) });
    } else if (filter.type === 'ResponseHeaderModifier' && responseHeaderModifier !== undefined) {
      headers.push({ response: headerOperations(responseHeaderModifier) });
    } else if (filter.type === 'RequestMirror' && requestMirror !== undefined) {
      const backend = resolveBackend(context, requestMirror.backendRef);
      if ('reason' in backend) result = { ...result, unresolved: result.unresolved ?? { ...backend, isFatal: false } };
      else {
        backends.push(backend);
        mirrors.push(mirrorTo(backend, requestMirror));
      }
    } else if (filter.type === 'RequestRedirect' && requestRedirect !== undefined) {
      result = { ...result, redirect: requestRedirect };
    } else if (filter.type === 'URLRewrite' && urlRewrite !== undefined) result = { ...result, rewrite: urlRewrite };
    else if (filter.type === 'CORS' && cors !== undefined) {
      result = { ...result, fields: { ...result.fields, corsPolicy: corsPolicy(cors) } };
    } else if (filter.type === 'ExtensionRef') {
      result = { ...result, unresolved: { ...unknownExtension(filter), isFatal: true } };
    } else result = { ...result, unsupported: unsupportedFilter(filter) };
  }
  const merged = mergedHeaders(headers);
  const fields = {
    ...result.fields,
    ...(merged === undefined ? {} : { headers: merged }),
    ...(mirrors.length === 0 ? {} : { mirrors }),
  };
  const both = result.redirect !== undefined && result.rewrite !== undefined;
  return { ...result, fields, unsupported: both ? INCOMPATIBLE : result.unsupported };
}

const INCOMPATIBLE: Complaint = {
  reason: 'IncompatibleFilters',
  message: 'a rule cannot have both RequestRedirect and URLRewrite',
};

function unknownExtension({ extensionRef }: RouteFilter): Complaint {
  const { group = '', kind = '', name = '' } = extensionRef ?? {};
  return { reason: 'InvalidKind', message: `filter ${kind}.${group} ${name}: no such kind of filter is supported` };
}

function unsupportedFilter({ type }: RouteFilter): Complaint {
  return { reason: 'UnsupportedValue', message: `filter ${type} is not supported here, or incomplete` };
}

/** The headers that filters of a single backend change; other filters are not supported there. */
export function backendHeaders(filters: readonly RouteFilter[]): HttpHeaders | Complaint | undefined {
  const headers: HttpHeaders[] = [];
  for (const filter of filters) {
    const { type, requestHeaderModifier, responseHeaderModifier } = filter;
    if (type === 'RequestHeaderModifier' && requestHeaderModifier !== undefined) {
      headers.push({ request: headerOperations(requestHeaderModifier) });
    } else if (type === 'ResponseHeaderModifier' && responseHeaderModifier !== undefined) {
      headers.push({ response: headerOperations(responseHeaderModifier) });
    } else return unsupportedFilter(filter);
  }
  return mergedHeaders(headers);
}

function headerOperations({ set, add, remove }: HeaderFilter): HeaderOperations {
  return {
    ...(set === undefined ? {} : { set: byName(set) }),
    ...(add === undefined ? {} : { add: byName(add) }),
    ...(remove === undefined ? {} : { remove: [...remove] }),
  };
}

/** The first of several entries with one name is used. Envoy would replace commands such as `%REQ(x-id)%` in values. */
function byName(entries: readonly { readonly name: string; readonly value: string }[]): Record<string, string> {
  const values = new Map<string, string>();
  for (const { name, value } of entries) {
    const lower = name.toLowerCase();
    if (!values.has(lower)) values.set(lower, value.replaceAll('%', '%%'));
  }
  return Object.fromEntries(values);
}

function mergedHeaders(all: readonly HttpHeaders[]): HttpHeaders | undefined {
  if (all.length === 0) return undefined;
  const request = mergedOperations(all.flatMap((headers) => headers.request ?? []));
  const response = mergedOperations(all.flatMap((headers) => headers.response ?? []));
  return { ...(request === undefined ? {} : { request }), ...(response === undefined ? {} : { response }) };
}

function mergedOperations(all: readonly HeaderOperations[]): HeaderOperations | undefined {
  const [only, ...others] = all;
  if (only === undefined || others.length === 0) return only;
  return {
    set: Object.assign({}, ...all.map(({ set }) => set)),
    add: Object.assign({}, ...all.map(({ add }) => add)),
    remove: all.flatMap(({ remove }) => remove ?? []),
  };
}

function mirrorTo(backend: Backend, { percent, fraction }: RequestMirror): NonNullable<HttpRoute['mirrors']>[number] {
  const destination = { host: backend.host, port: { number: backend.port } };
  const value = fraction === undefined ? percent : (100 * fraction.numerator) / (fraction.denominator ?? 100);
  return { destination, ...(value === undefined ? {} : { percentage: { value } }) };
}

/** The API's default time for which browsers cache the response to a preflight request, seconds. */
const CORS_MAX_AGE = 5;

function corsPolicy(cors: Cors): CorsPolicy {
  const {
    allowOrigins = [],
    allowMethods,
    allowHeaders,
    exposeHeaders,
    allowCredentials,
    maxAge = CORS_MAX_AGE,
  } = cors;
  // For requests with credentials, browsers interpret `*` literally (Fetch standard, 3.3.4).
  const isAnyWithCredentials = allowCredentials === true && exposeHeaders?.includes('*') === true;
  return {
    allowOrigins: allowOrigins.map(originMatch),
    ...(allowMethods === undefined ? {} : { allowMethods: [...allowMethods] }),
    ...(allowHeaders === undefined ? {} : { allowHeaders: [...allowHeaders] }),
    ...(exposeHeaders === undefined || isAnyWithCredentials ? {} : { exposeHeaders: [...exposeHeaders] }),
    ...(allowCredentials === undefined ? {} : { allowCredentials }),
    maxAge: maxAge * 1000,
    unmatchedPreflights: 'IGNORE',
  };
}

/** `*` is any origin; `https://*.example.com` is every host below example.com. */
function originMatch(origin: string): StringMatch {
  if (origin === '*') return { regex: '.*' };
  const [before = '', after] = origin.split('*', 2);
  if (after === undefined) return { exact: origin };
  return { regex: `${escapeRegex(before)}[-._a-zA-Z0-9]+${escapeRegex(after)}` };
}

/** An RE2 expression that matches exactly this string. */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
}
