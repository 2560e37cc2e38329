/** The same documents in an API server and in a directory give the same mesh, through random edits. */
import assert from 'node:assert/strict';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../../src/core/clock.ts';
import * as fc from '../../src/core/testing/properties.ts';
import { emptyMesh } from '../../src/model/testing/build.ts';
import { dumpSnapshot } from '../../src/model/testing/dump.ts';
import { replay } from '../../src/model/testing/steps.ts';
import type { AnyResource, ResourceKey } from '../../src/resources/index.ts';
import { createDirectorySource } from '../../src/sources/index.ts';
import { createStore, type Store } from '../../src/store/index.ts';
import { createScope, eventually, type Owner, tempDir } from '../harness/index.ts';
import { type ApiObject, kubernetesUnavailable, startKubernetes } from '../harness/kubernetes/index.ts';
import { followSource } from './support/followed-source.ts';

const skip = kubernetesUnavailable() ?? false;

/** Namespaces and names are few, so that objects are often about each other and change often. */
const NAMES = ['x', 'y'];
const NETWORKING = 'networking.mesh.io/v1alpha3';
const SECURITY = 'security.mesh.io/v1beta1';

type Fields = Readonly<Record<string, unknown>>;

const name = fc.constantFrom(...NAMES);
const host = fc.constantFrom('x', 'y', 'api.example.com', '*.example.com');
const address = fc.constantFrom('10.244.9.1', '10.244.9.2', 'fd00::9');
const labels = fc.constantFrom({ app: 'x' }, { app: 'y', 'topology.mesh.io/network': 'n1' });
const exportTo = fc.constantFrom({}, { exportTo: ['.'] }, { exportTo: ['*'] });
const ports = fc.constantFrom(
  [{ name: 'http', port: 80, protocol: 'TCP' }],
  [
    { name: 'http', port: 80, protocol: 'TCP', targetPort: 'web' },
    { name: 'tcp-db', port: 3306, protocol: 'TCP', targetPort: 33 },
  ],
);

/** Documents without their namespace and name. */
const documents: Readonly<Record<string, fc.Arbitrary<Fields>>> = {
  Service: fc
    .record({ ports, labels, type: fc.constantFrom('ClusterIP', 'LoadBalancer') })
    .map(({ ports, labels, type }) => ({ apiVersion: 'v1', spec: { ports, selector: labels, type } })),
  Pod: fc.record({ labels, address, phase: fc.constantFrom('Running', 'Pending') }).map((pod) => ({
    apiVersion: 'v1',
    labels: pod.labels,
    spec: { containers: [{ name: 'app', image: 'none', ports: [{ name: 'web', containerPort: 8080 }] }] },
    status: { phase: pod.phase, podIP: pod.address, podIPs: [{ ip: pod.address }] },
  })),
  EndpointSlice: fc.record({ service: name, address, ready: fc.boolean(), pod: name }).map((slice) => ({
    apiVersion: 'discovery.k8s.io/v1',
    labels: { 'kubernetes.io/service-name': slice.service },
    addressType: slice.address.includes(':') ? 'IPv6' : 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [
      {
        addresses: [slice.address],
        conditions: { ready: slice.ready },
        targetRef: { kind: 'Pod', name: slice.pod },
      },
    ],
  })),
  VirtualService: fc.record({ host, target: fc.constantFrom('x', 'api.example.com'), exportTo }).map((route) => ({
    apiVersion: NETWORKING,
    spec: { hosts: [route.host], http: [{ route: [{ destination: { host: route.target } }] }], ...route.exportTo },
  })),
  DestinationRule: fc.record({ host, max: fc.integer({ min: 1, max: 9 }), exportTo }).map((rule) => ({
    apiVersion: NETWORKING,
    spec: {
      host: rule.host,
      trafficPolicy: { connectionPool: { tcp: { maxConnections: rule.max } } },
      ...rule.exportTo,
    },
  })),
  ServiceEntry: fc.record({ host, address, exportTo }).map((entry) => ({
    apiVersion: NETWORKING,
    spec: {
      hosts: [entry.host],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      location: 'MESH_INTERNAL',
      endpoints: [{ address: entry.address }],
      ...entry.exportTo,
    },
  })),
  Sidecar: fc.record({ labels, hosts: fc.constantFrom(['./*'], ['*/x', './y'], ['*/*']) }).map((sidecar) => ({
    apiVersion: NETWORKING,
    spec: { workloadSelector: { labels: sidecar.labels }, egress: [{ hosts: sidecar.hosts }] },
  })),
  PeerAuthentication: fc
    .record({ labels, mode: fc.constantFrom('STRICT', 'PERMISSIVE') })
    .map(({ labels, mode }) => ({ apiVersion: SECURITY, spec: { selector: { matchLabels: labels }, mtls: { mode } } })),
  AuthorizationPolicy: fc.record({ labels, action: fc.constantFrom('ALLOW', 'DENY') }).map(({ labels, action }) => ({
    apiVersion: SECURITY,
    spec: { selector: { matchLabels: labels }, action, rules: [{ to: [{ operation: { ports: ['80'] } }] }] },
  })),
};

