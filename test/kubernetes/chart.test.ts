/** The Helm charts of `deploy/charts`, rendered by Helm and applied to a real API server. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import { CONTROLLER_NAME } from '../../src/translators/gateway-api/index.ts';
import { createNetworkHere, eventually, netnsUnavailable, request, tempDir } from '../harness/index.ts';
import {
  type ApiObject,
  applyGatewayDefinitions,
  type ChartName,
  conformanceUnavailable,
  exposeApiServer,
  helmUnavailable,
  type KubernetesApi,
  kubernetesUnavailable,
  lintChart,
  programImage,
  renderChart,
  startKubelet,
  startKubernetes,
} from '../harness/kubernetes/index.ts';
import { objectsOf, ofKind } from './support/chart-objects.ts';
import { applyOperatorStandIns } from './support/operator-definitions.ts';

const withoutHelm = helmUnavailable() ?? false;
const skip = kubernetesUnavailable() ?? withoutHelm;
const skipPods = skip || ((await netnsUnavailable()) ?? false);

const SYSTEM = 'mesh-system';

const scheduling = {
  nodeSelector: { 'kubernetes.io/os': 'linux' },
  tolerations: [{ key: 'dedicated', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  priorityClassName: 'system-cluster-critical',
};
const common = {
  ...scheduling,
  revision: 'canary',
  image: { repository: 'registry.example/meshd', digest: `sha256:${'0'.repeat(64)}`, pullPolicy: 'Always' },
  imagePullSecrets: [{ name: 'registry' }],
  replicas: 3,
  autoscaling: { enabled: false },
  podDisruptionBudget: { maxUnavailable: '50%' },
  extraEnv: [{ name: 'CTL_HTTP10', value: 'true' }],
  serviceAccount: { annotations: { a: 'b' } },
  podAnnotations: { a: 'b' },
  podLabels: { team: 'mesh' },
};

/** Values that turn on everything that the default leaves out. */
const MAXIMAL: Readonly<Record<ChartName, object>> = {
  'ctl-discovery': {
    ...common,
    meshConfig: { trustDomain: 'example.org', defaultConfig: { concurrency: 2 } },
    meshNetworks: { networks: {} },
    endpointSlices: false,
    appNamespaces: ['shop', 'bank'],
    clusterID: 'east',
    credentialNames: ['shop-tls'],
    remoteClusters: { enabled: true },
    gatewayApi: { enabled: true, authorityNames: ['authorities'], image: 'registry.example/ctl-agent:1' },
    injection: {
      image: 'registry.example/ctl-agent:1',
      istioLabels: false,
      allNamespaces: true,
      failurePolicy: 'Ignore',
      config: { policy: 'enabled' },
      values: { global: { proxy: { logLevel: 'debug' } } },
    },
    validation: { failurePolicy: 'Ignore' },
    plainText: { enabled: true },
    dns: { enabled: true },
    extraArgs: ['--log_as_json'],
    service: { annotations: { a: 'b' } },
    monitoring: {
      labels: { release: 'stack' },
      serviceMonitor: { enabled: true, interval: '30s' },
      podMonitor: { enabled: true, interval: '30s' },
      rules: { enabled: true, alerts: true, istioNames: true },
      boards: { enabled: true, labels: { grafana_dashboard: '1' }, annotations: { grafana_folder: 'Mesh' } },
    },
    networkPolicy: { monitoring: [{ namespaceSelector: {} }], egress: [{ ports: [{ port: 443 }] }] },
  },
  gateway: {
    ...common,
    name: 'ingress',
    labels: { app: 'ingress' },
    service: {
      type: 'NodePort',
      annotations: { a: 'b' },
      externalTrafficPolicy: 'Local',
      ports: [{ name: 'https', port: 443, nodePort: 31_443 }],
    },
    clusterID: 'east',
    network: 'one',
    trustDomain: 'example.org',
    proxyConfig: { concurrency: 2 },
    readSecrets: false,
  },
};

/** A namespace in which the API server refuses Pods that are not restricted (Pod Security Standards). */
async function restrictedNamespace(api: KubernetesApi, name: string): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }]);
}

/** The Pod that a Deployment would have. */
const podOf = ({ metadata, spec }: ApiObject, namespace: string): ApiObject => {
  const { template } = spec as { template: { metadata: object; spec: object } };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...template.metadata, name: metadata.name, namespace },
    spec: template.spec,
  };
};

