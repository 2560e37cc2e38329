/** Injection again, after other webhooks changed the injected Pod in any way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { PodObject } from '../types.ts';
import { createInjector } from './index.ts';
import { recordOf, recordsOf } from './pod-shape.ts';
import { injected, SETTINGS, webPod } from './testing/settings.ts';

interface Container {
  readonly name: string;
  readonly [field: string]: unknown;
}
interface Spec {
  containers: Container[];
  initContainers: Container[];
  volumes: { readonly name: string }[];
}
interface Mutable {
  readonly metadata: { readonly labels: Record<string, string>; readonly annotations: Record<string, string> };
  readonly spec: Spec;
}

const PROBES = ['readinessProbe', 'livenessProbe', 'startupProbe'];
const probe = fc.constantFrom(
  {},
  { readinessProbe: { httpGet: { path: '/a', port: 'http' } } },
  { livenessProbe: { tcpSocket: { port: 8080 } }, startupProbe: { grpc: { port: 90 } } },
  { readinessProbe: { exec: { command: ['true'] } } },
);
const ports = [{ name: 'http', containerPort: 8080 }];
const container = (name: string) => probe.map((probes): Container => ({ name, image: 'i', ports, ...probes }));

const pods = fc
  .record({
    app: container('app'),
    init: container('init').map((each): Container => ({ ...each, restartPolicy: 'Always' })),
    annotations: fc.constantFrom<Record<string, string>[]>(
      {},
      { 'prometheus.io/scrape': 'true', 'prometheus.io/port': '9090' },
      { 'sidecar.mesh.io/nativeSidecar': 'false', 'proxy.mesh.io/config': 'holdApplicationUntilProxyStarts: true' },
    ),
  })
  .map(({ app, init, annotations }) =>
    webPod({ metadata: { labels: {}, annotations }, spec: { containers: [app], initContainers: [init] } }),
  );

const without = <T extends { readonly name: string }>(list: readonly T[], name: string): T[] =>
  list.filter((each) => each.name !== name);

const changes = fc.array(
  fc.oneof(
    container('other').map((other) => ({ spec }: Mutable) => {
      spec.containers = [other, ...without(spec.containers, 'other')];
    }),
    container('first').map((first) => ({ spec }: Mutable) => {
      spec.initContainers = [first, ...without(spec.initContainers, 'first')];
    }),
    container('app').map((app) => ({ spec }: Mutable) => {
      spec.containers = [...without(spec.containers, 'app'), app];
    }),
    fc.constant(({ spec }: Mutable) => {
      spec.initContainers = without(spec.initContainers, 'mesh-init');
      spec.volumes = without(spec.volumes, 'mesh-pod');
    }),
    fc.constant(({ spec }: Mutable) => {
      spec.containers.reverse();
      spec.initContainers.reverse();
    }),
    fc.nat(9).map((number) => ({ metadata, spec }: Mutable) => {
      metadata.labels.other = 'x';
      metadata.annotations['prometheus.io/port'] = `900${number}`;
      spec.volumes = [{ name: 'other' }, ...without(spec.volumes, 'other')];
    }),
  ),
  { maxLength: 4 },
);

function probesOfAgent(pod: PodObject): readonly string[] {
  const spec = recordOf(pod.spec);
  return [...recordsOf(spec.initContainers), ...recordsOf(spec.containers)].flatMap((each) =>
    PROBES.flatMap((field) => {
      const { path } = recordOf(recordOf(each[field]).httpGet);
      return typeof path === 'string' && path.startsWith('/app-health/') ? [path] : [];
    }),
  );
}

test('whatever others change, the next injection completes the Pod, and the one after it changes nothing', () => {
  const injector = createInjector(SETTINGS);
  fc.assert(
    fc.property(pods, changes, (pod, others) => {
      const changed = structuredClone(injected(injector, pod)) as unknown as Mutable;
      for (const change of others) change(changed);
      const again = injected(injector, changed as unknown as PodObject);
      assert.deepEqual(injected(injector, again), again);
      const { containers, initContainers, volumes } = again.spec as Spec;
      const names = initContainers.map(({ name }) => name);
      const proxy = [...initContainers, ...containers].find(({ name }) => name === 'mesh-proxy');
      if (names.includes('mesh-proxy')) assert.deepEqual(names.slice(0, 2), ['mesh-init', 'mesh-proxy']);
      else assert.equal(names.at(-1), 'mesh-init');
      assert.ok(volumes.some(({ name }) => name === 'mesh-pod'));
      // The agent has the original of each probe that leads to it, and no others.
      const variable = recordsOf(proxy?.env).find(({ name }) => name === 'MESH_ORCH_APP_PROBERS');
      const known = Object.keys(JSON.parse(String(variable?.value ?? '{}')));
      assert.deepEqual(probesOfAgent(again).toSorted(), known.toSorted());
    }),
    { numRuns: 300 },
  );
});
