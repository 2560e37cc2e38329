/** Which listeners routes attach to, and what their statuses say. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { shown, translated } from './testing/translated.ts';

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
