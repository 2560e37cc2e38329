import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { SCHEMAS } from '../../resources/kinds/schemas.ts';
import {
  ALL_FEATURES,
  contextOf,
  NO_LOOKUPS,
  REVIEWS,
  routeOf,
  routesOf,
  TO_REVIEWS,
  virtualServiceOf,
} from '../testing/routes.ts';
import { hasRoutes, joinRoutes } from './http-route.ts';

const RATINGS = 'ratings.default.svc.cluster.local';

describe('destinations', () => {
  test('port of the request when nothing else is known', () => {
    assert.equal(routeOf({ route: TO_REVIEWS }).route?.cluster, `outbound|9080||${REVIEWS}`);
  });
  test("a service's only port", () => {
    const lookups = { ...NO_LOOKUPS, onlyPort: () => 8000 };
    assert.equal(routeOf({ route: TO_REVIEWS }, { lookups }).route?.cluster, `outbound|8000||${REVIEWS}`);
  });
  test('port and subset as written', () => {
    const route = [{ destination: { host: REVIEWS, subset: 'v2', port: { number: 81 } } }];
    assert.equal(routeOf({ route }).route?.cluster, `outbound|81|v2|${REVIEWS}`);
  });
  test('weights share requests; a destination of weight 0 gets none', () => {
    const route = [
      { destination: { host: REVIEWS, subset: 'v1' }, weight: 75 },
      { destination: { host: REVIEWS, subset: 'v2' }, weight: 25 },
      { destination: { host: REVIEWS, subset: 'v3' }, weight: 0 },
    ];
    assert.deepEqual(routeOf({ route }).route?.weightedClusters?.clusters, [
      { name: `outbound|9080|v1|${REVIEWS}`, weight: { value: 75 } },
      { name: `outbound|9080|v2|${REVIEWS}`, weight: { value: 25 } },
    ]);
  });
  test('one destination of all the weight is a plain cluster', () => {
    const route = [
      { destination: { host: REVIEWS, subset: 'v1' }, weight: 100 },
      { destination: { host: REVIEWS, subset: 'v2' }, weight: 0 },
    ];
    assert.equal(routeOf({ route }).route?.cluster, `outbound|9080|v1|${REVIEWS}`);
  });
  test('without weights all share equally: Envoy refuses a sum of 0', () => {
    const route = [{ destination: { host: REVIEWS } }, { destination: { host: RATINGS } }];
    const weights = routeOf({ route }).route?.weightedClusters?.clusters?.map(({ weight }) => weight?.value);
    assert.deepEqual(weights, [1, 1]);
  });
  test('weights beyond 32 bits in sum are scaled down to fit', () => {
    const destination = { host: REVIEWS };
    const route = [1, 2, 3].map(() => ({ destination, weight: 0x7fffffff }));
    const weights = routeOf({ route }).route?.weightedClusters?.clusters?.map(({ weight }) => weight?.value ?? 0);
    assert.ok((weights ?? []).reduce((a, b) => a + b, 0) <= 0xffffffff);
    assert.equal(new Set(weights).size, 1);
  });
});

describe('time limits', () => {
  const timeoutOf = (http: object, defaultTimeoutMs: number) =>
    routeOf({ route: TO_REVIEWS, ...http }, { defaultTimeoutMs }).route?.timeout;
  test('none by default: written as 0s, because Envoy defaults to 15 s', () => {
    assert.deepEqual(timeoutOf({}, 0), { seconds: 0, nanos: 0 });
  });
  test("the program's default", () => assert.deepEqual(timeoutOf({}, 2500), { seconds: 2, nanos: 500_000_000 }));
  test('as written, over the default', () =>
    assert.deepEqual(timeoutOf({ timeout: '1s' }, 2500), { seconds: 1, nanos: 0 }));
  test('0s switches the default off', () =>
    assert.deepEqual(timeoutOf({ timeout: '0s' }, 2500), { seconds: 0, nanos: 0 }));
});

