/** What ctl-discovery asks a real API server for, with everything on that reads it. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createScope, type Discovery, eventually, startDiscovery, tempDir } from '../harness/index.ts';
import {
  applyGatewayDefinitions,
  conformanceUnavailable,
  type Kubernetes,
  kubeconfig,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';
import { type FaultyProxy, startFaultyProxy } from './support/faulty-proxy.ts';

const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? false;

const GATEWAY_KINDS = ['gatewayclasses', 'gateways', 'httproutes', 'grpcroutes', 'backendtlspolicies'];

describe('a replica that leads, with all features that read the API server', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let proxy: FaultyProxy;
  let discovery: Discovery;

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    await applyGatewayDefinitions(cluster.api);
    proxy = await startFaultyProxy(owner, cluster);
    await cluster.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'mesh-system' } }]);
    const file = join(await tempDir(owner), 'kubeconfig');
    await writeFile(file, kubeconfig({ ...cluster.as(cluster.admin), url: proxy.url, ca: proxy.ca }));
    discovery = await startDiscovery(owner, {
      flags: ['--kubeconfig', file],
      env: { CTL_USE_ENDPOINT_SLICE: 'true', CTL_ENABLED_SERVICE_APIS: 'true' },
    });
    // It leads all of its tasks once it has written what each of them writes first.
    await eventually(async () => {
      await cluster.api.get('/api/v1/namespaces/default/configmaps/mesh-ca-root-cert');
      for (const path of LEADER_READS)
        assert.ok(
          proxy.reads.some((read) => read.path === path),
          `${path} is followed`,
        );
    });
  });
  after(() => owner.close());

  const LEADER_READS = [
    '/apis/apps/v1/deployments',
    '/apis/networking.k8s.io/v1/ingresses',
    ...GATEWAY_KINDS.map((plural) => `/apis/gateway.networking.k8s.io/v1/${plural}`),
    '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations',
  ];

  test('lists and watches each collection once', () => {
    const reads = Map.groupBy(proxy.reads, ({ path, selector }) => `${path} ${selector}`);
    const repeated = [...reads].filter(([, all]) => {
      const lists = all.filter(({ kind }) => kind !== 'watch').length;
      const watches = all.filter(({ kind }) => kind !== 'list').length;
      return lists !== 1 || watches !== 1;
    });
    assert.deepEqual(
      repeated.map(([collection, all]) => `${collection}: ${all.map(({ kind }) => kind).join(', ')}`),
      [],
    );
    assert.match(discovery.output(), /serving/);
  });

  test('lists no kind a second time by another selection of all namespaces, except the objects of gateways', () => {
    const everywhere = proxy.reads.filter(({ path, kind }) => !path.includes('/namespaces/') && kind !== 'watch');
    const byPath = Map.groupBy(everywhere, ({ path }) => path);
    const several = [...byPath].filter(([, all]) => all.length > 1).map(([path]) => path);
    // All fields are read of the few that have the label of gateways, and some fields of all the others.
    assert.deepEqual(several.sort(), ['/api/v1/pods', '/api/v1/serviceaccounts', '/api/v1/services']);
  });
});
