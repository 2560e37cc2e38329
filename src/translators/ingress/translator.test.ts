import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../../resources/kinds/types.ts';
import { defaultMeshConfig } from '../../resources/mesh-config.ts';
import { documentsOf, setChanges } from '../gateway-api/testing/translated.ts';
import type { IngressSettings } from './classes.ts';
import { IngressTranslator } from './translator.ts';

/** A translator beside the documents in force. */
class Mesh {
  readonly inForce = new Map<ResourceKey, AnyResource>();
  readonly derived = new Map<ResourceKey, AnyResource>();
  /** Document, field and message of each. */
  readonly warnings: string[] = [];
  readonly translator = new IngressTranslator({
    domain: 'cluster.local',
    namespace: 'edge',
    resource: (key) => this.inForce.get(key),
    onWarnings: (key, { warnings = [] }) =>
      this.warnings.push(...warnings.map(({ field, message }) => `${key} ${field}: ${message}`)),
  });

  constructor(settings: Partial<IngressSettings> = {}) {
    this.configure(settings);
  }

  configure(settings: Partial<IngressSettings>): void {
    this.translator.configure({ ...defaultMeshConfig(), ...settings });
    this.#apply([]);
  }

  set(yaml: string): readonly ResourceKey[] {
    const documents = documentsOf(yaml);
    for (const document of documents) this.inForce.set(keyOf(document), document);
    return this.#apply(setChanges(documents));
  }

  remove(key: ResourceKey): readonly ResourceKey[] {
    const before = this.inForce.get(key);
    this.inForce.delete(key);
    return this.#apply([{ key, before, after: undefined }]);
  }

  /** The routes of a host: conditions and destinations as text. */
  routesOf(host: string): string[] {
    const document = this.derived.get(`VirtualService/edge/ingress~${host}`);
    assert.ok(document?.kind === 'VirtualService', `no routes for ${host}`);
    return (document.content.http ?? []).map(({ match, route, directResponse }) => {
      const to = route?.map(({ destination }) => `${destination.host}:${destination.port?.number}`).join();
      return `${JSON.stringify(match?.[0] ?? {})} → ${to ?? directResponse?.status}`;
    });
  }

  get hosts(): string[] {
    return [...this.derived.keys()].filter((key) => key.startsWith('VirtualService/')).sort();
  }

  #apply(changes: readonly ResourceChange[]): readonly ResourceKey[] {
    const result = this.translator.apply(changes);
    for (const { key, after } of result) {
      if (after === undefined) this.derived.delete(key);
      else this.derived.set(key, after);
    }
    return result.map(({ key }) => key);
  }
}

function ingress(name: string, spec: string, metadata = ''): string {
  return `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: ${name}, namespace: shop${metadata}}
spec: ${spec}
---`;
}

const RULE =
  'rules: [{host: a.example.com, http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}}]';
const WITH_CLASS = `{ingressClassName: mesh, ${RULE}}`;

function service(port: number): string {
  return `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: ${port}}]}
---`;
}

function ingressClass(controller: string): string {
  return `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: edge}
spec: {controller: ${controller}}
---`;
}

describe('an Ingress is served', () => {
  const annotated = (name: string) => `, annotations: {kubernetes.io/ingress.class: ${name}}`;
  const named = (name: string) => `{ingressClassName: ${name}, ${RULE}}`;
  const rows: readonly [behaviour: string, mode: IngressSettings['ingressControllerMode'], yaml: string, boolean][] = [
    ['with the class in its annotation', 'STRICT', ingress('i', `{${RULE}}`, annotated('mesh')), true],
    ['not with another class in its annotation', 'DEFAULT', ingress('i', named('mesh'), annotated('other')), false],
    ['without a class in mode DEFAULT', 'DEFAULT', ingress('i', `{${RULE}}`), true],
    ['not without a class in mode STRICT', 'STRICT', ingress('i', `{${RULE}}`), false],
    ['not in mode OFF', 'OFF', ingress('i', named('mesh')), false],
    ['with the class where there is no IngressClass', 'STRICT', ingress('i', named('mesh')), true],
    [
      'with an IngressClass of the mesh',
      'STRICT',
      ingressClass('mesh.io/ingress-controller') + ingress('i', named('edge')),
      true,
    ],
    [
      'with an IngressClass of Istio',
      'STRICT',
      ingressClass('istio.io/ingress-controller') + ingress('i', named('edge')),
      true,
    ],
    [
      'not with an IngressClass of another controller',
      'STRICT',
      ingressClass('example.com/x') + ingress('i', named('edge')),
      false,
    ],
    ['not with a class that is not known', 'DEFAULT', ingress('i', named('edge')), false],
  ];
  for (const [behaviour, ingressControllerMode, yaml, served] of rows) {
    test(behaviour, () => {
      const mesh = new Mesh({ ingressControllerMode });
      mesh.set(yaml);
      assert.deepEqual(mesh.hosts, served ? ['VirtualService/edge/ingress~a.example.com'] : []);
      assert.equal(mesh.derived.has('Gateway/edge/ingress~'), served);
    });
  }
});

