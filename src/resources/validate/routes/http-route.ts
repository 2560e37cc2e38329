/** Validates an HTTP route of a VirtualService: its matches, and its single action. */
import { shown } from '../../parsing/issues.ts';
import type {
  CorsPolicy,
  HttpHeaders,
  HttpMatch,
  HttpRedirect,
  HttpRetries,
  HttpRoute,
} from '../../schema/virtual-service.ts';
import { each, type ValidationErrors } from '../validation-errors.ts';
import {
  checkDuration,
  checkHeaderName,
  checkHeaderText,
  checkHeaderValue,
  checkLabels,
  checkNonEmptyMatch,
  checkOptionalPort,
  checkPercent,
  checkRegex,
  checkStringMatch,
} from '../values.ts';
import { checkDestination, checkWeights } from './route-values.ts';

/** Redirect codes that Envoy supports. */
const REDIRECT_CODES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const METHODS: ReadonlySet<string> = new Set('GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE *'.split(' '));
/** Conditions of Envoy's `x-envoy-retry-on` and `x-envoy-retry-grpc-on`; plain status codes are valid as well. */
const RETRY_ON: ReadonlySet<string> = new Set(
  (
    '5xx gateway-error reset reset-before-request connect-failure envoy-ratelimited retriable-4xx refused-stream ' +
    'retriable-status-codes retriable-headers http3-post-connect-failure ' +
    'cancelled deadline-exceeded internal resource-exhausted unavailable'
  ).split(' '),
);
const GRPC_STATUS: ReadonlySet<string> = new Set(
  (
    'OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED ' +
    'RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS ' +
    'UNAUTHENTICATED'
  ).split(' '),
);

export function checkHttpRoute(route: HttpRoute, errors: ValidationErrors): void {
  checkAction(route, errors);
  each(errors.at('match'), route.match, checkMatch);
  each(errors.at('route'), route.route, (entry, at) => {
    checkDestination(entry.destination, at.at('destination'));
    checkHeaders(entry.headers, at.at('headers'));
  });
  checkWeights(route.route ?? [], errors.at('route'));
  if (route.redirect !== undefined) checkRedirect(route.redirect, errors.at('redirect'));
  if (route.rewrite !== undefined) checkRewrite(route, errors.at('rewrite'));
  checkDuration(errors.at('timeout'), route.timeout === 0 ? undefined : route.timeout);
  if (route.retries !== undefined) checkRetries(route.retries, errors.at('retries'));
  checkFault(route, errors.at('fault'));
  if (route.mirror !== undefined) checkDestination(route.mirror, errors.at('mirror'));
  each(errors.at('mirrors'), route.mirrors, (mirror, at) => {
    checkDestination(mirror.destination, at.at('destination'));
    checkPercent(at.at('percentage'), mirror.percentage?.value);
  });
  if (route.mirror !== undefined && route.mirrors?.length) errors.add(['mirrors'], 'expected either mirror or mirrors');
  checkPercent(errors.at('mirrorPercentage'), route.mirrorPercentage?.value);
  if (route.corsPolicy !== undefined) checkCors(route.corsPolicy, errors.at('corsPolicy'));
  checkHeaders(route.headers, errors.at('headers'));
  checkAuthority(route, errors);
}

/** With two values, the authority of a request would depend on the proxy. */
function checkAuthority({ rewrite, headers }: HttpRoute, errors: ValidationErrors): void {
  let isSet = Boolean(rewrite?.authority);
  for (const operation of ['set', 'add'] as const) {
    for (const name of Object.keys(headers?.request?.[operation] ?? {})) {
      if (!/^(:authority|host)$/i.test(name)) continue;
      if (isSet) errors.addForAuthor(['headers', 'request', operation, name], 'expected one value for the authority');
      isSet = true;
    }
  }
}

