/** Whatever changes in whatever order: the result is that of a translation from scratch. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, keyOf, type ResourceChange, type ResourceKey } from '../../resources/kinds/types.ts';
import { certificates } from './testing/certificates.ts';
import { documentsOf, setChanges } from './testing/translated.ts';
import { GatewayApiTranslator } from './translator.ts';

const API = 'apiVersion: gateway.networking.k8s.io/v1';
const namespace = fc.constantFrom('edge', 'shop');
const hostname = fc.constantFrom('', '*.example.com', 'a.example.com', '*.a.example.com', 'b.example.com');
const flow = (value: unknown) => JSON.stringify(value);

const gatewayClass = fc
  .constantFrom('mesh.io/gateway-controller', 'other.io/controller')
  .map(
    (controllerName) =>
      `${API}\nkind: GatewayClass\nmetadata: {name: meshd}\nspec: {controllerName: ${controllerName}}`,
  );

const listener = fc.record({
  port: fc.constantFrom(80, 443),
  protocol: fc.constantFrom('HTTP', 'HTTPS', 'HTTPS', 'TLS', 'TCP'),
  hostname,
  tls: fc.constantFrom(
    { mode: 'Passthrough' },
    { certificateRefs: [{ name: 'pair' }] },
    { certificateRefs: [{ name: 'pair', namespace: 'shop' }] },
  ),
  allowedRoutes: fc.constantFrom(
    { namespaces: { from: 'All' } },
    { namespaces: { from: 'Selector', selector: { matchLabels: { team: 'a' } } } },
    {},
  ),
});

const authorities = { group: '', kind: 'ConfigMap', name: 'authorities' };
const gatewayTls = fc.constantFrom(
  {},
  {},
  { tls: { frontend: { default: { validation: { caCertificateRefs: [authorities] } } } } },
  { tls: { frontend: { perPort: [{ port: 443, tls: { validation: { caCertificateRefs: [authorities] } } }] } } },
  { tls: { backend: { clientCertificateRef: { name: 'pair', namespace: 'shop' } } } },
  { addresses: [{ value: '10.96.0.1' }] },
  { addresses: [{ type: 'example.com/pool', value: 'a' }] },
);

const listeners = fc.array(listener, { minLength: 1, maxLength: 3 });
/** Of a Gateway, its class or its Namespace. The translation is that of revision `default`. */
const revision = fc.constantFrom({}, {}, {}, { 'mesh.io/rev': 'canary' }, { 'mesh.io/rev': 'default' });

const gateway = fc.tuple(namespace, listeners, gatewayTls, revision).map(([at, written, rest, labels]) => {
  const named = written.map(({ hostname: host, ...each }, index) => ({
    name: `l${index}`,
    ...(host === '' ? {} : { hostname: host }),
    ...each,
  }));
  const spec = { gatewayClassName: 'meshd', listeners: named, ...rest };
  const metadata = flow({ name: 'gw', namespace: at, labels });
  return `${API}\nkind: Gateway\nmetadata: ${metadata}\nspec: ${flow(spec)}`;
});

const backend = fc.record({ name: fc.constantFrom('web', 'cart'), namespace, port: fc.constant(80) });

const route = fc
  .record({
    kind: fc.constantFrom('HTTPRoute', 'GRPCRoute', 'TLSRoute', 'TCPRoute'),
    at: namespace,
    name: fc.constantFrom('r1', 'r2'),
    parents: fc.array(fc.tuple(namespace, fc.constantFrom({}, { port: 443 }, { sectionName: 'l0' })), {
      minLength: 1,
      maxLength: 2,
    }),
    filters: fc.constantFrom(
      [],
      [{ type: 'RequestRedirect', requestRedirect: { scheme: 'https' } }],
      [{ type: 'RequestMirror', requestMirror: { backendRef: { name: 'cart', namespace: 'shop', port: 80 } } }],
      [{ type: 'ExternalAuth' }],
    ),
    hostnames: fc.array(hostname, { maxLength: 2 }),
    backends: fc.array(backend, { maxLength: 2 }),
    second: fc.constantFrom(1, 2),
  })
  .map(({ kind, at, name, parents, filters, hostnames, backends, second }) => {
    const hosts = kind === 'TCPRoute' ? {} : { hostnames: hostnames.filter((each) => each !== '') };
    const parentRefs = parents.map(([of, part]) => ({ name: 'gw', namespace: of, ...part }));
    const rule = { backendRefs: backends, ...(kind === 'HTTPRoute' || kind === 'GRPCRoute' ? { filters } : {}) };
    const spec = { parentRefs, ...hosts, rules: [rule] };
    const time = `2020-01-01T00:00:0${second}Z`;
    const metadata = { name, namespace: at, creationTimestamp: time };
    return `${API}\nkind: ${kind}\nmetadata: ${flow(metadata)}\nspec: ${flow(spec)}`;
  });

