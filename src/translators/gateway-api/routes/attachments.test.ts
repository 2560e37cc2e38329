/** Which listeners routes attach to, and what their statuses say. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { shown, translated } from '../testing/translated.ts';

const GATEWAY = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: edge, generation: 3}
spec:
  gatewayClassName: meshd
  listeners:
    - {name: all, port: 80, protocol: HTTP, hostname: '*.example.com', allowedRoutes: {namespaces: {from: All}}}
    - {name: own, port: 81, protocol: HTTP}
    - name: chosen
      port: 82
      protocol: HTTP
      allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}
    - {name: grpc, port: 83, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}], namespaces: {from: All}}}
---
`;

const route = (parent: string, hostnames: string, namespace = 'shop') => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: ${namespace}, generation: 7}
spec:
  parentRefs: [{name: public, namespace: edge, ${parent}}]
  hostnames: ${hostnames}
  rules: [{backendRefs: [{name: web, namespace: shop, port: 80}]}]
---
`;

/** Hosts of the derived virtual services that have routes, by listener. */
function served(yaml: string): string[] {
  return [...translated(GATEWAY + yaml).derived.values()].flatMap((document) => {
    if (document.kind !== 'VirtualService') return [];
    const [first] = document.content.http ?? [];
    const listener = document.meta.name.split('~')[2] ?? '';
    return first?.directResponse === undefined
      ? (document.content.hosts ?? []).map((host) => `${listener} ${host}`)
      : [];
  });
}

describe('a route attaches to', () => {
  const rows: readonly [behaviour: string, yaml: string, expected: readonly string[]][] = [
    ['the listener that it names', route('sectionName: all', '[a.example.com]'), ['all a.example.com']],
    ['the listeners of the port that it names', route('port: 80', '[a.example.com]'), ['all a.example.com']],
    ['the hostname of the listener when it has none', route('sectionName: all', '[]'), ['all *.example.com']],
    [
      'the narrower one of its hostname and that of the listener',
      route('sectionName: all', "['*.a.example.com', '*.com', a.other]"),
      ['all *.a.example.com', 'all *.example.com'],
    ],
    [
      'all listeners that allow its namespace',
      `${route('', '[a.example.com]', 'edge')}
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge, namespace: shop}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: edge}], to: [{group: '', kind: Service}]}
`,
      ['all a.example.com', 'own a.example.com'],
    ],
    [
      'a listener that selects the labels of its namespace',
      `${route('sectionName: chosen', '[a.example.com]')}
kind: Namespace
apiVersion: v1
metadata: {name: shop, labels: {team: a}}
`,
      ['chosen a.example.com'],
    ],
  ];
  for (const [behaviour, yaml, expected] of rows) test(behaviour, () => assert.deepEqual(served(yaml), expected));
});

describe('a route that does not attach says why:', () => {
  const rows: readonly [reason: string, yaml: string][] = [
    ['NoMatchingParent', route('sectionName: other', '[a.example.com]')],
    ['NoMatchingParent', route('sectionName: all, port: 81', '[a.example.com]')],
    ['NotAllowedByListeners', route('sectionName: own', '[a.example.com]')],
    ['NotAllowedByListeners', route('sectionName: chosen', '[a.example.com]')],
    ['NotAllowedByListeners', route('sectionName: grpc', '[a.example.com]')],
    ['NoMatchingListenerHostname', route('sectionName: all', '[a.other]')],
  ];
  for (const [index, [reason, yaml]] of rows.entries()) {
    test(`${reason} (${index})`, () => {
      assert.deepEqual(served(yaml), []);
      const { status } = translated(GATEWAY + yaml);
      const [parent] = status('HTTPRoute/shop/web')?.parents ?? [];
      assert.deepEqual(shown(parent?.conditions), [`Accepted=False ${reason}`, 'ResolvedRefs=True ResolvedRefs']);
      assert.equal(parent?.conditions[0]?.observedGeneration, 7);
    });
  }

  test('a parent that is no Gateway of this controller gets no status', () => {
    const other = GATEWAY.replace('gatewayClassName: meshd', 'gatewayClassName: other');
    const { status, derived } = translated(other + route('sectionName: all', '[a.example.com]'));
    assert.equal(status('HTTPRoute/shop/web'), undefined);
    assert.equal(status('KubernetesGateway/edge/public'), undefined);
    assert.equal(derived.size, 0);
  });
});

test('the status of a Gateway counts the routes of each listener', () => {
  const { status } = translated(GATEWAY + route('sectionName: all', '[a.example.com, b.example.com]'));
  const { listeners = [], conditions } = status('KubernetesGateway/edge/public') ?? {};
  assert.deepEqual(
    listeners.map(({ name, attachedRoutes }) => [name, attachedRoutes]),
    [
      ['all', 1],
      ['own', 0],
      ['chosen', 0],
      ['grpc', 0],
    ],
  );
  assert.deepEqual(shown(conditions), [
    'Accepted=True Accepted',
    'Programmed=False AddressNotAssigned',
    'ResolvedRefs=True ResolvedRefs',
  ]);
});

