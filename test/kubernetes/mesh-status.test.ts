/**
 * Statuses of mesh resources: two replicas of the control plane, of which one leads, with a simulated proxy at the one
 * that leads and a real Envoy at the other one.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  createScope,
  type Discovery,
  discoveryPorts,
  type Envoy,
  eventually,
  freePorts,
  startDiscovery,
  startEnvoy,
  tempDir,
} from '../harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
} from '../harness/kubernetes/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';

const skip = kubernetesUnavailable() ?? false;

const NS = 'shop';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases';
const API = `/apis/networking.mesh.io/v1alpha3/namespaces/${NS}`;
const LABELS = { app: 'edge' };

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
}

interface Written {
  readonly metadata: { readonly generation: number; readonly resourceVersion: string };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly validationMessages?: readonly {
      readonly type: object;
      readonly level: string;
      readonly message: string;
    }[];
  };
}

interface Lease {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly holderIdentity?: string };
}

const resource = (kind: string, name: string, spec: object): ApiObject => ({
  apiVersion: 'networking.mesh.io/v1alpha3',
  kind,
  metadata: { name, namespace: NS },
  spec,
});
const route = (name: string, prefix = '/') =>
  resource('VirtualService', name, {
    hosts: [`${name}.example`],
    gateways: ['edge'],
    http: [{ match: [{ uri: { prefix } }], route: [{ destination: { host: `backend.${NS}.svc.cluster.local` } }] }],
  });

describe('statuses of mesh resources', { skip }, () => {
  const owner = createScope();
  const replicas = new Map<string, Discovery>();
  let cluster: Kubernetes;
  let envoy: Envoy;
  let leader = '';
  let ports: readonly number[] = [];

  const gateway = (...numbers: readonly number[]) =>
    resource('Gateway', 'edge', {
      selector: LABELS,
      servers: numbers.map((number) => ({ port: { number, name: `http-${number}`, protocol: 'HTTP' }, hosts: ['*'] })),
    });
  const read = (plural: string, name: string) => cluster.api.get<Written>(`${API}/${plural}/${name}`);
  const reconciledOf = ({ status }: Written) => status?.conditions?.find(({ type }) => type === 'Reconciled');
  /** Waits until the object's condition is about its newest generation and has this reason. */
  const reconciled = async (plural: string, name: string, reason: string, message = /(?:)/) => {
    const waiting = eventually(
      async () => {
        const object = await read(plural, name);
        const condition = reconciledOf(object);
        const { generation } = object.metadata;
        assert.deepEqual([condition?.reason, condition?.observedGeneration], [reason, generation], name);
        assert.equal(condition?.status, reason === 'Acknowledged' ? 'True' : 'False');
        assert.match(condition?.message ?? '', message);
      },
      { timeoutMs: 60_000 },
    );
    await waiting.catch(async (error) => {
      await explain();
      throw error;
    });
  };
  /** Prints what statuses are made of: who leads, what replicas report, what their proxies have, and their logs. */
  const explain = async () => {
    const told = async (name: string, { http, output }: Discovery) => {
      const { body } = await http('/debug/syncz');
      return `--- ${name}: /debug/syncz ---\n${body}\n--- ${name}: log ---\n${output()}\n`;
    };
    const parts = [
      leases().then((all) => `--- Leases ---\n${JSON.stringify(all, null, 1)}\n`),
      ...Array.from(replicas, ([name, each]) => told(name, each)),
    ];
    for (const part of await Promise.allSettled(parts))
      process.stderr.write(part.status === 'fulfilled' ? part.value : `${part.reason}\n`);
  };
  const leases = async () => (await cluster.api.get<{ items: readonly Lease[] }>(LEASES)).items;
  const holder = async () =>
    (await leases()).find(({ metadata }) => metadata.name === 'meshd-mesh-status')?.spec.holderIdentity?.split('_')[0];
  const replica = (name: string) => replicas.get(name) ?? assert.fail(`no replica ${name}`);
  const pushes = async () => {
    const all = await Promise.all([...replicas.values()].map((each) => each.metrics()));
    return all.map((text) => text.split('\n').filter((line) => line.startsWith('ctl_xds_pushes')));
  };

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    ports = await freePorts(3);
    await cluster.api.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } }]);
    await cluster.api.apply([gateway(ports[0] ?? 0), route('one')]);
    const kubeconfig = await discoveryKubeconfig(owner, cluster);
    for (const name of ['first', 'second']) {
      const folder = await tempDir(owner);
      const own = { SELF_SIGNED_CA_DIR: join(folder, 'ca'), CTL_STATE_DIR: join(folder, 'state'), POD_NAME: name };
      const env = { CTL_ENABLE_STATUS: 'true', CTL_ENABLE_ANALYSIS: 'true', CTL_USE_ENDPOINT_SLICE: 'true', ...own };
      // The Envoy stays connected while it is stopped, also where the API server stalls for a time.
      const flags = ['--keepaliveInterval', '10m'];
      replicas.set(name, await startDiscovery(owner, { kubeconfig, env, flags, ports: await discoveryPorts() }));
    }
    leader = await eventually(async () => (await holder()) ?? assert.fail('nobody leads'), { timeoutMs: 60_000 });
    const other = leader === 'first' ? 'second' : 'first';
    envoy = await startEnvoy(owner, {
      id: `router~10.244.9.1~edge-1.${NS}~${NS}.svc.cluster.local`,
      metadata: { NAMESPACE: NS, LABELS },
      adsPort: replica(other).ports.grpc,
    });
    const id = `sidecar~10.244.9.2~app-1.${NS}~${NS}.svc.cluster.local`;
    const proxy = new SimProxy({ port: replica(leader).ports.grpc, mode: 'delta', id }).connect();
    owner.after(() => proxy.close());
  });
  after(() => owner.close());

  test('a resource that all proxies have acknowledged is Reconciled', async () => {
    await reconciled('virtualservices', 'one', 'Acknowledged');
    await reconciled('gateways', 'edge', 'Acknowledged');
    await cluster.api.apply([route('two')]);
    await reconciled('virtualservices', 'two', 'Acknowledged');
    const reports = (await leases()).filter(({ metadata }) => metadata.name.startsWith('meshd-documents-'));
    assert.deepEqual(
      reports.map(({ spec }) => spec.holderIdentity?.split('_')[0]),
      [leader === 'first' ? 'second' : 'first'],
    );
  });

  test('what analysis finds is in the status, until it is corrected', async () => {
    await eventually(
      async () => {
        const messages = (await read('virtualservices', 'one')).status?.validationMessages ?? [];
        assert.deepEqual(
          messages.map(({ type, level }) => ({ type, level })),
          [{ type: { name: 'ReferencedResourceNotFound', code: 'IST0101' }, level: 'ERROR' }],
        );
        assert.match(messages[0]?.message ?? '', /backend\.shop\.svc\.cluster\.local/);
      },
      { timeoutMs: 60_000 },
    );
    const ports = [{ name: 'http', port: 80 }];
    const metadata = { name: 'backend', namespace: NS };
    await cluster.api.apply([{ apiVersion: 'v1', kind: 'Service', metadata, spec: { ports } }]);
    const gone = async (name: string) =>
      assert.equal((await read('virtualservices', name)).status?.validationMessages, undefined);
    await eventually(() => Promise.all([gone('one'), gone('two')]), { timeoutMs: 60_000 });
  });

  test('writes to statuses cause no push, and no other writes', async () => {
    // A resource that no proxy needs passes all stages after what was written before it.
    const unused = async (name: string): Promise<void> => {
      await cluster.api.apply([resource('WorkloadGroup', name, { template: { serviceAccount: 'none' } })]);
      await reconciled('workloadgroups', name, 'Acknowledged');
    };
    await unused('before');
    const [before, { metadata }] = [await pushes(), await read('virtualservices', 'one')];
    // Another controller writes a condition of its own, and one writes over ours.
    const other = { type: 'Other', status: 'True', reason: 'Other', message: '' };
    const edited = { type: 'Reconciled', status: 'False', reason: 'Edited', message: '', observedGeneration: 1 };
    const reference = { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'VirtualService' } as const;
    const conditions = [other, edited];
    await cluster.api.patch(
      { ...reference, metadata: { name: 'one', namespace: NS } },
      { status: { conditions } },
      'status',
    );
    await reconciled('virtualservices', 'one', 'Acknowledged');
    const after = await read('virtualservices', 'one');
    assert.deepEqual(after.status?.conditions?.[0]?.type, 'Other');
    assert.equal(after.metadata.generation, metadata.generation);
    await unused('after');
    assert.deepEqual(await pushes(), before);
    assert.equal((await read('virtualservices', 'one')).metadata.resourceVersion, after.metadata.resourceVersion);
  });

  test('a change is Pending while a proxy of the other replica has not acknowledged it', async () => {
    process.kill(envoy.pid, 'SIGSTOP');
    try {
      await cluster.api.apply([route('one', '/new')]);
      await reconciled('virtualservices', 'one', 'Pending', /not all connected proxies have acknowledged it/);
      await reconciled('virtualservices', 'two', 'Acknowledged');
    } finally {
      process.kill(envoy.pid, 'SIGCONT');
    }
    await reconciled('virtualservices', 'one', 'Acknowledged');
  });

  test('a change that a proxy rejects is not Reconciled, with what the proxy says', async () => {
    const taken = createServer();
    owner.after(() => void taken.close());
    await new Promise<void>((resolve) => taken.listen(ports[1], '0.0.0.0', resolve));
    await cluster.api.apply([gateway(ports[0] ?? 0, ports[1] ?? 0)]);
    await reconciled('gateways', 'edge', 'Rejected', /^edge-1\.shop rejects it: .*cannot bind/);
    // Another change is not held up by it.
    await cluster.api.apply([
      resource('ServiceEntry', 'away', {
        hosts: ['away.example'],
        ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
        resolution: 'DNS',
      }),
    ]);
    await reconciled('serviceentries', 'away', 'Acknowledged');
    await cluster.api.apply([gateway(ports[0] ?? 0)]);
    await reconciled('gateways', 'edge', 'Acknowledged');
  });

  test('a refused resource is not Reconciled, with what is wrong', async () => {
    const http = [{ match: [{ uri: { regex: '(' } }], route: [{ destination: { host: 'backend' } }] }];
    await cluster.api.apply([resource('VirtualService', 'two', { hosts: ['two.example'], gateways: ['edge'], http })]);
    await reconciled('virtualservices', 'two', 'Refused', /spec\.http\[0\]\.match\[0\]\.uri\.regex/);
    await cluster.api.apply([route('two', '/mended')]);
    await reconciled('virtualservices', 'two', 'Acknowledged');
  });

  test('the other replica goes on when the one that leads ends', async () => {
    const other = leader === 'first' ? 'second' : 'first';
    await replica(leader).stop();
    await cluster.api.apply([route('one', '/later')]);
    await reconciled('virtualservices', 'one', 'Acknowledged');
    assert.equal(await holder(), other);
  });
});
