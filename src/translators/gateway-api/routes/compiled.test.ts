/** When the rules of routes are compiled: what a change costs does not grow with the routes that it does not concern. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../../../resources/kinds/types.ts';
import { documentsOf, setChanges } from '../testing/translated.ts';
import { GatewayApiTranslator } from '../translator.ts';

const API = 'apiVersion: gateway.networking.k8s.io/v1';
const gatewayClass = `${API}
kind: GatewayClass
metadata: {name: meshd}
spec: {controllerName: mesh.io/gateway-controller}`;

const gateway = (more = '') => `${API}
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {gatewayClassName: meshd, listeners: [{name: http, port: 80, protocol: HTTP}${more}]}`;

const service = (ports: string, address = '10.96.0.1') => `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: ${address}, ports: [${ports}]}`;

const route = `${API}
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec:
  parentRefs: [{name: public}]
  rules:
    - {matches: [{path: {value: /a}}], backendRefs: [{name: web, port: 80}]}
    - {matches: [{path: {value: /b}}], backendRefs: [{name: web, port: 80}]}`;

const PORT = '{name: http, port: 80}';

/** The route, and how often the backends of its first rule were read. */
function countedRoute(): { readonly document: AnyResource; readonly reads: () => number } {
  const [document] = documentsOf(route);
  assert.ok(document?.kind === 'HTTPRoute');
  let reads = 0;
  const [first, ...others] = document.content.rules ?? [];
  const backendRefs = new Proxy(first?.backendRefs ?? [], {
    get(target, property, receiver) {
      if (property === Symbol.iterator) reads++;
      return Reflect.get(target, property, receiver) as unknown;
    },
  });
  const content = { ...document.content, rules: [{ ...first, backendRefs }, ...others] };
  return { document: { ...document, content }, reads: () => reads };
}

function start() {
  const translator = new GatewayApiTranslator({ domain: 'cluster.local' });
  const { document, reads } = countedRoute();
  translator.apply(setChanges([...documentsOf([gatewayClass, gateway(), service(PORT)].join('\n---\n')), document]));
  assert.equal(reads(), 1);
  const change = (yaml: string) => translator.apply(setChanges(documentsOf(yaml)));
  return { change, reads };
}

describe('the rules of a route are not compiled again for', () => {
  const rows: readonly [change: string, yaml: string][] = [
    ['a new listener of its Gateway', gateway(', {name: other, port: 81, protocol: HTTP}')],
    [
      'a new hostname of a listener that takes hosts from it',
      gateway(', {name: b, port: 80, protocol: HTTP, hostname: b.example}'),
    ],
    ['another port of the Service of its backend', service(`${PORT}, {name: other, port: 81}`)],
    ['another address of that Service', service(PORT, '10.96.0.2')],
  ];
  for (const [what, yaml] of rows) {
    test(what, () => {
      const { change, reads } = start();
      change(yaml);
      assert.equal(reads(), 1);
    });
  }
});

test('the rules of a route are compiled again when the port of its backend goes and comes', () => {
  const { change, reads } = start();
  const answers = (changes: ReturnType<typeof change>) =>
    changes.map(
      ({ after }) => after?.kind === 'VirtualService' && after.content.http?.map((each) => each.directResponse),
    );
  assert.deepEqual(answers(change(service('{name: other, port: 81}'))), [[{ status: 500 }, { status: 500 }]]);
  assert.deepEqual(answers(change(service(PORT))), [[undefined, undefined]]);
  assert.equal(reads(), 3);
});

test('a Service that routes no longer refer to is not resolved for them', () => {
  const translator = new GatewayApiTranslator({ domain: 'cluster.local' });
  const all = documentsOf([gatewayClass, gateway(), service(PORT), route].join('\n---\n'));
  translator.apply(setChanges(all));
  translator.apply([{ key: 'HTTPRoute/shop/r', before: undefined, after: undefined }]);
  assert.deepEqual(translator.apply(setChanges(documentsOf(service('{name: other, port: 81}')))), []);
  const changes = translator.apply(setChanges(documentsOf(route)));
  const [{ after } = { after: undefined }] = changes;
  assert.deepEqual(after?.kind === 'VirtualService' && after.content.http?.[0]?.directResponse, { status: 500 });
});