for (const chart of ['ctl-discovery', 'gateway'] as const) {
  test(`the linter of Helm accepts the chart ${chart}`, { skip: withoutHelm }, async (t) => {
    await lintChart(t, chart);
    await lintChart(t, chart, MAXIMAL[chart]);
  });

  test(`the chart ${chart} refuses a value that it does not know`, { skip: withoutHelm }, async (t) => {
    const misspelt = renderChart(t, { chart, namespace: SYSTEM, values: { drainSecnds: 5 } });
    await assert.rejects(misspelt, /additional properties 'drainSecnds' not allowed/);
  });

  test(`the chart ${chart} renders as reviewed`, { skip: withoutHelm }, async (t) => {
    // The rules of roles are reviewed where they are written; deploy/rbac.yaml has all of them.
    const rendered = (await renderChart(t, { chart, namespace: SYSTEM })).replace(
      /^rules:\n(?:^ .*\n)+/gm,
      'rules: […]\n',
    );
    const file = join(import.meta.dirname, `golden/${chart}.yaml`);
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(file, rendered);
    const update = 'read the difference, then: UPDATE_GOLDEN=1 npm test -- kubernetes chart';
    assert.equal(rendered, readFileSync(file, 'utf8'), update);
  });
}

test('the API server accepts the objects of both charts with strict validation', { skip }, async (t) => {
  const { api } = await startKubernetes(t);
  await restrictedNamespace(api, SYSTEM);
  await applyOperatorStandIns(api);
  for (const chart of ['ctl-discovery', 'gateway'] as const)
    for (const values of [{}, MAXIMAL[chart]]) {
      const objects = objectsOf(await renderChart(t, { chart, namespace: SYSTEM, values, definitions: true }));
      await api.apply(objects);
      // A Deployment is accepted whatever its Pods may do: the rule is for Pods.
      await api.apply([podOf(ofKind(objects, 'Deployment'), SYSTEM)], { dryRun: true });
    }
  const pod = podOf(
    ofKind(objectsOf(await renderChart(t, { chart: 'gateway', namespace: SYSTEM })), 'Deployment'),
    SYSTEM,
  );
  const { securityContext: _, ...open } = pod.spec as { securityContext: object };
  await assert.rejects(api.apply([{ ...pod, spec: open }], { dryRun: true }), /violates PodSecurity "restricted/);
});

test('the chart creates the class of the Gateway API', {
  skip: skip || (conformanceUnavailable() ?? false),
}, async (t) => {
  const { api } = await startKubernetes(t);
  await applyGatewayDefinitions(api);
  const values = { gatewayApi: { enabled: true } };
  const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
  const gatewayClass = ofKind(objects, 'GatewayClass');
  // Without its class a Gateway is taken down: another revision may serve it.
  const { annotations } = gatewayClass.metadata as { annotations?: Record<string, string> };
  assert.equal(annotations?.['helm.sh/resource-policy'], 'keep');
  const [stored] = await api.apply([gatewayClass]);
  assert.deepEqual(stored?.spec, { controllerName: CONTROLLER_NAME });
});

test('the class and the program have the controller name of the values', { skip: withoutHelm }, async (t) => {
  const render = (controllerName: string) =>
    renderChart(t, {
      chart: 'ctl-discovery',
      namespace: SYSTEM,
      values: { gatewayApi: { enabled: true, controllerName } },
    });
  const objects = objectsOf(await render('example.com/gateways'));
  assert.deepEqual(ofKind(objects, 'GatewayClass').spec, { controllerName: 'example.com/gateways' });
  const variable = { name: 'CTL_GATEWAY_API_CONTROLLER_NAME', value: 'example.com/gateways' };
  const deployment = ofKind(objects, 'Deployment').spec as { template: { spec: { containers: { env: unknown[] }[] } } };
  const { env = [] } = deployment.template.spec.containers[0] ?? {};
  assert.ok(env.some((each) => isDeepStrictEqual(each, variable)));
  await assert.rejects(render('gateways'), /controllerName/);
});

test('the chart has the definitions of the mesh and not those of Istio', { skip: withoutHelm }, async (t) => {
  const rendered = await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, definitions: true });
  const names = objectsOf(rendered)
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
    .map(({ metadata }) => metadata.name);
  assert.ok(names.includes('virtualservices.networking.mesh.io'));
  assert.ok(
    names.every((name) => name.endsWith('.mesh.io')),
    names.join(),
  );
});