test('only a route without a time limit lets gRPC clients set theirs: with both, Envoy would ignore the limit', () => {
  const durationOf = (http: object) => routeOf({ route: TO_REVIEWS, ...http }).route?.maxStreamDuration;
  assert.deepEqual(durationOf({}), { grpcTimeoutHeaderMax: { seconds: 0, nanos: 0 } });
  assert.equal(durationOf({ timeout: '1s' }), undefined);
});

describe('retries', () => {
  const retriesOf = (retries: unknown) =>
    routeOf({ route: TO_REVIEWS, ...(retries ? { retries } : {}) }).route?.retryPolicy;
  test('two by default, on other hosts', () => {
    const policy = retriesOf(undefined);
    assert.equal(policy?.retryOn, 'connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes');
    assert.deepEqual(policy?.numRetries, { value: 2 });
    assert.deepEqual(policy?.retriableStatusCodes, [503]);
    assert.equal(policy?.retryHostPredicate?.[0]?.name, 'envoy.retry_host_predicates.previous_hosts');
  });
  test('0 attempts: none', () => assert.equal(retriesOf({ attempts: 0 }), undefined));
  test('attempts, time per try, back-off', () => {
    const policy = retriesOf({ attempts: 5, perTryTimeout: '2s', backoff: '100ms' });
    assert.deepEqual(policy?.numRetries, { value: 5 });
    assert.deepEqual(policy?.perTryTimeout, { seconds: 2, nanos: 0 });
    assert.deepEqual(policy?.retryBackOff?.baseInterval, { seconds: 0, nanos: 100_000_000 });
  });
  test('numbers in retryOn are status codes', () => {
    const policy = retriesOf({ attempts: 1, retryOn: 'gateway-error, 429,503' });
    assert.equal(policy?.retryOn, 'gateway-error,retriable-status-codes');
    assert.deepEqual(policy?.retriableStatusCodes, [429, 503]);
  });
  test('other localities on demand', () => {
    const policy = retriesOf({ attempts: 1, retryRemoteLocalities: true });
    assert.equal(policy?.retryPriority?.name, 'envoy.retry_priorities.previous_priorities');
  });
  test('a proxy without the host predicate does not get it', () => {
    const route = routeOf({ route: TO_REVIEWS }, { features: { ...ALL_FEATURES, previousHosts: false } });
    assert.equal(route.route?.retryPolicy?.retryHostPredicate, undefined);
  });
});

describe('redirects and fixed answers', () => {
  test('redirect with all its parts', () => {
    const route = routeOf({
      redirect: { uri: '/new', authority: 'b.example', scheme: 'https', port: 8443, redirectCode: 308 },
    });
    assert.deepEqual(route.redirect, {
      hostRedirect: 'b.example',
      pathRedirect: '/new',
      schemeRedirect: 'https',
      portRedirect: 8443,
      responseCode: envoy.config.route.v3.RedirectAction.RedirectResponseCode.PERMANENT_REDIRECT,
    });
  });
  test('port of the request', () => {
    const route = routeOf({ redirect: { authority: 'b.example', derivePort: 'FROM_REQUEST_PORT' } }, { port: 8080 });
    assert.equal(route.redirect?.portRedirect, 8080);
  });
  test('a redirect code that Envoy does not support: the route is left out, the others stay', () => {
    const routes = routesOf([
      { match: [{ uri: { exact: '/a' } }], redirect: { redirectCode: 418 } },
      { route: TO_REVIEWS },
    ]);
    assert.equal(routes.length, 1);
  });
  test('direct response', () => {
    const route = routeOf({ directResponse: { status: 418, body: { string: 'short and stout' } } });
    assert.deepEqual(route.directResponse, { status: 418, body: { inlineString: 'short and stout' } });
  });
  test('a body that is too long for Envoy: the route is left out, the others stay', () => {
    const http = {
      match: [{ uri: { exact: '/a' } }],
      directResponse: { status: 200, body: { string: 'ä'.repeat(600_000) } },
    };
    assert.equal(routesOf([http, { route: TO_REVIEWS }]).length, 1);
  });
  test('direct response with bytes', () => {
    const body = routeOf({ directResponse: { status: 200, body: { bytes: 'AAH/' } } }).directResponse?.body;
    assert.deepEqual(body?.inlineBytes, new Uint8Array([0, 1, 255]));
  });
});