const grant = fc.tuple(namespace, namespace).map(([at, from]) => {
  const froms = ['HTTPRoute', 'GRPCRoute', 'TLSRoute', 'Gateway'].map((kind) => {
    return { group: 'gateway.networking.k8s.io', kind, namespace: from };
  });
  const to = [
    { group: '', kind: 'Service' },
    { group: '', kind: 'Secret' },
  ];
  return `${API}\nkind: ReferenceGrant\nmetadata: {name: g, namespace: ${at}}\nspec: ${flow({ from: froms, to })}`;
});

const service = fc
  .record({
    at: namespace,
    name: fc.constantFrom('web', 'cart', 'gw-meshd'),
    port: fc.constantFrom(80, 81),
    rest: fc.constantFrom({}, { appProtocol: 'http' }),
    address: fc.constantFrom('10.96.0.1', '10.96.0.2'),
  })
  .map(({ at, name, port, rest, address }) => {
    const spec = flow({ clusterIP: address, ports: [{ name: 'http', port, ...rest }] });
    return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}, namespace: ${at}}\nspec: ${spec}`;
  });

const secret = fc.tuple(namespace, fc.constantFrom('kubernetes.io/tls', 'Opaque')).map(([at, type]) => {
  const pair = { 'tls.crt': certificates.certificate, 'tls.key': certificates.key };
  const data = flow(type === 'Opaque' ? {} : pair);
  return `apiVersion: v1\nkind: Secret\nmetadata: {name: pair, namespace: ${at}}\ntype: ${type}\nstringData: ${data}`;
});

const configMap = fc.tuple(namespace, fc.constantFrom(certificates.authorities, 'broken')).map(([at, text]) => {
  const data = flow({ 'ca.crt': text });
  return `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: authorities, namespace: ${at}}\ndata: ${data}`;
});

const namespaceObject = fc.tuple(namespace, fc.constantFrom('a', 'b'), revision).map(([name, team, labels]) => {
  return `apiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}, labels: ${flow({ ...labels, team })}}`;
});

const policy = fc
  .tuple(
    namespace,
    fc.constantFrom('p1', 'p2'),
    fc.constantFrom('http', undefined),
    fc.constantFrom({ wellKnownCACertificates: 'System' }, { caCertificateRefs: [authorities] }),
  )
  .map(([at, name, sectionName, trusted]) => {
    const targetRefs = [{ group: '', kind: 'Service', name: 'web', ...(sectionName && { sectionName }) }];
    const validation = { hostname: 'web.example.com', ...trusted };
    const spec = flow({ targetRefs, validation });
    return `${API}\nkind: BackendTLSPolicy\nmetadata: {name: ${name}, namespace: ${at}}\nspec: ${spec}`;
  });

const CLASS = `${API}\nkind: GatewayClass\nmetadata: {name: meshd}\nspec: {controllerName: mesh.io/gateway-controller}`;
const FIRST = [{ yaml: CLASS, isDeleted: false }];

const step = fc.record({
  yaml: fc.oneof(
    { weight: 3, arbitrary: route },
    { weight: 2, arbitrary: gateway },
    ...[gatewayClass, grant, service, namespaceObject, policy, secret, configMap].map((arbitrary) => {
      return { weight: 1, arbitrary };
    }),
  ),
  isDeleted: fc.integer({ max: 3, min: 0 }).map((number) => number === 0),
});

/** Derived documents by key, and statuses. */
function resultOf(translator: GatewayApiTranslator, derived: ReadonlyMap<ResourceKey, AnyResource>): unknown {
  const statuses = [...translator.statuses()].sort(([a], [b]) => (a < b ? -1 : 1));
  const documents = [...derived].sort(([a], [b]) => (a < b ? -1 : 1));
  return { statuses, documents: documents.map(([key, { content, fingerprint }]) => ({ key, content, fingerprint })) };
}

function collect(derived: Map<ResourceKey, AnyResource>, changes: readonly ResourceChange[]): void {
  for (const { key, before, after } of changes) {
    assert.equal(derived.get(key)?.fingerprint, before?.fingerprint, key);
    if (after === undefined) derived.delete(key);
    else derived.set(key, after);
  }
}

test('any sequence of changes gives what a translation of the last documents gives', () => {
  const steps = fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 10 });
  fc.assert(
    fc.property(steps, (batches) => {
      const translator = new GatewayApiTranslator({ domain: 'cluster.local' });
      const documents = new Map<ResourceKey, AnyResource>();
      const derived = new Map<ResourceKey, AnyResource>();
      for (const batch of [FIRST, ...batches]) {
        const changes = new Map<ResourceKey, ResourceChange>();
        for (const { yaml, isDeleted } of batch) {
          for (const document of documentsOf(yaml)) {
            const key = keyOf(document);
            const after = isDeleted ? undefined : document;
            changes.set(key, { key, before: documents.get(key), after });
          }
        }
        for (const { key, after } of changes.values()) {
          if (after === undefined) documents.delete(key);
          else documents.set(key, after);
        }
        collect(derived, translator.apply([...changes.values()]));
      }
      const fresh = new GatewayApiTranslator({ domain: 'cluster.local' });
      const made = new Map<ResourceKey, AnyResource>();
      collect(made, fresh.apply(setChanges([...documents.values()])));
      assert.deepEqual(resultOf(translator, derived), resultOf(fresh, made));
    }),
    { numRuns: 500 },
  );
});