describe('an HTTPRoute and a GRPCRoute at one listener', () => {
  const LISTENERS = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: both, namespace: shop}
spec:
  gatewayClassName: meshd
  listeners: [{name: one, port: 80, protocol: HTTP}, {name: two, port: 81, protocol: HTTP}]
---
`;
  const written = (kind: string, name: string, year: number, hostnames: string, parent = 'sectionName: one') => `
apiVersion: gateway.networking.k8s.io/v1
kind: ${kind}
metadata: {name: ${name}, namespace: shop, creationTimestamp: '${year}-01-01T00:00:00Z'}
spec: {parentRefs: [{name: both, ${parent}}], hostnames: ${hostnames}, rules: [{backendRefs: [{name: web, port: 80}]}]}
---
`;
  /** Names of the routes that are not accepted. */
  function refused(yaml: string): string[] {
    const { translator } = translated(LISTENERS + yaml);
    return [...translator.statuses()].flatMap(([key, { status }]) => {
      const [accepted] = shown(status.parents?.[0]?.conditions);
      if (accepted === undefined || accepted === 'Accepted=True Accepted') return [];
      assert.equal(accepted, 'Accepted=False HostnameConflict');
      return [key.split('/')[2] ?? ''];
    });
  }

  const rows: readonly [behaviour: string, yaml: string, expected: readonly string[]][] = [
    [
      'are both accepted with other hostnames',
      written('HTTPRoute', 'a', 2020, '[a.example]') + written('GRPCRoute', 'b', 2021, '[b.example, "*.a.example"]'),
      [],
    ],
    [
      'are both accepted at different listeners',
      written('HTTPRoute', 'a', 2020, '[a.example]') +
        written('GRPCRoute', 'b', 2021, '[a.example]', 'sectionName: two'),
      [],
    ],
    [
      'with a common hostname: the older one is accepted',
      written('HTTPRoute', 'a', 2021, '[a.example]') + written('GRPCRoute', 'b', 2020, '[b.example, a.example]'),
      ['a'],
    ],
    [
      'with a hostname below the wildcard of the other: the older one is accepted',
      written('HTTPRoute', 'a', 2020, '["*.example"]') + written('GRPCRoute', 'b', 2021, '[x.a.example]'),
      ['b'],
    ],
    [
      'with a wildcard above the hostname of the other: the older one is accepted',
      written('HTTPRoute', 'a', 2020, '[x.a.example]') + written('GRPCRoute', 'b', 2021, '["*.example"]'),
      ['b'],
    ],
    [
      'of which one has no hostname: the older one is accepted',
      written('HTTPRoute', 'a', 2021, '[]') + written('GRPCRoute', 'b', 2020, '[a.example]'),
      ['a'],
    ],
    [
      'of the same age: the first by name is accepted',
      written('HTTPRoute', 'b', 2020, '[a.example]') + written('GRPCRoute', 'a', 2020, '[a.example]'),
      ['b'],
    ],
    [
      'are accepted when they only conflict with a route that is refused',
      written('HTTPRoute', 'a', 2020, '[a.example]') +
        written('GRPCRoute', 'b', 2021, '[a.example, c.example]') +
        written('HTTPRoute', 'c', 2022, '[c.example]'),
      ['b'],
    ],
    [
      'are accepted where another listener of the Gateway accepts them',
      written('HTTPRoute', 'a', 2020, '[a.example]') + written('GRPCRoute', 'b', 2021, '[a.example]', ''),
      [],
    ],
  ];
  for (const [behaviour, yaml, expected] of rows) {
    test(behaviour, () => assert.deepEqual(refused(yaml), expected));
  }

  test('only the accepted one gets requests, until it is deleted', () => {
    const http = written('HTTPRoute', 'a', 2020, '[a.example]');
    const { translator, derived, status } = translated(
      LISTENERS + http + written('GRPCRoute', 'b', 2021, '[a.example]'),
    );
    const name = 'VirtualService/shop/gateway-api~both~one~a.example';
    const routes = (document: unknown) =>
      (document as { content: { http: { name?: string }[] } } | undefined)?.content.http.map((each) => each.name);
    assert.deepEqual(routes(derived.get(name)), ['HTTPRoute/shop/a/0']);
    const listeners = () => status('KubernetesGateway/shop/both')?.listeners?.map((each) => each.attachedRoutes);
    assert.deepEqual(listeners(), [1, 0]);
    const changes = translator.apply([{ key: 'HTTPRoute/shop/a', before: undefined, after: undefined }]);
    assert.deepEqual(routes(changes.find(({ key }) => key === name)?.after), ['GRPCRoute/shop/b/0']);
    assert.deepEqual(shown(status('GRPCRoute/shop/b')?.parents?.[0]?.conditions)[0], 'Accepted=True Accepted');
    assert.deepEqual(listeners(), [1, 0]);
  });
});