/** Exactly one of route, redirect, directResponse, delegate, without fields that it would not use. */
function checkAction(route: HttpRoute, errors: ValidationErrors): void {
  const actions = (['redirect', 'directResponse', 'delegate'] as const).filter((field) => route[field] !== undefined);
  const all = route.route?.length ? ['route', ...actions] : [...actions];
  const [first, second] = all;
  if (first === undefined) errors.add([], 'expected one of route, redirect, directResponse, delegate');
  else if (second !== undefined) errors.add([second], `expected only one of ${all.join(', ')}`);
  if (route.redirect !== undefined || route.directResponse !== undefined) {
    for (const field of ['fault', 'rewrite'] as const) {
      const sendsFault = field === 'fault' && route.directResponse !== undefined;
      if (route[field] !== undefined && !sendsFault)
        errors.add([field], `expected no ${field} together with ${actions.join(', ')}`);
    }
  }
  const status = route.directResponse?.status;
  if (status !== undefined && (status < 200 || status > 599)) {
    errors.add(['directResponse', 'status'], `expected a status from 200 to 599, got ${status}`);
  }
  const body = route.directResponse?.body;
  if (body?.string !== undefined && body.bytes !== undefined) {
    errors.add(['directResponse', 'body'], 'expected either string or bytes');
  }
  if (route.delegate !== undefined && !route.delegate.name)
    errors.add(['delegate', 'name'], 'required, expected a name');
}

function checkMatch(match: HttpMatch, errors: ValidationErrors): void {
  checkNonEmptyMatch(errors.at('uri'), match.uri);
  for (const field of ['scheme', 'method', 'authority'] as const) checkStringMatch(errors.at(field), match[field]);
  for (const field of ['headers', 'withoutHeaders'] as const) {
    for (const [name, value] of Object.entries(match[field] ?? {})) {
      checkHeaderName(errors.at(field), name);
      checkStringMatch(errors.at(field, name), value);
    }
  }
  for (const [name, value] of Object.entries(match.queryParams ?? {})) {
    if (name === '') errors.add(['queryParams'], 'expected a parameter name that is not empty');
    checkStringMatch(errors.at('queryParams', name), value);
  }
  checkOptionalPort(errors.at('port'), match.port);
  checkLabels(errors.at('sourceLabels'), match.sourceLabels);
}

function checkHeaders(headers: HttpHeaders | undefined, errors: ValidationErrors): void {
  if (headers === undefined) return;
  for (const direction of ['request', 'response'] as const) {
    const operations = headers[direction];
    for (const field of ['set', 'add'] as const) {
      for (const [name, value] of Object.entries(operations?.[field] ?? {})) {
        checkHeaderName(errors.at(direction, field), name);
        checkHeaderValue(errors.at(direction, field, name), value);
      }
    }
    each(errors.at(direction, 'remove'), operations?.remove, (name, at) => {
      checkHeaderName(at, name);
      if (name.startsWith(':') || name.toLowerCase() === 'host')
        at.add([], `expected a header that can be removed, got ${shown(name)}`);
    });
  }
}

function checkRedirect(redirect: HttpRedirect, errors: ValidationErrors): void {
  const { uri, authority, redirectCode, scheme, port, derivePort } = redirect;
  if (!uri && !authority && !scheme && redirectCode === undefined && port === undefined && derivePort === undefined) {
    errors.add([], 'expected at least one of uri, authority, port, derivePort, scheme, redirectCode');
  }
  if (redirectCode !== undefined && redirectCode !== 0 && !REDIRECT_CODES.has(redirectCode)) {
    errors.add(['redirectCode'], `expected one of ${[...REDIRECT_CODES].join(', ')}, got ${redirectCode}`);
  }
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') {
    errors.add(['scheme'], `expected http or https, got ${shown(scheme)}`);
  }
  checkHeaderText(errors.at('uri'), uri);
  checkHeaderText(errors.at('authority'), authority);
  checkOptionalPort(errors.at('port'), port);
  if (port !== undefined && derivePort !== undefined) errors.add(['derivePort'], 'expected either port or derivePort');
}