test('an Ingress whose IngressClass changes hands is no longer served', () => {
  const mesh = new Mesh();
  mesh.set(ingressClass('mesh.io/ingress-controller') + ingress('i', `{ingressClassName: edge, ${RULE}}`));
  assert.equal(mesh.hosts.length, 1);
  mesh.set(ingressClass('example.com/other'));
  assert.equal(mesh.derived.size, 0);
});

test('a port by name follows the Service, and is answered with 503 while there is none', () => {
  const mesh = new Mesh();
  mesh.set(ingress('i', WITH_CLASS));
  assert.deepEqual(mesh.routesOf('a.example.com'), ['{"pathPrefix":"/a"} → 503']);
  assert.deepEqual(mesh.set(service(8080)), ['VirtualService/edge/ingress~a.example.com']);
  assert.deepEqual(mesh.routesOf('a.example.com'), ['{"pathPrefix":"/a"} → web.shop.svc.cluster.local:8080']);
  assert.deepEqual(mesh.set(service(8080)), [], 'an equal Service changes nothing');
  mesh.remove('Service/shop/web');
  assert.deepEqual(mesh.routesOf('a.example.com'), ['{"pathPrefix":"/a"} → 503']);
});

test('the older of two Ingresses with one path applies, whatever the order of their arrival', () => {
  const at = (name: string, day: number, port: number) =>
    ingress(
      name,
      `{ingressClassName: mesh, rules: [{host: a.example.com, http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: web, port: {number: ${port}}}}}]}}]}`,
      `, creationTimestamp: '2026-01-0${day}T00:00:00Z'`,
    );
  const [young, old] = [at('a', 2, 1), at('b', 1, 2)];
  const results = [young + old, old + young].map((yaml) => {
    const mesh = new Mesh();
    mesh.set(yaml);
    return mesh;
  });
  for (const mesh of results) {
    const to = mesh.routesOf('a.example.com').map((route) => route.split('→')[1]);
    assert.deepEqual(to, [' web.shop.svc.cluster.local:2', ' web.shop.svc.cluster.local:1']);
    mesh.remove('Ingress/shop/b');
    assert.equal(mesh.routesOf('a.example.com').length, 1);
  }
});

test('the default backend answers hosts that no rule names, and the rest of the paths of its own', () => {
  const mesh = new Mesh();
  mesh.set(
    service(80) +
      ingress('i', `{ingressClassName: mesh, defaultBackend: {service: {name: web, port: {number: 81}}}, ${RULE}}`),
  );
  assert.deepEqual(mesh.routesOf('*'), ['{} → web.shop.svc.cluster.local:81']);
  assert.deepEqual(mesh.routesOf('a.example.com'), [
    '{"pathPrefix":"/a"} → web.shop.svc.cluster.local:80',
    '{} → web.shop.svc.cluster.local:81',
  ]);
});

test('the gateways are those of the mesh configuration, and follow it', () => {
  const mesh = new Mesh();
  const selector = () => {
    const gateway = mesh.derived.get('Gateway/edge/ingress~');
    return gateway?.kind === 'Gateway' ? gateway.content.selector : undefined;
  };
  mesh.set(ingress('i', WITH_CLASS));
  assert.deepEqual(selector(), { mesh: 'ingressgateway' });
  mesh.configure({ ingressSelector: 'public' });
  assert.deepEqual(selector(), { mesh: 'public' });
  mesh.configure({ ingressSelector: '', ingressService: 'front' });
  assert.deepEqual(selector(), { mesh: 'front' });
  mesh.configure({ ingressControllerMode: 'OFF' });
  assert.equal(mesh.derived.size, 0);
});

