/** What the simulated kubelet does with the containers of a Pod. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createNetworkHere,
  createScope,
  type EchoReply,
  eventually,
  netnsUnavailable,
  request,
} from '../harness/index.ts';
import {
  ApiError,
  type ApiObject,
  IMAGES,
  type Image,
  type Kubernetes,
  kubernetesUnavailable,
  startKubelet,
  startKubernetes,
  watchCollection,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? (await netnsUnavailable()) ?? false;
const NAMESPACE = 'default';
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

interface PodStatus {
  readonly phase: string;
  readonly podIP?: string;
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  readonly containerStatuses: readonly { readonly restartCount: number; readonly started: boolean }[];
}

/** Waits for a file. */
const waitFor = (file: string) => `while [ ! -e ${file} ]; do sleep 0.02; done`;
const shared = { name: 'shared', mountPath: '/var/lib/shared' };

/** A container that runs a script. */
const script = (name: string, text: string, more: object = {}) => ({
  name,
  image: 'shell',
  command: ['sh', '-c', text],
  volumeMounts: [shared],
  ...more,
});

describe('containers of the simulated kubelet', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  /** Output of all containers of the image `shell`, line by line, by name of the Pod. */
  const output = new Map<string, string[]>();
  const linesOf = (pod: string) => output.get(pod) ?? [];
  const shell: Image = ({ podName }) => ({
    argv: ['sleep', 'infinity'],
    onOutput: (text) =>
      void output.set(podName, [...linesOf(podName), ...text.split('\n').filter((line) => line !== '')]),
  });

  before(async () => {
    cluster = await startKubernetes(owner, { controllerManager: true });
    const network = await createNetworkHere(owner);
    await startKubelet(owner, { api: cluster.api, network, images: { ...IMAGES, shell } });
  });
  after(() => owner.close());

  const start = (name: string, spec: object, labels: object = {}) =>
    cluster.api.apply([
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: NAMESPACE, labels },
        spec: { volumes: [{ name: 'shared', emptyDir: {} }], ...spec },
      },
    ]);
  const statusOf = async (name: string) => (await cluster.api.get(`${PODS}/${name}`)).status as PodStatus;
  const becomes = (name: string, type: string) =>
    eventually(async () => {
      const { conditions = [], podIP = '' } = await statusOf(name);
      const met = conditions.find((condition) => condition.type === type)?.status;
      assert.equal(met, 'True', linesOf(name).join('\n'));
      return podIP;
    });
  const gone = (name: string) =>
    eventually(() =>
      assert.rejects(cluster.api.get(`${PODS}/${name}`), (error) => error instanceof ApiError && error.status === 404),
    );
  /** As `kubectl delete`: with the grace period of the Pod. */
  const remove = (name: string) => cluster.api.request({ method: 'DELETE', path: `${PODS}/${name}` });

  test('a Job completes: init containers run in order, and its sidecar from its start to the end of the work', async () => {
    const sidecar = script(
      'sidecar',
      `trap 'echo sidecar ends; exit 0' TERM; echo sidecar; touch /var/lib/shared/up; while :; do sleep 0.1; done`,
      {
        restartPolicy: 'Always',
        startupProbe: { exec: { command: ['test', '-e', '/var/lib/shared/up'] } },
      },
    );
    const spec = {
      restartPolicy: 'OnFailure',
      volumes: [{ name: 'shared', emptyDir: {} }],
      initContainers: [
        script('first', 'sleep 0.2; echo first'),
        sidecar,
        script('second', 'test -e /var/lib/shared/up && echo second'),
      ],
      // Fails once.
      containers: [
        script('work', 'echo work; test -e /var/lib/shared/done || { touch /var/lib/shared/done; exit 3; }'),
      ],
    };
    await cluster.api.apply([
      {
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { name: 'job', namespace: NAMESPACE },
        spec: { template: { spec } },
      },
    ]);
    await eventually(async () => {
      const { status } = await cluster.api.get(`/apis/batch/v1/namespaces/${NAMESPACE}/jobs/job`);
      assert.equal((status as { succeeded?: number }).succeeded, 1);
    });
    const { items } = await cluster.api.get<{ items: ApiObject[] }>(`${PODS}?labelSelector=job-name=job`);
    const [pod] = items;
    assert.ok(pod);
    const { phase, containerStatuses } = pod.status as PodStatus;
    assert.deepEqual([phase, containerStatuses[0]?.restartCount], ['Succeeded', 1]);
    assert.deepEqual(linesOf(pod.metadata.name), ['first', 'sidecar', 'second', 'work', 'work', 'sidecar ends']);
  });

  test('a Pod that is never restarted fails with its init container', async () => {
    await start('failing', {
      restartPolicy: 'Never',
      initContainers: [script('init', 'exit 2')],
      containers: [script('app', 'echo started')],
    });
    await eventually(async () => assert.equal((await statusOf('failing')).phase, 'Failed'));
    assert.deepEqual(linesOf('failing'), []);
  });

  test('a container has its user, its variables, its mounts and nothing else to write to', async () => {
    const text = `
      id -u; id -g; id -G; echo "$GREETING $1 $CPU $MEMORY $NODE"
      cat /etc/podinfo/name; echo
      for folder in / /etc /var/lib/shared /etc/mesh/proxy /tmp; do touch $folder/x 2> /dev/null && echo $folder; done
      grep -c db.example /etc/hosts; cd /etc/mesh/proxy && cat x; grep CapEff /proc/self/status`;
    await start('inside', {
      restartPolicy: 'Never',
      securityContext: { runAsUser: 1234, runAsGroup: 1235, fsGroup: 1236 },
      hostAliases: [{ ip: '192.0.2.1', hostnames: ['db.example'] }],
      initContainers: [
        script('redirect', 'iptables -w -t nat -N APP && id -u && grep CapEff /proc/self/status', {
          securityContext: {
            runAsUser: 0,
            runAsGroup: 0,
            capabilities: { add: ['NET_ADMIN', 'NET_RAW'], drop: ['ALL'] },
          },
        }),
        // The rules of the Pod, which this user may not change.
        script('forbidden', 'iptables -w -t nat -N OTHER 2> /dev/null || echo forbidden'),
      ],
      containers: [
        script('app', text, {
          command: ['sh', '-c', text, 'sh', 'to $(NAME) $$(NAME)'],
          workingDir: '/etc/mesh',
          env: [
            { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
            { name: 'GREETING', value: 'hello' },
            { name: 'CPU', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
            { name: 'MEMORY', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Mi' } } },
            { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
          ],
          resources: { limits: { cpu: '1500m', memory: '64Mi' } },
          securityContext: { readOnlyRootFilesystem: true },
          volumeMounts: [
            shared,
            { name: 'proxy', mountPath: '/etc/mesh/proxy' },
            { name: 'podinfo', mountPath: '/etc/podinfo', readOnly: true },
          ],
        }),
      ],
      volumes: [
        { name: 'shared', emptyDir: {} },
        { name: 'proxy', emptyDir: {} },
        { name: 'podinfo', downwardAPI: { items: [{ path: 'name', fieldRef: { fieldPath: 'metadata.name' } }] } },
      ],
    });
    await eventually(async () =>
      assert.equal((await statusOf('inside')).phase, 'Succeeded', linesOf('inside').join('\n')),
    );
    const [NET_ADMIN_AND_RAW, NONE] = ['CapEff:\t0000000000003000', 'CapEff:\t0000000000000000'];
    assert.deepEqual(linesOf('inside'), [
      ...['0', NET_ADMIN_AND_RAW],
      'forbidden',
      ...['1234', '1235', '1235 1236', 'hello to inside $(NAME) 2 64 node-1', 'inside'],
      ...['/var/lib/shared', '/etc/mesh/proxy', '1', NONE],
    ]);
  });

  test('a container starts after the hook of the one before it', async () => {
    const postStart = { exec: { command: ['sh', '-c', waitFor('/var/lib/shared/open')] } };
    await start('held', {
      containers: [
        script('proxy', `sleep 0.3; echo proxy; touch /var/lib/shared/open; sleep 1000`, { lifecycle: { postStart } }),
        script('app', 'echo app; sleep 1000'),
      ],
    });
    await becomes('held', 'Ready');
    assert.deepEqual(linesOf('held'), ['proxy', 'app']);
  });

  test('probes decide whether a container has started, is ready and is restarted', async () => {
    const headers = [{ name: 'x-probe', value: 'yes' }];
    await start('probed', {
      containers: [
        {
          name: 'app',
          image: 'echo',
          ports: [{ name: 'http', containerPort: 8080 }],
          volumeMounts: [shared],
          startupProbe: { httpGet: { path: '/started', port: 'http', httpHeaders: headers } },
          readinessProbe: { tcpSocket: { port: 'http' } },
          livenessProbe: {
            exec: { command: ['test', '!', '-e', '/var/lib/shared/ill'] },
            periodSeconds: 1,
            failureThreshold: 1,
          },
        },
        script(
          'other',
          `${waitFor('/var/lib/shared/ready')}; touch /var/lib/shared/ill; sleep 1; rm /var/lib/shared/ill; sleep 1000`,
          {
            readinessProbe: { exec: { command: ['test', '-e', '/var/lib/shared/ready'] } },
          },
        ),
      ],
    });
    const address = await eventually(async () => {
      const { containerStatuses = [], podIP = '' } = await statusOf('probed');
      assert.deepEqual(
        containerStatuses.map(({ started }) => started),
        [true, true],
      );
      return podIP;
    });
    assert.equal((await statusOf('probed')).conditions.find(({ type }) => type === 'Ready')?.status, 'False');
    assert.equal(((await request({ address, port: 8080 })).json() as EchoReply).name, 'probed');
    await remove('probed');
    await gone('probed');
  });

  test('a container stays ready while few probes in a row fail', async () => {
    const seen: string[] = [];
    const scope = createScope();
    watchCollection(scope, cluster.api, PODS, {
      changed: ({ metadata, status }) => {
        if (metadata.name !== 'flapping') return;
        const { conditions = [] } = status as Partial<PodStatus>;
        const now = conditions.find(({ type }) => type === 'Ready')?.status ?? 'False';
        if (now !== (seen.at(-1) ?? 'False')) seen.push(now);
      },
      gone: () => undefined,
    });
    // Of the first probes, two in a row fail twice; from the tenth on all do.
    const probe = 'cd /var/lib/shared; echo >> probes; case $(wc -l < probes) in 1|2|5|8|9) ;; *) exit 1 ;; esac';
    const readinessProbe = { exec: { command: ['sh', '-c', probe] }, timeoutSeconds: 60, failureThreshold: 3 };
    await start('flapping', { containers: [script('app', 'sleep 1000', { readinessProbe })] });
    await eventually(() => assert.equal(seen.at(-1), 'True'));
    await eventually(() => assert.equal(seen.at(-1), 'False'));
    assert.deepEqual(seen, ['True', 'False']);
    await scope.close();
    await remove('flapping');
    await gone('flapping');
  });

  test('a deleted Pod ends its containers by their hooks, with SIGTERM, in time, and sidecars last', async () => {
    const trap = (name: string) => `trap '${name} ends; exit 0' TERM; while :; do sleep 0.05; done`;
    const preStop = { exec: { command: ['sh', '-c', 'sleep 0.3; touch /var/lib/shared/stopping'] } };
    await start('ending', {
      terminationGracePeriodSeconds: 60,
      initContainers: [
        script('one', trap('echo one'), { restartPolicy: 'Always' }),
        script('two', trap('echo two'), { restartPolicy: 'Always' }),
      ],
      containers: [script('app', trap('test -e /var/lib/shared/stopping && echo app'), { lifecycle: { preStop } })],
    });
    await becomes('ending', 'Ready');
    await remove('ending');
    await gone('ending');
    assert.deepEqual(linesOf('ending'), ['app ends', 'two ends', 'one ends']);

    await start('deaf', {
      terminationGracePeriodSeconds: 1,
      containers: [script('app', `trap '' TERM; echo up; while :; do sleep 1; done`)],
    });
    await becomes('deaf', 'Ready');
    await remove('deaf');
    await gone('deaf');
  });
});