test('two revisions have no object in common', { skip: withoutHelm }, async (t) => {
  const render = async (revision: string) => {
    const values = { revision };
    return objectsOf(await renderChart(t, { chart: 'ctl-discovery', release: 'm', namespace: SYSTEM, values }));
  };
  const names = (await Promise.all(['', 'canary'].map(render))).map((objects) =>
    objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`),
  );
  assert.equal(new Set(names.flat()).size, names.flat().length);
});

test('the image of injected proxies is a value of their templates', { skip: withoutHelm }, async (t) => {
  const valuesOf = async (values: object) => {
    const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
    const [found] = objects.filter(({ kind, metadata }) => kind === 'ConfigMap' && /injector/.test(metadata.name));
    return parse((found?.data as { values: string } | undefined)?.values ?? '') as object;
  };
  const image = 'registry.example/ctl-agent:1';
  assert.deepEqual(await valuesOf({}), {});
  assert.deepEqual(await valuesOf({ injection: { image, values: { global: { proxy: { logLevel: 'debug' } } } } }), {
    global: { proxy: { image, logLevel: 'debug' } },
  });
});

test('without peers for monitoring, the NetworkPolicy opens no debug pages', { skip: withoutHelm }, async (t) => {
  // An empty list of peers would mean everybody.
  for (const monitoring of [[], null]) {
    const values = { networkPolicy: { monitoring } };
    const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
    const { ingress } = ofKind(objects, 'NetworkPolicy').spec as { ingress: readonly { ports: { port: number }[] }[] };
    assert.deepEqual(
      ingress.flatMap(({ ports }) => ports.map(({ port }) => port)),
      [15_012, 15_017],
    );
  }
});

test('the revision named default is the same as none', { skip: withoutHelm }, async (t) => {
  for (const chart of ['ctl-discovery', 'gateway'] as const) {
    const render = (values: object) => renderChart(t, { chart, namespace: SYSTEM, values });
    assert.equal(await render({ revision: 'default' }), await render({}));
  }
});

test('a revision of digits stays a text', { skip: withoutHelm }, async (t) => {
  const values = { revision: '2' };
  const objects = objectsOf(await renderChart(t, { chart: 'ctl-discovery', namespace: SYSTEM, values }));
  const { template, selector } = ofKind(objects, 'Deployment').spec as {
    selector: { matchLabels: Record<string, unknown> };
    template: { spec: { containers: { env: { name: string; value?: unknown }[] }[] } };
  };
  const env = template.spec.containers[0]?.env.find(({ name }) => name === 'REVISION');
  assert.deepEqual([env?.value, selector.matchLabels['mesh.io/rev']], ['2', '2']);
});

test('labels of Pods cannot replace those of the selector', { skip: withoutHelm }, async (t) => {
  const values = { podLabels: { 'app.kubernetes.io/name': 'mine', team: 'mesh' } };
  for (const chart of ['ctl-discovery', 'gateway'] as const) {
    const objects = objectsOf(await renderChart(t, { chart, namespace: SYSTEM, values }));
    const { template, selector } = ofKind(objects, 'Deployment').spec as {
      selector: { matchLabels: Record<string, string> };
      template: { metadata: { labels: Record<string, string> } };
    };
    const { labels } = template.metadata;
    assert.deepEqual(labels, { ...labels, ...selector.matchLabels, team: 'mesh' });
  }
});

test('a budget that forbids every eviction is refused', { skip: withoutHelm }, async (t) => {
  for (const chart of ['ctl-discovery', 'gateway'] as const)
    for (const maxUnavailable of [0, '0%', '0']) {
      const values = { podDisruptionBudget: { maxUnavailable } };
      await assert.rejects(renderChart(t, { chart, namespace: SYSTEM, values }), /maxUnavailable/);
    }
});

interface ListedPod extends ApiObject {
  readonly status: { readonly podIP?: string; readonly conditions?: readonly { type: string; status: string }[] };
}

const isReady = ({ status }: ListedPod) =>
  (status.conditions ?? []).some((condition) => condition.type === 'Ready' && condition.status === 'True');

test('replicas of the chart become ready with its account and nothing is forbidden', { skip: skipPods }, async (t) => {
  const cluster = await startKubernetes(t, { controllerManager: true });
  const apiPort = await exposeApiServer(t, cluster.url);
  const log = join(await tempDir(t), 'discovery.log');
  const images = { 'ctl-discovery:0.1.0': programImage('ctl-discovery', { log, apiPort }) };
  await startKubelet(t, { api: cluster.api, network: await createNetworkHere(t), images });
  await restrictedNamespace(cluster.api, SYSTEM);
  // With the fewest and with the most permissions.
  const some = { autoscaling: { enabled: false } };
  const enabled = { enabled: true };
  const statuses = { reconciled: true, analysis: true };
  const options = { gatewayApi: enabled, remoteClusters: enabled, workloadRegistration: enabled, statuses };
  const all = { ...some, revision: 'all', ...options };
  for (const values of [some, all]) {
    const release = { chart: 'ctl-discovery', namespace: SYSTEM, values, definitions: values === some } as const;
    await cluster.api.apply(await renderChart(t, release));
  }

  const pods = await eventually(
    async () => {
      const { items } = await cluster.api.get<{ items: ListedPod[] }>(`/api/v1/namespaces/${SYSTEM}/pods`);
      assert.equal(items.filter(isReady).length, 4, await readFile(log, 'utf8').catch(() => 'no log'));
      return items;
    },
    { timeoutMs: 90_000 },
  );
  for (const { status } of pods)
    assert.equal((await request({ address: status.podIP ?? '', port: 8080, path: '/ready' })).status, 200);
  const lines = (await readFile(log, 'utf8')).split('\n');
  assert.deepEqual(
    lines.filter((line) => /\terror\t|forbidden/i.test(line)),
    [],
  );
});
