/**
 * The simulated kubelet retries what fails, and says meanwhile why a Pod is not ready. The API server is real; requests
 * to it and the network fail as a test tells them to.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { createNetworkHere, createScope, eventually, type Network, netnsUnavailable } from '../harness/index.ts';
import {
  ApiError,
  type ApiRequest,
  IMAGES,
  type Kubelet,
  type Kubernetes,
  type KubernetesApi,
  kubernetesUnavailable,
  startKubelet,
  startKubernetes,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;
const PODS = '/api/v1/namespaces/default/pods';

interface ContainerStatus {
  readonly restartCount: number;
  readonly state: {
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly terminated?: { readonly exitCode: number; readonly message?: string };
  };
}

interface PodStatus {
  readonly podIP?: string;
  readonly conditions?: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason?: string;
    readonly message?: string;
  }[];
  readonly containerStatuses?: readonly ContainerStatus[];
}

/** What happens to a request: an error as of a broken connection, or an answer with a status. */
type Fault = 'broken connection' | 500 | undefined;

/** Requests to the API server, some of which fail. */
function faultyApi(api: KubernetesApi, faultOf: (method: string, path: string) => Fault): KubernetesApi {
  /** The status to answer with, if any. */
  const statusOf = (method: string, path: string): number | undefined => {
    const fault = faultOf(method, path);
    if (fault === 'broken connection') throw new Error('socket hang up');
    return fault;
  };
  return {
    ...api,
    request: async (sent: ApiRequest) => {
      const status = statusOf(sent.method ?? 'GET', sent.path);
      if (status === undefined) return api.request(sent);
      const body = JSON.stringify({ kind: 'Status', code: status, message: 'etcdserver: request timed out' });
      return { status, headers: {}, body, json: () => JSON.parse(body) as unknown };
    },
    get: async (path) => {
      const status = statusOf('GET', path);
      if (status !== undefined) throw new ApiError(status, 'etcdserver: request timed out');
      return api.get(path);
    },
    patch: async (reference, patch, subresource) => {
      const status = statusOf('PATCH', `${await api.path(reference)}/${subresource}`);
      if (status !== undefined) throw new ApiError(status, 'etcdserver: request timed out');
      return api.patch(reference, patch, subresource);
    },
  };
}