function checkRewrite(route: HttpRoute, errors: ValidationErrors): void {
  const { uri, authority, uriRegexRewrite } = route.rewrite ?? {};
  if (!uri && !authority && uriRegexRewrite === undefined) {
    errors.add([], 'expected at least one of uri, authority, uriRegexRewrite');
  }
  checkHeaderText(errors.at('uri'), uri);
  checkHeaderText(errors.at('authority'), authority);
  if (uriRegexRewrite === undefined) return;
  if (uri) errors.add(['uriRegexRewrite'], 'expected either uri or uriRegexRewrite');
  checkRegex(errors.at('uriRegexRewrite', 'match'), uriRegexRewrite.match);
  checkHeaderText(errors.at('uriRegexRewrite', 'rewrite'), uriRegexRewrite.rewrite);
}

function checkRetries(retries: HttpRetries, errors: ValidationErrors): void {
  const { attempts = 0, perTryTimeout, retryOn, backoff } = retries;
  if (attempts < 0) errors.add(['attempts'], `expected a number of at least 0, got ${attempts}`);
  if (attempts === 0 && (perTryTimeout !== undefined || retryOn !== undefined || backoff !== undefined)) {
    errors.add(['attempts'], 'expected a number above 0 when perTryTimeout, retryOn or backoff is set');
  }
  checkDuration(errors.at('perTryTimeout'), perTryTimeout === 0 ? undefined : perTryTimeout);
  checkDuration(errors.at('backoff'), backoff);
  for (const condition of (retryOn ?? '').split(',').map((each) => each.trim())) {
    const isStatus = /^[1-5]\d\d$/.test(condition);
    if (condition !== '' && !isStatus && !RETRY_ON.has(condition)) {
      errors.add(['retryOn'], `expected retry conditions of Envoy or status codes, got ${shown(condition)}`);
    }
  }
}

function checkFault(route: HttpRoute, errors: ValidationErrors): void {
  const { delay, abort } = route.fault ?? {};
  if (route.fault !== undefined && delay === undefined && abort === undefined)
    errors.add([], 'expected delay or abort');
  if (delay !== undefined) {
    if (delay.fixedDelay === undefined && delay.exponentialDelay === undefined) {
      errors.add(['delay', 'fixedDelay'], 'required, expected a duration such as "1.5s"');
    }
    checkDuration(errors.at('delay', 'fixedDelay'), delay.fixedDelay);
    checkDuration(errors.at('delay', 'exponentialDelay'), delay.exponentialDelay);
    checkPercent(errors.at('delay', 'percentage'), delay.percentage?.value);
  }
  if (abort === undefined) return;
  checkPercent(errors.at('abort', 'percentage'), abort.percentage?.value);
  const kinds = (['httpStatus', 'grpcStatus', 'http2Error'] as const).filter((field) => abort[field] !== undefined);
  if (kinds.length !== 1) errors.add(['abort'], 'expected exactly one of httpStatus, grpcStatus');
  const { httpStatus, grpcStatus } = abort;
  if (httpStatus !== undefined && (httpStatus < 200 || httpStatus > 599)) {
    errors.add(['abort', 'httpStatus'], `expected a status from 200 to 599, got ${httpStatus}`);
  }
  if (grpcStatus !== undefined && !GRPC_STATUS.has(grpcStatus)) {
    errors.add(['abort', 'grpcStatus'], `expected the name of a gRPC status, got ${shown(grpcStatus)}`);
  }
  if (abort.http2Error !== undefined)
    errors.add(['abort', 'http2Error'], 'HTTP/2 error aborts are not supported by Envoy');
}

function checkCors(policy: CorsPolicy, errors: ValidationErrors): void {
  each(errors.at('allowOrigins'), policy.allowOrigins, (origin, at) => checkStringMatch(at, origin));
  each(errors.at('allowMethods'), policy.allowMethods, (method, at) => {
    if (!METHODS.has(method)) at.add([], `expected an HTTP method, got ${shown(method)}`);
  });
  for (const field of ['allowHeaders', 'exposeHeaders'] as const) {
    each(errors.at(field), policy[field], (name, at) => checkHeaderName(at, name));
  }
  const { maxAge } = policy;
  if (maxAge !== undefined && (maxAge < 0 || maxAge % 1000 !== 0)) errors.add(['maxAge'], 'expected whole seconds');
}
