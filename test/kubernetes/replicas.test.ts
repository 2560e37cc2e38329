/** Several replicas of ctl-discovery on one API server: what a restart costs it, and a replica that is cut off. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startRelay } from '../../src/kubernetes/testing/relay.ts';
import { endpoints, resource, service } from '../e2e/support/config.ts';
import type { MeshProxy } from '../e2e/support/mesh.ts';
import { startTraffic } from '../e2e/support/steady-traffic.ts';
import { call, eventuallyAll } from '../e2e/support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to } from '../e2e/support/versions.ts';
import { eventually, inOwnNetwork, type Owner, startBalancer, startDiscovery, tempDir } from '../harness/index.ts';
import {
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;
const skipMesh = skip || (inOwnNetwork() ? false : 'needs a network namespace of its own (root)');
const REPLICAS = 3;

/** One request in the log of the API server (audit.k8s.io/v1). */
interface AuditEvent {
  readonly verb: string;
  readonly requestURI: string;
  readonly userAgent: string;
}

async function startReplica(owner: Owner, kubeconfig: string) {
  const folder = await tempDir(owner);
  const own = { SELF_SIGNED_CA_DIR: join(folder, 'ca'), CTL_STATE_DIR: join(folder, 'state') };
  return await startDiscovery(owner, { kubeconfig, env: { CTL_USE_ENDPOINT_SLICE: 'true', ...own } });
}

/** A cluster with a log of the requests that it was sent. */
async function startAudited(owner: Owner) {
  const folder = await tempDir(owner);
  const [policy, log] = [join(folder, 'policy.yaml'), join(folder, 'audit.log')];
  const rules = [{ level: 'Metadata', omitStages: ['ResponseStarted', 'ResponseComplete', 'Panic'] }];
  await writeFile(policy, JSON.stringify({ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', rules }));
  const apiServerFlags = [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`];
  const cluster: Kubernetes = await startKubernetes(owner, { apiServerFlags, definitions: true });
  const requests = async () =>
    (await readFile(log, 'utf8'))
      .split('\n')
      // What follows the last line feed may be incomplete.
      .slice(0, -1)
      .map((line) => JSON.parse(line) as AuditEvent)
      .filter(({ userAgent }) => userAgent === 'ctl-discovery');
  return { cluster, requests };
}

/** What is read as a whole, by a list or by a watch that begins with all objects; else undefined. */
function listed({ verb, requestURI }: AuditEvent): string | undefined {
  const { pathname, searchParams } = new URL(requestURI, 'https://server');
  if (verb !== 'list' && !(verb === 'watch' && searchParams.get('sendInitialEvents') === 'true')) return undefined;
  const selectors = ['fieldSelector', 'labelSelector'].map((name) => searchParams.get(name) ?? '');
  return [pathname, ...selectors].join(' ').trimEnd();
}

const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1';

test('a restart of all replicas costs the API server one list of each kind for each of them', { skip }, async (t) => {
  const { cluster, requests } = await startAudited(t);
  const kubeconfig = await discoveryKubeconfig(t, cluster);
  // When it is ready, the API server has begun to serve all kinds.
  await (await startReplica(t, kubeconfig)).stop();
  const before = (await requests()).length;
  await Promise.all(Array.from({ length: REPLICAS }, () => startReplica(t, kubeconfig)));
  const seen = (await requests()).slice(before);

  const lists = new Map<string, number>();
  for (const kind of seen.map(listed)) if (kind !== undefined) lists.set(kind, (lists.get(kind) ?? 0) + 1);
  assert.ok(lists.size >= 16, [...lists.keys()].join());
  // The elected replicas also read where root certificates are needed and where they are, statuses of Ingresses, and
  // the webhook configurations.
  const ofLeader = new Map([
    ['/api/v1/namespaces', REPLICAS + 1],
    ['/apis/networking.k8s.io/v1/ingresses', REPLICAS + 1],
    ['/api/v1/configmaps metadata.name=mesh-ca-root-cert', 1],
    [`${WEBHOOKS}/mutatingwebhookconfigurations metadata.name=mesh-sidecar-injector`, 1],
    [`${WEBHOOKS}/validatingwebhookconfigurations metadata.name=meshd-mesh-system`, 1],
  ]);
  assert.deepEqual(
    [...lists].filter(([kind, count]) => count !== REPLICAS && count !== ofLeader.get(kind)),
    [],
  );
  const again = seen.filter((event) => listed(event) === undefined && event.verb === 'watch');
  assert.deepEqual(again, []);
});

test('proxies of a replica that is cut off keep what works, and get the rest from another one', {
  skip: skipMesh,
}, async (t) => {
  process.env.MESH_TEST_SOURCE = 'kubernetes';
  const balancer = await startBalancer(t);
  const mesh = await startVersionsMesh(t, { balancer, env: { CTL_SIDECAR_CONFIGURATION: 'learned' } });
  const { config, clients, address } = mesh;
  const own = await readFile(mesh.kubeconfig ?? '', 'utf8');
  const port = Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(own)?.[1]);
  const relay = await startRelay(port);
  t.after(() => relay.close());
  const relayed = join(await tempDir(t), 'kubeconfig');
  await writeFile(relayed, own.replace(`127.0.0.1:${port}`, `127.0.0.1:${relay.port}`));
  const stale = await mesh.startReplica({ kubeconfig: relayed });
  const target = (client: MeshProxy, host: string) => ({ address: client.address, port: HTTP_PORT, host });
  const moveTo = async (grpcPort: number) => {
    balancer.use(grpcPort);
    balancer.cut();
  };

  relay.cut();
  const HTTP = [{ name: 'http', port: HTTP_PORT }];
  await config.apply(
    'new',
    service('new', { clusterIP: '10.96.0.9', ports: HTTP }),
    endpoints('new', [address(22)], HTTP),
  );
  await config.apply('routes', resource('VirtualService', 'web', { hosts: ['web'], http: [{ route: [to('v2')] }] }));
  const upToDate = () =>
    eventuallyAll(clients, async (client) => {
      assert.equal((await call(target(client, 'new'))).by, 'web-v2');
      assert.equal((await call(target(client, 'web'))).by, 'web-v2');
    });
  await upToDate();
  const traffic = startTraffic(clients.map((client) => target(client, 'web')));

  // It serves what it read last: nothing tells it that there is more.
  await moveTo(stale.ports.grpc);
  await eventuallyAll(clients, async (client) => assert.equal((await call(target(client, 'new'))).status, 502));
  assert.equal((await stale.http('/ready')).status, 200);
  await traffic.more(20);
  await moveTo(mesh.discovery().ports.grpc);
  await upToDate();

  await moveTo(stale.ports.grpc);
  await eventuallyAll(clients, async (client) => assert.equal((await call(target(client, 'new'))).status, 502));
  relay.restore();
  await upToDate();
  assert.deepEqual(await traffic.stop(), []);
  // What sidecars use is saved for the case that all replicas restart at once.
  const client = clients.find(({ mode }) => mode === 'delta');
  assert.ok(client);
  balancer.use((await mesh.startReplica()).ports.grpc);
  const { name, mode } = client;
  const next = await mesh.startProxy({ name, mode, address: client.address });
  await eventually(async () => assert.match(await next.admin('/clusters'), /^outbound\|\d+\|\|new\.default\.svc/m));
});