interface Edit {
  readonly kind: string;
  readonly name: string;
  readonly namespace: number;
  readonly content: Fields;
  readonly remove: boolean;
}

const edit: fc.Arbitrary<Edit> = fc.constantFrom(...Object.keys(documents)).chain((kind) =>
  fc.record({
    kind: fc.constant(kind),
    name,
    namespace: fc.nat(1),
    content: documents[kind] ?? fc.constant({}),
    remove: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  }),
);
const history = fc.array(fc.array(edit, { minLength: 1, maxLength: 8 }), { minLength: 10, maxLength: 10 });

function objectOf({ kind, name, content }: Edit, namespace: string): ApiObject {
  const { apiVersion, labels, ...rest } = content;
  const metadata = { name, namespace, ...(labels === undefined ? {} : { labels: labels as Record<string, string> }) };
  return { apiVersion: String(apiVersion), kind, metadata, ...rest };
}

async function followDirectory(owner: Owner, dir: string): Promise<Store> {
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const source = createDirectorySource({ dir, cluster: 'here', log, clock: systemClock, resyncMs: 0 });
  const store = createStore({
    sources: [source],
    cluster: 'here',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: () => {},
    onResolved: () => {},
  });
  source.start({
    apply: (events) => void store.apply(source.id, events),
    replace: (list) => void store.replace(source.id, list),
    changing: () => {},
  });
  owner.after(() => source.close());
  await source.synced;
  return store;
}

function withoutOrigin(resource: AnyResource): AnyResource {
  return { ...resource, origin: { source: 'any' } };
}

function plain(resource: AnyResource | undefined): string {
  return resource === undefined ? 'nothing' : JSON.stringify(withoutOrigin(resource));
}

/** What is in force under these keys, without where it came from. */
function resourcesOf(store: Store, keys: Iterable<ResourceKey>): AnyResource[] {
  return [...keys].sort().flatMap((key) => {
    const resource = store.get(key);
    return resource === undefined ? [] : [withoutOrigin(resource)];
  });
}

function meshOf(resources: readonly AnyResource[], namespaces: readonly string[]): unknown {
  const snapshot = replay(emptyMesh(), resources);
  return dumpSnapshot(snapshot, {
    proxies: namespaces.flatMap((namespace) => [{ app: 'x' }, { app: 'y' }].map((own) => ({ namespace, labels: own }))),
    hosts: [...namespaces.flatMap((ns) => NAMES.map((each) => `${each}.${ns}.svc.cluster.local`)), 'api.example.com'],
    addresses: ['10.244.9.1', '10.244.9.2', 'fd00::9'],
    networks: ['', 'n1'],
    gateways: [],
  });
}

test('the same documents in an API server and in a directory give the same mesh', { skip }, async () => {
  const owner = createScope();
  try {
    const cluster = await startKubernetes(owner, { definitions: true });
    await fc.assert(
      fc.asyncProperty(history, async (batches) => {
        const namespaces = [await cluster.newNamespace(), await cluster.newNamespace()];
        const folder = await tempDir(owner);
        const [followed, directory] = [await followSource(owner, cluster), await followDirectory(owner, folder)];
        await followed.source.synced;
        const versions = new Map<ResourceKey, string | undefined>();
        for (const batch of batches) {
          for (const each of batch) {
            const object = objectOf(each, namespaces[each.namespace] ?? '');
            const { namespace = '', name: objectName } = object.metadata;
            const file = join(folder, `${object.kind}-${namespace}-${objectName}.json`);
            const key = `${object.kind}/${namespace}/${objectName}`;
            // Fields such as the type of addresses cannot change in place.
            if (each.remove || object.kind === 'EndpointSlice' || object.kind === 'Pod') {
              await cluster.api.delete(object);
              await rm(file, { force: true });
              versions.set(key, undefined);
            }
            if (each.remove) continue;
            const stored = (await cluster.api.apply([object])).at(-1);
            await writeFile(`${file}.draft`, JSON.stringify(stored));
            await rename(`${file}.draft`, file);
            versions.set(key, (stored?.metadata as { resourceVersion?: string } | undefined)?.resourceVersion);
          }
          await eventually(
            () => {
              for (const [key, version] of versions) {
                assert.equal(followed.store.get(key)?.origin.resourceVersion, version, key);
                const [fromServer, fromFile] = [followed.store, directory].map((store) => plain(store.get(key)));
                assert.equal(fromFile, fromServer);
              }
            },
            { timeoutMs: 30_000 },
          );
          const [fromServer, fromFiles] = [followed.store, directory].map((store) =>
            meshOf(resourcesOf(store, versions.keys()), namespaces),
          );
          // The test runner takes minutes to show differences of values of this size.
          assert.ok(isDeepStrictEqual(fromFiles, fromServer), 'the same resources give the same mesh');
        }
        assert.ok(resourcesOf(directory, versions.keys()).length > 0);
      }),
      { numRuns: 4, endOnFailure: true },
    );
  } finally {
    await owner.close();
  }
});