describe('rewrites, headers, mirrors', () => {
  test('path and authority', () => {
    const { route } = routeOf({
      match: [{ uri: { prefix: '/a' } }],
      rewrite: { uri: '/b', authority: 'c' },
      route: TO_REVIEWS,
    });
    assert.equal(route?.prefixRewrite, '/b');
    assert.equal(route?.hostRewriteLiteral, 'c');
  });
  test('path by regex', () => {
    const { route } = routeOf({
      rewrite: { uriRegexRewrite: { match: '/a/(.*)', rewrite: '/\\1' } },
      route: TO_REVIEWS,
    });
    assert.deepEqual(route?.regexRewrite, { pattern: { regex: '/a/(.*)' }, substitution: '/\\1' });
  });
  test('headers of the route, then of the lone destination', () => {
    const route = routeOf({
      headers: { request: { set: { a: '1' }, remove: ['x'] }, response: { add: { r: '2' } } },
      route: [{ destination: { host: REVIEWS }, headers: { request: { add: { a: '3' } } } }],
    });
    const { APPEND_IF_EXISTS_OR_ADD, OVERWRITE_IF_EXISTS_OR_ADD } =
      envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;
    assert.deepEqual(route.requestHeadersToAdd, [
      { header: { key: 'a', value: '1' }, appendAction: OVERWRITE_IF_EXISTS_OR_ADD },
      { header: { key: 'a', value: '3' }, appendAction: APPEND_IF_EXISTS_OR_ADD },
    ]);
    assert.deepEqual(route.requestHeadersToRemove, ['x']);
    assert.equal(route.responseHeadersToAdd?.[0]?.header?.key, 'r');
  });
  test('setting Host is a rewrite: Envoy refuses it as a header', () => {
    const route = routeOf({ headers: { request: { set: { Host: 'b.example', ':path': '/x' } } }, route: TO_REVIEWS });
    assert.equal(route.route?.hostRewriteLiteral, 'b.example');
    assert.equal(route.requestHeadersToAdd, undefined);
  });
  test('mirror everything, a share, or nothing', () => {
    const mirrorOf = (extra: object) =>
      routeOf({ route: TO_REVIEWS, mirror: { host: RATINGS }, ...extra }).route?.requestMirrorPolicies;
    assert.deepEqual(mirrorOf({}), [{ cluster: `outbound|9080||${RATINGS}` }]);
    assert.equal(mirrorOf({ mirrorPercentage: { value: 0.5 } })?.[0]?.runtimeFraction?.defaultValue?.numerator, 5000);
    assert.equal(mirrorOf({ mirrorPercentage: { value: 0 } }), undefined);
  });
});

