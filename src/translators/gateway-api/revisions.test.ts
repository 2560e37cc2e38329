/** Which Gateways a revision of the control plane serves, and whose statuses it computes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentsOf, setChanges } from './testing/translated.ts';
import { GatewayApiTranslator } from './translator.ts';

const API = 'apiVersion: gateway.networking.k8s.io/v1';
const gatewayClass = (name: string, labels = '{}') => `${API}
kind: GatewayClass
metadata: {name: ${name}, labels: ${labels}}
spec: {controllerName: mesh.io/gateway-controller}
---
`;
const gateway = (namespace: string, name: string, labels = '{}') => `${API}
kind: Gateway
metadata: {name: ${name}, namespace: ${namespace}, labels: ${labels}}
spec: {gatewayClassName: meshd, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
`;
const namespace = (labels: string) => `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: ${labels}}
---
`;

const route = `${API}
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec: {parentRefs: [{name: plain}, {name: labelled}], rules: [{}]}
---
`;

const DOCUMENTS = [
  gatewayClass('meshd'),
  gatewayClass('green', '{mesh.io/rev: green}'),
  namespace('{istio.io/rev: blue}'),
  gateway('edge', 'plain'),
  gateway('edge', 'stable', '{mesh.io/rev: default}'),
  gateway('shop', 'plain'),
  gateway('shop', 'labelled', '{istio.io/rev: green}'),
  route,
];

/** Namespaces and names of the Gateways, and of the parents of the route, with a status; and the classes. */
function servedBy(revision: string) {
  const translator = new GatewayApiTranslator({ domain: 'cluster.local', revision });
  const show = () => {
    const statuses = [...translator.statuses()];
    const parents = statuses.flatMap(([, { status }]) => status.parents ?? []);
    const named = (kind: string) =>
      statuses.filter(([key]) => key.startsWith(`${kind}/`)).map(([key]) => key.slice(kind.length + 1));
    return [named('KubernetesGateway'), parents.map(({ parentRef }) => parentRef.name), named('GatewayClass')];
  };
  const served = new Set<string>();
  for (const { key, after } of translator.apply(setChanges(documentsOf(DOCUMENTS.join(''))))) {
    if (after?.kind === 'Gateway') served.add(key.split('~')[1] ?? '');
  }
  return { translator, show, served: [...served] };
}

test('each Gateway is served by one revision: that of its label, else of its Namespace, else the default one', () => {
  const found = ['default', 'blue', 'green', 'other'].map((revision) => servedBy(revision).show());
  assert.deepEqual(found, [
    [['edge/plain', 'edge/stable'], [], ['/meshd']],
    [['shop/plain'], ['plain'], []],
    [['shop/labelled'], ['labelled'], ['/green']],
    [[], [], []],
  ]);
  assert.deepEqual(servedBy('green').served, ['labelled']);
});

test('a Gateway moves with the label of its Namespace, and the other revision knows whose it is', () => {
  const [blue, green] = [servedBy('blue'), servedBy('green')];
  for (const { translator } of [blue, green])
    translator.apply(setChanges(documentsOf(namespace('{mesh.io/rev: green}'))));
  assert.deepEqual(blue.show()[0], []);
  assert.deepEqual(green.show()[0]?.toSorted(), ['shop/labelled', 'shop/plain']);
  const isOfOther = (name: string) => [blue, green].map((each) => each.translator.isOfOtherRevision('shop', name));
  assert.deepEqual(
    [isOfOther('plain'), isOfOther('missing')],
    [
      [true, false],
      [false, false],
    ],
  );
});
