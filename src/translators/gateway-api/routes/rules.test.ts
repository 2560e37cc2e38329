/** Rules whose references or values cannot be served: what their requests get, and what the route's status says. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { shown, translated } from '../testing/translated.ts';

const GATEWAY = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {gatewayClassName: meshd, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: private, namespace: other}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside, namespace: shop}
spec: {type: ExternalName, externalName: 169.254.169.254, ports: [{name: http, port: 80}]}
---
`;

const GOOD = 'backendRefs: [{name: web, port: 80}]';

function routeWith(...rules: readonly string[]) {
  const { status, derived } = translated(`${GATEWAY}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec: {parentRefs: [{name: public}], rules: [${rules.map((rule) => `{${rule}}`).join(', ')}]}
`);
  const [parent] = status('HTTPRoute/shop/r')?.parents ?? [];
  const [document] = [...derived.values()].filter(({ kind }) => kind === 'VirtualService');
  return {
    conditions: shown(parent?.conditions),
    http: document?.kind === 'VirtualService' ? document.content.http : [],
  };
}

describe('a rule with a backend', () => {
  const rows: readonly [behaviour: string, backend: string, reason: string][] = [
    ['that does not exist', '{name: missing, port: 80}', 'BackendNotFound'],
    ['without the port', '{name: web, port: 81}', 'BackendNotFound'],
    ['of another kind', '{group: example.com, kind: Bucket, name: web, port: 80}', 'InvalidKind'],
    ['in a namespace that does not permit it', '{name: private, namespace: other, port: 80}', 'RefNotPermitted'],
    ['that is a name of anything', '{name: outside, port: 80}', 'BackendNotFound'],
  ];
  for (const [behaviour, backend, reason] of rows) {
    test(`${behaviour} returns HTTP 500 for its share`, () => {
      const { conditions, http } = routeWith(`backendRefs: [${backend}]`);
      assert.deepEqual(conditions, ['Accepted=True Accepted', `ResolvedRefs=False ${reason}`]);
      assert.deepEqual(http?.[0]?.directResponse, { status: 500 });
      const both = routeWith(`backendRefs: [${backend}, {name: web, port: 80, weight: 3}]`);
      assert.deepEqual(
        both.http?.[0]?.route?.map(({ unusable, weight }) => [unusable, weight]),
        [
          [true, 1],
          [undefined, 3],
        ],
      );
    });
  }

  test('of which none has a weight returns HTTP 500', () => {
    const { conditions, http } = routeWith('backendRefs: [{name: web, port: 80, weight: 0}]');
    assert.deepEqual(conditions, ['Accepted=True Accepted', 'ResolvedRefs=True ResolvedRefs']);
    assert.deepEqual(http?.[0]?.directResponse, { status: 500 });
  });
});

describe('a value that Envoy would refuse', () => {
  const rows: readonly [behaviour: string, rule: string][] = [
    ['a regular expression', `matches: [{path: {type: RegularExpression, value: '(a'}}], ${GOOD}`],
    ['a type of match', `matches: [{path: {type: Fuzzy, value: /a}}], ${GOOD}`],
    [
      'a header',
      `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: "b\\nc"}]}}], ${GOOD}`,
    ],
    ['a filter', `filters: [{type: ExternalAuth}], ${GOOD}`],
    [
      'a prefix in a redirect',
      'filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: "/a\\nb"}}}]',
    ],
    [
      'a prefix that is replaced without being matched',
      `matches: [{path: {type: Exact, value: /a}}], ${GOOD},
       filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]`,
    ],
  ];
  for (const [behaviour, rule] of rows) {
    test(`affects its rule alone: ${behaviour}`, () => {
      const alone = routeWith(rule);
      assert.equal(alone.conditions[0], 'Accepted=False UnsupportedValue');
      assert.ok(alone.http?.every(({ route }) => route === undefined));
      const beside = routeWith(rule, `matches: [{path: {value: /good}}], ${GOOD}`);
      assert.deepEqual(beside.conditions, [
        'Accepted=True Accepted',
        'ResolvedRefs=True ResolvedRefs',
        'PartiallyInvalid=True UnsupportedValue',
      ]);
      assert.equal(beside.http?.filter(({ route }) => route !== undefined).length, 1);
    });
  }

  test('refuses requests of all matches of its rule', () => {
    for (const match of ["{path: {type: RegularExpression, value: '(a'}}", '{path: {type: Fuzzy, value: /a}}']) {
      const { http, conditions } = routeWith(`matches: [{path: {value: /b}}, ${match}], ${GOOD}`, GOOD);
      assert.equal(conditions[2], 'PartiallyInvalid=True UnsupportedValue');
      assert.deepEqual(
        http?.map(({ match: of, directResponse }) => [of?.[0]?.pathPrefix, directResponse?.status]),
        [
          ['/b', 500],
          [undefined, undefined],
        ],
      );
    }
  });

  test('a redirect with a rewrite is refused', () => {
    const filters =
      'filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}, {type: URLRewrite, urlRewrite: {hostname: a}}]';
    assert.equal(routeWith(filters).conditions[0], 'Accepted=False IncompatibleFilters');
  });
});

test('matches of several routes are in the order of the API, then of age, then of names', () => {
  const route = (name: string, created: string, match: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: shop, creationTimestamp: '${created}'}
spec: {parentRefs: [{name: public}], rules: [{matches: [${match}], ${GOOD}}]}
---`;
  const { derived } = translated(
    GATEWAY +
      [
        route('b', '2020-01-01T00:00:00Z', '{path: {value: /a}}'),
        route('a', '2020-01-01T00:00:00Z', '{path: {value: /a}}'),
        route('older', '2019-01-01T00:00:00Z', '{path: {value: /a}}'),
        route('parameter', '2020-01-01T00:00:00Z', '{path: {value: /a}, queryParams: [{name: q, value: v}]}'),
        route('header', '2020-01-01T00:00:00Z', '{path: {value: /a}, headers: [{name: h, value: v}]}'),
        route('method', '2020-01-01T00:00:00Z', '{path: {value: /a}, method: GET}'),
        route('longer', '2020-01-01T00:00:00Z', '{path: {value: /abc}}'),
        route('exact', '2020-01-01T00:00:00Z', '{path: {type: Exact, value: /}}'),
        route('any', '2018-01-01T00:00:00Z', '{}'),
      ].join('\n'),
  );
  const [document] = [...derived.values()].filter(({ kind }) => kind === 'VirtualService');
  assert.ok(document?.kind === 'VirtualService');
  assert.deepEqual(
    document.content.http?.map(({ name }) => name?.split('/')[2]),
    ['exact', 'longer', 'method', 'header', 'parameter', 'older', 'a', 'b', 'any'],
  );
});

test('matches and changes of headers count whatever their names are', () => {
  const matches = 'matches: [{headers: [{name: __proto__, value: a}], queryParams: [{name: __proto__, value: b}]}]';
  const filter = '{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: __proto__, value: c}]}}';
  const { http } = routeWith(`${matches}, filters: [${filter}], ${GOOD}`);
  const [{ match = [], headers } = {}] = http ?? [];
  assert.deepEqual(Object.entries(match[0]?.headers ?? {}), [['__proto__', { exact: 'a' }]]);
  assert.deepEqual(Object.entries(match[0]?.queryParams ?? {}), [['__proto__', { exact: 'b' }]]);
  assert.deepEqual(Object.entries(headers?.request?.set ?? {}), [['__proto__', 'c']]);
});

test('a change of one route among many translates only that route and its hostname', () => {
  const routes = Array.from(
    { length: 200 },
    (_, index) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r${index}, namespace: shop}
spec: {parentRefs: [{name: public}], hostnames: [h${index}.example.com], rules: [{${GOOD}}]}
---`,
  );
  const { translator } = translated(GATEWAY + routes.join('\n'));
  const after = translated(GATEWAY + (routes[7] ?? '').replace('port: 80', 'port: 81'));
  const [, changed] = [...after.derived].filter(([key]) => key.endsWith('h7.example.com'))[0] ?? [];
  assert.ok(changed !== undefined);
  translator.takeStatusChanges();
  const changes = translator.apply(after.changesOf('HTTPRoute/shop/r7'));
  assert.deepEqual(
    changes.map(({ key, after: document }) => [key, document?.fingerprint]),
    [['VirtualService/shop/gateway-api~public~http~h7.example.com', changed.fingerprint]],
  );
  assert.deepEqual([...translator.takeStatusChanges()], ['HTTPRoute/shop/r7']);
});

test('mirrors of a GRPCRoute get HTTP/2 like its backends, where their ports do not declare a protocol', () => {
  const { derived } = translated(`${GATEWAY}
apiVersion: v1
kind: Service
metadata: {name: copy, namespace: shop}
spec: {ports: [{name: a, port: 80}, {name: b, port: 81}, {name: c, port: 82, appProtocol: http}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: r, namespace: shop}
spec:
  parentRefs: [{name: public}]
  rules:
    - backendRefs: [{name: web, port: 80}]
      filters:
        - {type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 81}}}
        - {type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 82}}}
`);
  const rules = [...derived.values()].flatMap((document) =>
    document.kind === 'DestinationRule' ? [[document.content.host, document.content.trafficPolicy]] : [],
  );
  const upgraded = (port: number) => ({
    portLevelSettings: [{ port: { number: port }, connectionPool: { http: { h2UpgradePolicy: 'UPGRADE' } } }],
  });
  assert.deepEqual(rules, [
    ['copy.shop.svc.cluster.local', upgraded(81)],
    ['web.shop.svc.cluster.local', upgraded(80)],
  ]);
});