describe('filters by route', () => {
  const http = {
    route: TO_REVIEWS,
    corsPolicy: {
      allowOrigins: [{ exact: 'https://a' }],
      allowMethods: ['GET', 'PUT'],
      maxAge: '24h',
      allowCredentials: true,
    },
    fault: {
      delay: { fixedDelay: '5s', percentage: { value: 10 } },
      abort: { httpStatus: 503, percentage: { value: 0.01 } },
    },
  };
  const decoded = (route: ReturnType<typeof routeOf>) => {
    const config = route.typedPerFilterConfig ?? {};
    const cors = config['envoy.filters.http.cors']?.value;
    const fault = config['envoy.filters.http.fault']?.value;
    return {
      cors: cors ? envoy.extensions.filters.http.cors.v3.CorsPolicy.decode(cors) : undefined,
      fault: fault ? envoy.extensions.filters.http.fault.v3.HTTPFault.decode(fault) : undefined,
    };
  };
  test('cross-origin policy', () => {
    const { cors } = decoded(routeOf(http));
    assert.equal(cors?.allowOriginStringMatch[0]?.exact, 'https://a');
    assert.equal(cors?.allowMethods, 'GET,PUT');
    assert.equal(cors?.maxAge, '86400');
    assert.equal(cors?.allowCredentials?.value, true);
  });
  test('faults', () => {
    const { fault } = decoded(routeOf(http));
    assert.equal(Number(fault?.delay?.fixedDelay?.seconds), 5);
    assert.equal(fault?.delay?.percentage?.numerator, 100_000);
    assert.equal(fault?.abort?.httpStatus, 503);
    assert.equal(fault?.abort?.percentage?.numerator, 100);
  });
  test('gRPC status by name', () => {
    const { fault } = decoded(
      routeOf({ route: TO_REVIEWS, fault: { abort: { grpcStatus: 'UNAVAILABLE', percent: 100 } } }),
    );
    assert.equal(fault?.abort?.grpcStatus, 14);
  });
  test('no configuration for filters that the proxy lacks', () => {
    const route = routeOf(http, { features: { ...ALL_FEATURES, cors: false, fault: false } });
    assert.equal(route.typedPerFilterConfig, undefined);
  });
});

describe('hash policies', () => {
  const hashOf = (consistentHash: unknown) => {
    const rule = SCHEMAS.DestinationRule.parse({ host: REVIEWS, trafficPolicy: { loadBalancer: { consistentHash } } });
    const lookups = { ...NO_LOOKUPS, consistentHash: () => rule.trafficPolicy?.loadBalancer?.consistentHash };
    const weights = [
      { destination: { host: REVIEWS, subset: 'a' }, weight: 1 },
      { destination: { host: REVIEWS }, weight: 1 },
    ];
    return routeOf({ route: weights }, { lookups }).route?.hashPolicy;
  };
  test('header', () => assert.deepEqual(hashOf({ httpHeaderName: 'x-user' }), [{ header: { headerName: 'x-user' } }]));
  test('cookie that Envoy makes', () => {
    const cookie = { name: 'u', ttl: '0s', path: '/p' };
    assert.deepEqual(hashOf({ httpCookie: cookie }), [
      { cookie: { name: 'u', ttl: { seconds: 0, nanos: 0 }, path: '/p' } },
    ]);
  });
  test('source address', () =>
    assert.deepEqual(hashOf({ useSourceIp: true }), [{ connectionProperties: { sourceIp: true } }]));
  test('query parameter', () => {
    assert.deepEqual(hashOf({ httpQueryParameterName: 'q' }), [{ queryParameter: { name: 'q' } }]);
  });
});

test('hasRoutes tells whether there would be any route', () => {
  const vs = (http: readonly unknown[]) => virtualServiceOf({ hosts: [REVIEWS], http });
  assert.equal(hasRoutes(vs([{ route: TO_REVIEWS }]), contextOf()), true);
  assert.equal(hasRoutes(vs([{ match: [{ port: 1 }], route: TO_REVIEWS }]), contextOf()), false);
  assert.equal(hasRoutes(vs([{ delegate: { name: 'x' } }]), contextOf()), false);
});

test('joined routes: earlier virtual services first, the first that matches everything last', () => {
  const named = (name: string, prefix: string) => ({ name, match: { prefix } });
  const joined = joinRoutes([
    [named('a', '/a'), named('all-1', '/')],
    [named('b', '/b'), named('all-2', '/')],
  ]);
  assert.deepEqual(
    joined.map(({ name }) => name),
    ['a', 'b', 'all-1'],
  );
});