describe('faults that the simulated kubelet meets', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let kubelet: Kubelet;
  /** Of each request. */
  let faultOf: (method: string, path: string) => Fault;
  /** Thrown instead of making a network namespace. */
  let networkFault: () => Error | undefined;
  beforeEach(() => {
    faultOf = () => undefined;
    networkFault = () => undefined;
  });

  before(async () => {
    cluster = await startKubernetes(owner);
    const real = await createNetworkHere(owner);
    const network: Network = {
      async addNamespace(label, itsOwner) {
        const error = networkFault();
        if (error !== undefined) throw error;
        return real.addNamespace(label, itsOwner);
      },
    };
    const api = faultyApi(cluster.api, (method, path) => faultOf(method, path));
    const shell = () => ['sleep', 'infinity'];
    kubelet = await startKubelet(owner, { api, network, images: { ...IMAGES, shell } });
  });
  after(() => owner.close());

  const pod = (name: string, container: object = {}, spec: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default' },
    spec: { containers: [{ name: 'app', image: 'shell', ...container }], terminationGracePeriodSeconds: 0, ...spec },
  });
  const statusOf = async (name: string) => (await cluster.api.get(`${PODS}/${name}`)).status as PodStatus;
  const conditionOf = ({ conditions = [] }: PodStatus, wanted: string) =>
    conditions.find(({ type }) => type === wanted);
  const ready = (name: string) =>
    eventually(
      async () => {
        const status = await statusOf(name);
        assert.equal(conditionOf(status, 'Ready')?.status, 'True', JSON.stringify(status));
      },
      { what: `Pod ${name} is ready` },
    );
  const gone = (name: string) =>
    eventually(() =>
      assert.rejects(cluster.api.get(`${PODS}/${name}`), (error) => error instanceof ApiError && error.status === 404),
    );

  /** The first request of this kind fails. */
  const failOnce = (method: string, path: RegExp, fault: Fault) => {
    let failed = false;
    faultOf = (itsMethod, itsPath) => {
      if (failed || itsMethod !== method || !path.test(itsPath)) return undefined;
      failed = true;
      return fault;
    };
    return () => assert.ok(failed, `no ${method} of ${path}`);
  };

  for (const fault of ['broken connection', 500] as const)
    test(`a Pod runs although its first binding ends with ${fault}`, async () => {
      const name = `bound-late-${fault === 500 ? 'status' : 'reset'}`;
      const failed = failOnce('POST', /\/binding$/, fault);
      await cluster.api.apply([pod(name)]);
      await ready(name);
      failed();
    });

  test('a Pod that cannot be bound says why, and runs as soon as it can', async () => {
    faultOf = (_, path) => (path.endsWith('/binding') ? 500 : undefined);
    await cluster.api.apply([pod('unbound')]);
    await eventually(async () => {
      const { status, reason, message } = conditionOf(await statusOf('unbound'), 'PodScheduled') ?? {};
      assert.deepEqual([status, reason], ['False', 'SchedulerError']);
      assert.match(message ?? '', /500: etcdserver: request timed out/);
    });
    assert.match(kubelet.describe(), /default\/unbound: .*request timed out/);
    faultOf = () => undefined;
    await ready('unbound');
    assert.equal(conditionOf(await statusOf('unbound'), 'PodScheduled')?.status, 'True');
  });

  test('a Pod without a network namespace says why, and runs as soon as it has one', async () => {
    networkFault = () => new Error('Cannot create namespace file: No space left on device');
    await cluster.api.apply([pod('no-network')]);
    await eventually(async () => {
      const status = await statusOf('no-network');
      const { message, reason } = conditionOf(status, 'Ready') ?? {};
      assert.equal(reason, 'ContainersNotReady');
      assert.match(message ?? '', /No space left on device/);
      assert.match(status.containerStatuses?.[0]?.state.waiting?.message ?? '', /No space left on device/);
    });
    networkFault = () => undefined;
    await ready('no-network');
    assert.equal(conditionOf(await statusOf('no-network'), 'Ready')?.message, undefined);
  });

  test('a status that cannot be written once is written', async () => {
    const failed = failOnce('PATCH', /\/status$/, 500);
    await cluster.api.apply([pod('silent')]);
    await ready('silent');
    failed();
  });

  test('a Pod goes although its first deletion fails', async () => {
    await cluster.api.apply([pod('staying', {}, { terminationGracePeriodSeconds: 1 })]);
    await ready('staying');
    const failed = failOnce('DELETE', /staying/, 'broken connection');
    await cluster.api.request({ method: 'DELETE', path: `${PODS}/staying` });
    await gone('staying');
    failed();
  });

  test('a Pod runs that replaced one of its name', async () => {
    await cluster.api.apply([pod('replaced')]);
    await ready('replaced');
    const { metadata } = await cluster.api.get(`${PODS}/replaced`);
    // While the kubelet sees nothing: its next list has the other Pod only.
    faultOf = (method, path) => (method === 'GET' && path === '/api/v1/pods' ? 500 : undefined);
    await cluster.apiServer.kill();
    await cluster.apiServer.start();
    await cluster.api.delete({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'replaced', namespace: 'default' } });
    await cluster.api.apply([pod('replaced')]);
    faultOf = () => undefined;
    await ready('replaced');
    assert.notEqual((await cluster.api.get(`${PODS}/replaced`)).metadata.uid, metadata.uid);
  });

  test('a container that is not ready says by which probe, and one that ended by what it wrote', async () => {
    await cluster.api.apply([
      pod('unready', { readinessProbe: { exec: { command: ['sh', '-c', 'echo cache is cold >&2; exit 1'] } } }),
      pod('ended', { command: ['sh', '-c', 'echo no such flag: --frobnicate; exit 3'] }),
    ]);
    await eventually(async () =>
      assert.match(conditionOf(await statusOf('unready'), 'Ready')?.message ?? '', /\[app\].*readiness.*cache is cold/),
    );
    await eventually(async () => {
      const [status] = (await statusOf('ended')).containerStatuses ?? [];
      assert.equal(status?.state.terminated?.exitCode, 3);
      assert.match(status?.state.terminated?.message ?? '', /no such flag/);
    });
    assert.match(kubelet.describe(), /default\/unready: Running.*cache is cold/s);
    assert.match(kubelet.describe(), /default\/ended: .*no such flag/s);
  });

  test('a wait that times out prints the Pods and the recent errors of the kubelet', async (t) => {
    const written: string[] = [];
    t.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0);
    networkFault = () => new Error('no buffer space available');
    await cluster.api.apply([pod('awaited')]);
    const never = () => Promise.reject(new Error('not ready'));
    await eventually(() => assert.match(kubelet.describe(), /awaited.*no buffer space/));
    await assert.rejects(eventually(never, { timeoutMs: 100 }), /not ready/);
    t.mock.restoreAll();
    assert.match(written.join(''), /default\/awaited: Pending.*no buffer space available/s);
  });
});
