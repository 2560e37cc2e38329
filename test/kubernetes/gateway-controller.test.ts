/**
 * The controller of the Gateway API with a real API server, under the rights of deploy/rbac.yaml: what it writes to
 * statuses, and the objects that run a Gateway.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { DesiredStatus } from '../../src/gateway-controller/index.ts';
import { createScope, eventually } from '../harness/index.ts';
import { conformanceUnavailable, type Kubernetes, kubernetesUnavailable } from '../harness/kubernetes/index.ts';
import {
  API,
  accepted,
  CONTROLLER,
  condition,
  connect,
  type Fields,
  gateway,
  keyOf,
  NS,
  readObject,
  startController,
  startGatewayCluster,
  startReadyPod,
} from './support/gateway-controller.ts';

const skip = kubernetesUnavailable() ?? conformanceUnavailable() ?? false;

const route = (name: string) => ({
  apiVersion: API,
  kind: 'HTTPRoute',
  metadata: { name, namespace: NS },
  spec: { parentRefs: [{ name: 'web' }] },
});

const attached = (name: string, reason = 'Accepted'): DesiredStatus => ({
  kind: 'HTTPRoute',
  namespace: NS,
  name,
  status: {
    parents: [
      {
        // Without group and kind, which the server adds.
        parentRef: { name: 'web' },
        controllerName: CONTROLLER,
        conditions: [condition('Accepted', reason === 'Accepted' ? 'True' : 'False', reason)],
      },
    ],
  },
});

interface Parent {
  readonly controllerName: string;
  readonly conditions: readonly { readonly status: string; readonly reason: string; lastTransitionTime: string }[];
}

describe('the controller of the Gateway API', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;

  before(async () => {
    cluster = await startGatewayCluster(owner);
  });
  after(() => owner.close());

  const read = (apiVersion: string, kind: string, name: string) => readObject(cluster, apiVersion, kind, name);
  const parentsOf = async (name: string): Promise<readonly Parent[]> =>
    ((await read(API, 'HTTPRoute', name)).status as { parents: Parent[] }).parents;

  test('each accepted Gateway gets its Deployment, Service and ServiceAccount', async (t) => {
    const reserved = { 'gateway.networking.k8s.io/gateway-name': 'other', 'gateway.mesh.io/managed': 'no' };
    const infrastructure = { labels: { team: 'edge', ...reserved }, annotations: { cost: 'low', ...reserved } };
    const [created] = await cluster.api.apply([gateway('web', { infrastructure })]);
    await startController(t, cluster, [accepted('web')]);
    const [account, deployment, service] = await eventually(() =>
      Promise.all([
        read('v1', 'ServiceAccount', 'web-meshd'),
        read('apps/v1', 'Deployment', 'web-meshd'),
        read('v1', 'Service', 'web-meshd'),
      ]),
    );
    for (const { metadata } of [account, deployment, service]) {
      const labels = metadata.labels as Fields;
      assert.deepEqual([labels.team, labels['gateway.networking.k8s.io/gateway-name']], ['edge', 'web']);
      assert.deepEqual(Object.keys(metadata.annotations as Fields).sort(), ['cost', 'gateway.mesh.io/applied']);
      const [reference] = metadata.ownerReferences as Fields[];
      assert.deepEqual([reference?.kind, reference?.name, reference?.uid], ['Gateway', 'web', created?.metadata.uid]);
    }
    const spec = service.spec as { type: string; ports: { port: number; targetPort: number }[] };
    assert.equal(spec.type, 'LoadBalancer');
    assert.deepEqual(
      spec.ports.map(({ port, targetPort }) => [port, targetPort]),
      [[80, 80]],
    );
    const { template } = deployment.spec as {
      template: { metadata: Fields; spec: { serviceAccountName: string; containers: Fields[] } };
    };
    assert.equal(template.spec.serviceAccountName, 'web-meshd');
    assert.deepEqual(template.spec.containers[0]?.args, ['proxy', 'router']);
    assert.deepEqual(template.metadata, {
      labels: {
        team: 'edge',
        'gateway.networking.k8s.io/gateway-name': 'web',
        'sidecar.istio.io/inject': 'false',
        'sidecar.mesh.io/inject': 'false',
      },
      annotations: { cost: 'low' },
    });
  });

  test('edited objects of a Gateway are repaired, deleted ones come back, and new listeners become ports', async (t) => {
    await cluster.api.apply([gateway('mended')]);
    const running = await startController(t, cluster, [accepted('mended')]);
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'mended-meshd', namespace: NS } };
    const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'mended-meshd', namespace: NS } };
    await eventually(() => read('v1', 'Service', 'mended-meshd'));
    await cluster.api.patch(deployment, { spec: { replicas: 3, template: { spec: { serviceAccountName: 'admin' } } } });
    await cluster.api.delete(service);
    await eventually(async () => {
      const { spec } = await read('apps/v1', 'Deployment', 'mended-meshd');
      const { template, replicas } = spec as { template: { spec: Fields }; replicas: number };
      assert.equal(template.spec.serviceAccountName, 'mended-meshd');
      assert.equal(replicas, 3);
      await read('v1', 'Service', 'mended-meshd');
    });
    const listeners = [
      { name: 'http', port: 8080, protocol: 'HTTP' },
      { name: 'other', port: 8080, protocol: 'HTTP', hostname: 'other.example' },
      { name: 'tls', port: 443, protocol: 'TLS', tls: { mode: 'Passthrough' } },
    ];
    await cluster.api.apply([gateway('mended', { listeners })]);
    await eventually(async () => {
      const { spec } = await read('v1', 'Service', 'mended-meshd');
      const ports = (spec as { ports: { port: number }[] }).ports.map(({ port }) => port);
      assert.deepEqual(ports, [8080, 443]);
    });
    assert.deepEqual(running.log, []);
  });

  test('a Gateway does not take over an object that somebody else made', async (t) => {
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'taken-meshd', namespace: NS },
      spec: { ports: [{ port: 1 }] },
    };
    await cluster.api.apply([service, gateway('taken')]);
    const running = await startController(t, cluster, [accepted('taken')]);
    await eventually(() =>
      assert.match(
        running.log.join('\n'),
        /Gateway edge\/taken is not deployed as specified: Service taken-meshd exists/,
      ),
    );
    const { spec } = await read('v1', 'Service', 'taken-meshd');
    assert.equal((spec as { ports: { port: number }[] }).ports[0]?.port, 1);
    assert.equal(running.log.length, 1);
    const programmed = async () =>
      ((await read(API, 'Gateway', 'taken')).status as { conditions: Fields[] }).conditions.find(
        ({ type }) => type === 'Programmed',
      );
    await eventually(async () => {
      const { status, reason, message } = (await programmed()) ?? {};
      const problem =
        'Service taken-meshd exists and was not created by this program: rename the Gateway or delete the object';
      assert.deepEqual([status, reason, message], ['False', 'Invalid', `not deployed: ${problem}`]);
    });
    await cluster.api.delete(service);
    await startReadyPod(cluster, 'taken');
    await eventually(async () => {
      assert.ok((await read('v1', 'Service', 'taken-meshd')).metadata.ownerReferences);
      assert.equal((await programmed())?.status, 'True');
    });
  });

  test('a Gateway whose name is too long for a Service says so in its status, and gets no object', async (t) => {
    const name = 'l'.repeat(58);
    await cluster.api.apply([gateway(name)]);
    await startController(t, cluster, [accepted(name)]);
    await eventually(async () => {
      const { conditions } = (await read(API, 'Gateway', name)).status as { conditions: Fields[] };
      const { status, message } = conditions.find(({ type }) => type === 'Programmed') ?? {};
      assert.equal(status, 'False');
      assert.match(String(message), /metadata.name: expected at most 57 characters of a-z, 0-9 and -/);
    });
    await assert.rejects(read('apps/v1', 'Deployment', `${name}-meshd`), /404/);
  });

  test('an object that was replaced by another of its name is neither changed nor deleted', async (t) => {
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'replaced', namespace: NS } };
    const [first] = await cluster.api.apply([account]);
    await cluster.api.delete(account);
    const [second] = await cluster.api.apply([account]);
    const { client, close } = await connect(t, cluster);
    const type = { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount', namespaced: true };
    const uid = String(first?.metadata.uid);
    const metadata = { name: 'replaced', namespace: NS, uid, labels: { taken: 'over' } };
    const apply = { type: 'application/apply-patch+yaml', fieldManager: 'test', force: true, namespace: NS } as const;
    await assert.rejects(client.patch(type, 'replaced', { ...account, metadata }, apply), /HTTP 4/);
    await assert.rejects(client.delete(type, 'replaced', { namespace: NS, uid }), /HTTP 409/);
    const present = await read('v1', 'ServiceAccount', 'replaced');
    assert.deepEqual([present.metadata.uid, present.metadata.labels], [second?.metadata.uid, undefined]);
    close();
  });

  test('a Gateway that changes to the class of another controller loses its objects and its status', async (t) => {
    await cluster.api.apply([gateway('moved')]);
    const running = await startController(t, cluster, [accepted('moved')]);
    await eventually(async () => {
      await read('v1', 'Service', 'moved-meshd');
      assert.equal(
        ((await read(API, 'Gateway', 'moved')).status as { conditions: Fields[] }).conditions[0]?.status,
        'True',
      );
    });
    running.desired.clear();
    await cluster.api.apply([gateway('moved', { gatewayClassName: 'other' })]);
    running.changed('KubernetesGateway/edge/moved');
    await eventually(async () => {
      for (const [version, kind] of [
        ['v1', 'Service'],
        ['v1', 'ServiceAccount'],
        ['apps/v1', 'Deployment'],
      ] as const)
        await assert.rejects(read(version, kind, 'moved-meshd'), /404/);
      const { conditions } = (await read(API, 'Gateway', 'moved')).status as { conditions: Fields[] };
      assert.deepEqual(conditions.map(({ type, status }) => `${type} ${status}`).sort(), [
        'Accepted Unknown',
        'Programmed Unknown',
      ]);
    });
  });

  test('statuses are written once, repaired, and leave entries of other controllers alone', async (t) => {
    const [created] = await cluster.api.apply([route('a')]);
    assert.ok(created);
    const foreign = {
      parentRef: { name: 'elsewhere', group: 'gateway.networking.k8s.io', kind: 'Gateway' },
      controllerName: 'example.com/other',
      conditions: [{ ...condition('Accepted', 'True', 'Fine'), lastTransitionTime: '2026-01-01T00:00:00Z' }],
    };
    await cluster.api.patch(created, { status: { parents: [foreign] } }, 'status');
    const running = await startController(t, cluster, [attached('a')]);
    const written = await eventually(async () => {
      const parents = await parentsOf('a');
      assert.equal(parents.length, 2);
      return parents;
    });
    assert.deepEqual(written[0], foreign);
    const time = written[1]?.conditions[0]?.lastTransitionTime;

    // Another reason with the same status keeps the time.
    const other = attached('a');
    const status = JSON.parse(JSON.stringify(other.status).replace('"reason":"Accepted"', '"reason":"Pending"'));
    running.desired.set(keyOf(other), { ...other, status });
    running.changed(keyOf(other));
    await eventually(async () => {
      const [, own] = await parentsOf('a');
      assert.deepEqual([own?.conditions[0]?.reason, own?.conditions[0]?.lastTransitionTime], ['Pending', time]);
    });

    await cluster.api.patch(created, { status: { parents: [foreign] } }, 'status');
    await eventually(async () => assert.equal((await parentsOf('a')).length, 2));

    running.desired.clear();
    running.changed(keyOf(other));
    await eventually(async () => assert.deepEqual(await parentsOf('a'), [foreign]));
    assert.deepEqual(running.log, []);
  });

  test('a new leader writes no status that is in place', async (t) => {
    const names = Array.from({ length: 60 }, (_, index) => `many-${index}`);
    await cluster.api.apply(names.map(route));
    const first = await startController(
      t,
      cluster,
      names.map((name) => attached(name)),
    );
    await eventually(async () => {
      for (const name of names) assert.equal((await parentsOf(name)).length, 1);
    });
    await first.close();
    const versions = async () =>
      Promise.all(names.map(async (name) => (await read(API, 'HTTPRoute', name)).metadata.resourceVersion));
    const before = await versions();
    // The last one has another status, which shows when the others have been compared.
    const desired = names.map((name, index) => {
      const { status, ...rest } = attached(name, index === names.length - 1 ? 'NoMatchingParent' : 'Accepted');
      // As the API has it after the first write.
      const text = JSON.stringify(status).replace(
        '"name":"web"',
        '"group":"gateway.networking.k8s.io","kind":"Gateway","name":"web"',
      );
      return { ...rest, status: JSON.parse(text) as object };
    });
    await startController(t, cluster, desired);
    await eventually(async () =>
      assert.equal((await parentsOf('many-59'))[0]?.conditions[0]?.reason, 'NoMatchingParent'),
    );
    assert.deepEqual((await versions()).slice(0, -1), before.slice(0, -1));
  });
});