test('an entry of tls is a server with the Secret of that name, and one without a Secret is closed', () => {
  const mesh = new Mesh();
  mesh.set(
    ingress(
      'i',
      `{ingressClassName: mesh, tls: [{hosts: [A.example.com], secretName: cert}, {hosts: [b.example.com]}], ${RULE}}`,
    ),
  );
  const gateway = mesh.derived.get('Gateway/edge/ingress~');
  assert.ok(gateway?.kind === 'Gateway');
  const servers = (gateway.content.servers ?? []).map(({ hosts, tls }) => [
    hosts.join(),
    tls?.credentialName,
    tls?.closed,
  ]);
  assert.deepEqual(servers, [
    ['./*', undefined, undefined],
    ['./a.example.com', 'cert', undefined],
    ['./b.example.com', undefined, 'closes its connections: no secretName'],
  ]);
  assert.deepEqual(mesh.warnings, [
    'Ingress/shop/i spec.tls[1]: expected secretName: the TLS connections of its hosts are closed',
  ]);
});

test('values that Envoy would refuse are left out with a warning, and the rest is served', () => {
  const mesh = new Mesh();
  const path = (text: string, type: string) =>
    `{path: '${text}', pathType: ${type}, backend: {service: {name: web, port: {number: 80}}}}`;
  const paths = [path('/a?b', 'Prefix'), path('/a#b', 'Prefix'), path('/ok', 'Prefix')].join();
  mesh.set(
    ingress(
      'i',
      `{ingressClassName: mesh, rules: [{host: 'a b', http: {paths: [${paths}]}}, {host: A.example.com, http: {paths: [${paths}]}}]}`,
    ),
  );
  assert.deepEqual(mesh.hosts, ['VirtualService/edge/ingress~a.example.com']);
  assert.deepEqual(mesh.routesOf('a.example.com'), ['{"pathPrefix":"/ok"} → web.shop.svc.cluster.local:80']);
  const field = 'Ingress/shop/i spec.rules';
  const refused = 'expected a path without ? and #: it is not served';
  assert.deepEqual(mesh.warnings, [
    `${field}[0].host: expected a DNS name, or one with * for its first label: it is not served`,
    `${field}[0].http.paths[0].path: ${refused}`,
    `${field}[0].http.paths[1].path: ${refused}`,
    `${field}[1].http.paths[0].path: ${refused}`,
    `${field}[1].http.paths[1].path: ${refused}`,
  ]);
});

test('a backend that cannot be served is answered with 503, not by the backend of a shorter path', () => {
  const mesh = new Mesh();
  const to = (path: string, backend: string) => `{path: ${path}, pathType: Prefix, backend: ${backend}}`;
  const paths = [
    to('/', '{service: {name: web, port: {number: 80}}}'),
    to('/a', '{resource: {kind: Bucket, name: b}}'),
    to('/bb', '{service: {name: "w b", port: {number: 80}}}'),
    to('/ccc', '{service: {name: web}}'),
  ];
  mesh.set(ingress('i', `{ingressClassName: mesh, rules: [{http: {paths: [${paths.join()}]}}]}`));
  assert.deepEqual(mesh.routesOf('*'), [
    '{"pathPrefix":"/ccc"} → 503',
    '{"pathPrefix":"/bb"} → 503',
    '{"pathPrefix":"/a"} → 503',
    '{} → web.shop.svc.cluster.local:80',
  ]);
  const field = 'Ingress/shop/i spec.rules[0].http.paths';
  assert.deepEqual(mesh.warnings, [
    `${field}[1].backend: expected service: requests receive HTTP 503`,
    `${field}[2].backend.service.name: expected the name of a Service: requests receive HTTP 503`,
    `${field}[3].backend.service.port: expected number or name: requests receive HTTP 503`,
  ]);
});

test('warnings of an Ingress are reported once, and only while it is served', () => {
  const mesh = new Mesh();
  const spec = (name: string) => `{ingressClassName: ${name}, tls: [{hosts: [a.example.com]}], ${RULE}}`;
  mesh.set(ingress('i', spec('other')));
  assert.deepEqual(mesh.warnings, []);
  mesh.set(ingress('i', spec('mesh')));
  mesh.set(ingress('i', spec('mesh'), ', labels: {a: b}'));
  assert.equal(mesh.warnings.length, 1);
  mesh.set(ingress('i', spec('other')));
  mesh.set(ingress('i', spec('mesh')));
  assert.equal(mesh.warnings.length, 2);
});

test('Gateways and virtual services take precedence: what is derived is newer than any document', () => {
  const mesh = new Mesh();
  mesh.set(ingress('i', WITH_CLASS, ", creationTimestamp: '2026-01-01T00:00:00Z'"));
  assert.equal(mesh.derived.size, 2);
  for (const { meta } of mesh.derived.values()) assert.ok((meta.created ?? 0) > Date.parse('9999-12-31T23:59:59Z'));
});
