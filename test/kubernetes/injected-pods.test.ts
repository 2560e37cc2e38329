/**
 * Injected Pods that run: what came back from the API server is started by the simulated kubelet, with the agent, Envoy
 * and mesh-iptables, and traffic flows between them.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { DAY_MS, makeCa } from '../../src/security/testing/credentials.ts';
import { createScope, type EchoReply, eventually, netnsUnavailable, request } from '../harness/index.ts';
import {
  helmUnavailable,
  type Image,
  isInjected,
  kubernetesUnavailable,
  MESH_NAMESPACE,
  tryPod,
} from '../harness/kubernetes/index.ts';
import { type InjectedMesh, kubectlUnavailable, startInjectedMesh, steadyCalls } from './support/injected-mesh.ts';

const skip =
  kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? kubectlUnavailable() ?? false;

const SHOP = 'shop';
const PORT = 8080;

const core = (kind: string, name: string, more: object = {}, namespace = SHOP) => ({
  apiVersion: 'v1',
  kind,
  metadata: { name, namespace },
  ...more,
});

interface Template {
  readonly labels?: object;
  readonly annotations?: object;
  readonly spec: object;
}

const pod = (name: string, { labels = {}, annotations = {}, spec }: Template, namespace = SHOP) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace, labels: { app: name, ...labels }, annotations },
  spec,
});

const deployment = (name: string, replicas: number, { labels = {}, annotations = {}, spec }: Template) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: SHOP },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    template: { metadata: { labels: { app: name, ...labels }, annotations }, spec },
  },
});

const app = (more: object = {}) => ({ name: 'app', image: 'tools', ...more });
const sleeper = app({ command: ['sleep', 'infinity'] });

/** A server with a probe of its own, and Prometheus metrics. */
const server = {
  name: 'app',
  image: 'web',
  ports: [{ name: 'http', containerPort: PORT }],
  readinessProbe: { httpGet: { path: '/ready', port: 'http' } },
  // Until all callers know that it ends.
  lifecycle: { preStop: { sleep: { seconds: 2 } } },
};

const service = (name: string) =>
  core('Service', name, { spec: { selector: { app: name }, ports: [{ name: 'http', port: 80, targetPort: PORT }] } });

/** Answers as the echo does, and with metrics. */
const web: Image = ({ podName }) => [
  process.execPath,
  '-e',
  `require('node:http').createServer((request, answer) => {
    if (request.url === '/metrics') return answer.end('app_requests_total 7\\n');
    const { headers, socket } = request;
    answer.end(JSON.stringify({ name: '${podName}', headers, remote: socket.remoteAddress }));
  }).listen(${PORT});
  process.once('SIGTERM', () => process.exit(0));`,
];

const principal = (account: string, namespace = SHOP) => `cluster.local/ns/${namespace}/sa/${account}`;

const security = (kind: string, name: string, spec: object) => ({
  apiVersion: 'security.mesh.io/v1beta1',
  kind,
  metadata: { name, namespace: SHOP },
  spec,
});

const networking = (kind: string, name: string, spec: object, namespace = SHOP) => ({
  apiVersion: 'networking.mesh.io/v1alpha3',
  kind,
  metadata: { name, namespace },
  spec,
});

describe('injected Pods', { skip }, () => {
  const owner = createScope();
  let mesh: InjectedMesh;
  before(async () => {
    mesh = await startInjectedMesh(owner, [SHOP], { web });
    await mesh.apply(
      core('Namespace', 'edge'),
      ...['web', 'client', 'other'].map((name) => core('ServiceAccount', name)),
      core('ServiceAccount', 'ingress', {}, 'edge'),
      // The names that a Pod knows are those of the Services at its start.
      ...['web', 'tproxy'].map(service),
      deployment('web', 2, {
        annotations: { 'prometheus.io/scrape': 'true', 'prometheus.io/port': String(PORT) },
        spec: { serviceAccountName: 'web', containers: [server] },
      }),
      security('PeerAuthentication', 'default', { mtls: { mode: 'STRICT' } }),
      security('AuthorizationPolicy', 'web', {
        selector: { matchLabels: { app: 'web' } },
        rules: [{ from: [{ source: { principals: [principal('client'), principal('ingress', 'edge')] } }] }],
      }),
      pod('client', { spec: { serviceAccountName: 'client', containers: [sleeper] } }),
      pod('other', { spec: { serviceAccountName: 'other', containers: [sleeper] } }),
      pod('tproxy', {
        annotations: { 'sidecar.mesh.io/interceptionMode': 'TPROXY' },
        spec: { containers: [server] },
      }),
      pod('plain', { spec: { containers: [sleeper] } }, 'edge'),
    );
    await mesh.ready(SHOP, 'app in (web,client,other)', 4);
    await mesh.ready('edge', 'app=plain');
    // The proxies of callers get the endpoints of Pods that became ready after them.
    for (const [caller, expected] of [
      ['client', 200],
      ['other', 403],
    ] as const)
      await eventually(async () =>
        assert.equal((await mesh.curl(`${SHOP}/${caller}`, 'http://web.shop/')).status, expected),
      );
  });
  after(() => owner.close());

  const CLIENT = `${SHOP}/client`;
  const reply = async (from: string, url = 'http://web.shop/') => {
    const { status, body } = await mesh.curl(from, url);
    assert.equal(status, 200, body);
    return JSON.parse(body) as EchoReply;
  };

  test('a Pod of a Deployment gets a proxy before its own container, and its probe leads through the agent', async () => {
    const [injected] = await mesh.pods(SHOP, 'app=web');
    assert.ok(injected);
    const { initContainers = [], containers } = injected.spec;
    assert.deepEqual(
      initContainers.map(({ name, restartPolicy }) => [name, restartPolicy]),
      [
        ['mesh-init', undefined],
        ['mesh-proxy', 'Always'],
      ],
    );
    assert.deepEqual(
      containers.map(({ name, readinessProbe }) => [name, readinessProbe?.httpGet?.path]),
      [['app', '/app-health/app/readyz']],
    );
    const [plain] = await mesh.pods('edge', 'app=plain');
    assert.equal(plain && isInjected(plain), false);
  });

  test('Pods call each other with mutual TLS, and plain text is refused', async () => {
    const { headers, name } = await reply(CLIENT);
    assert.match(name, /^web-/);
    assert.match(String(headers['x-forwarded-client-cert']), /URI=spiffe:\/\/cluster\.local\/ns\/shop\/sa\/client$/);
    assert.equal((await mesh.curl('edge/plain', 'http://web.shop/')).status, 0);
  });

  test('a Pod whose DNS is captured knows a Service that is newer than the Pod', async () => {
    const annotations = { 'proxy.mesh.io/config': 'proxyMetadata: { DNS_AGENT: "true" }' };
    await mesh.apply(pod('named', { annotations, spec: { serviceAccountName: 'client', containers: [sleeper] } }));
    await mesh.ready(SHOP, 'app=named');
    const spec = { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: PORT }] };
    await mesh.apply(core('Service', 'late', { spec }));
    await eventually(async () => assert.match((await reply(`${SHOP}/named`, 'http://late.shop/')).name, /^web-/));
  });

  test('a policy is enforced by the identity of the caller', async () => {
    const { status, body } = await mesh.curl(`${SHOP}/other`, 'http://web.shop/');
    assert.deepEqual([status, body], [403, 'RBAC: access denied']);
  });

  test('metrics of the application and of Envoy are merged', async () => {
    const [injected] = await mesh.pods(SHOP, 'app=web');
    assert.ok(injected);
    const annotations = injected.metadata.annotations ?? {};
    const port = Number(annotations['prometheus.io/port']);
    const path = annotations['prometheus.io/path'] ?? '';
    assert.deepEqual([port, path], [15_020, '/stats/prometheus']);
    const { body } = await request({ address: injected.status.podIP ?? '', port, path });
    assert.match(body, /^app_requests_total 7$/m);
    assert.match(body, /^envoy_/m);
  });

  test('a Deployment is rolled without a failed request', async () => {
    const names = async () => (await mesh.pods(SHOP, 'app=web')).map(({ metadata }) => metadata.name);
    const before = await names();
    const calls = steadyCalls(mesh, CLIENT, 'http://web.shop/');
    await calls.more(5);
    await mesh.kubectl('-n', SHOP, 'rollout', 'restart', 'deployment', 'web');
    await eventually(
      async () => {
        const now = await names();
        assert.deepEqual([now.length, now.filter((name) => before.includes(name))], [2, []]);
      },
      { timeoutMs: 60_000 },
    );
    await calls.more(5);
    assert.deepEqual(Object.keys(await calls.stop()), ['200']);
  });

  test('a Job completes, and its only container calls as soon as it runs', async () => {
    const call = app({ command: ['curl', '-sS', '--fail', 'http://web.shop/'] });
    const spec = { serviceAccountName: 'client', restartPolicy: 'Never', containers: [call] };
    const template = { metadata: { labels: { app: 'job' } }, spec };
    await mesh.apply({ ...core('Job', 'once'), apiVersion: 'batch/v1', spec: { backoffLimit: 0, template } });
    await mesh.kubectl('-n', SHOP, 'wait', '--for=condition=complete', '--timeout=300s', 'job/once');
  });

  test('an application waits for a proxy that is an ordinary container', async () => {
    const script = 'curl -sS --fail http://web.shop/ && exec sleep infinity';
    await mesh.apply(
      pod('held', {
        annotations: {
          'sidecar.mesh.io/nativeSidecar': 'false',
          'proxy.mesh.io/config': '{"holdApplicationUntilProxyStarts": true}',
        },
        spec: { serviceAccountName: 'client', containers: [app({ command: ['sh', '-c', script] })] },
      }),
    );
    const [held] = await mesh.ready(SHOP, 'app=held');
    assert.deepEqual(
      held?.status.containerStatuses?.map(({ name, restartCount }) => [name, restartCount]),
      [
        ['mesh-proxy', 0],
        ['app', 0],
      ],
    );
  });

  test('a Pod with TPROXY is called with mutual TLS', async () => {
    const [target] = await mesh.ready(SHOP, 'app=tproxy');
    const [init] = target?.spec.initContainers ?? [];
    assert.match(String((init as { args?: readonly string[] } | undefined)?.args), /-m,TPROXY/);
    await eventually(async () => {
      const { name, headers } = await reply(CLIENT, 'http://tproxy.shop/');
      assert.equal(name, 'tproxy');
      assert.match(String(headers['x-forwarded-client-cert']), new RegExp(`URI=spiffe://${principal('client')}`));
    });
  });

  test('a gateway is a Deployment with the image `auto`', async () => {
    const template = {
      labels: { 'sidecar.mesh.io/inject': 'true' },
      annotations: { 'inject.mesh.io/templates': 'gateway' },
      spec: { serviceAccountName: 'ingress', containers: [{ name: 'mesh-proxy', image: 'auto' }] },
    };
    const ingress = deployment('ingress', 1, template);
    const route = [{ destination: { host: 'web.shop.svc.cluster.local' } }];
    const servers = [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }];
    await mesh.apply(
      { ...ingress, metadata: { ...ingress.metadata, namespace: 'edge' } },
      networking('Gateway', 'ingress', { selector: { app: 'ingress' }, servers }, 'edge'),
      networking('VirtualService', 'web', { hosts: ['*'], gateways: ['ingress'], http: [{ route }] }, 'edge'),
    );
    const [gateway] = await mesh.ready('edge', 'app=ingress');
    await eventually(async () =>
      assert.match((await reply('edge/plain', `http://${gateway?.status.podIP}/`)).name, /^web-/),
    );
  });

  test('Pods are refused while no replica runs, others live on, and the missing ones come with the replicas', async () => {
    const calls = steadyCalls(mesh, CLIENT, 'http://web.shop/');
    const scale = (namespace: string, name: string, replicas: number) =>
      mesh.kubectl('-n', namespace, 'scale', 'deployment', name, `--replicas=${replicas}`);
    await scale(MESH_NAMESPACE, 'ctl-discovery', 0);
    await eventually(async () => assert.deepEqual(await mesh.pods(MESH_NAMESPACE), []), { timeoutMs: 60_000 });
    const message = /failed calling webhook "namespace\.mesh\.injection\.mesh\.io": .*meshd\.mesh-system\.svc/;
    await assert.rejects(mesh.apply(pod('refused', { spec: { containers: [sleeper] } })), message);
    await scale(SHOP, 'web', 3);
    await calls.more(5);
    assert.equal((await mesh.pods(SHOP, 'app=web')).length, 2);
    await scale(MESH_NAMESPACE, 'ctl-discovery', 2);
    assert.ok((await mesh.ready(SHOP, 'app=web', 3)).every(isInjected));
    assert.deepEqual(Object.keys(await calls.stop()), ['200']);
  });

  /** Creates Pods, one after the other and without storing them, while something happens; returns the refusals. */
  async function refusedWhile(happens: () => Promise<void>): Promise<readonly string[]> {
    const refused: string[] = [];
    let ended = false;
    const creating = async () => {
      while (!ended) {
        const created = await tryPod(mesh, SHOP).catch((error: unknown) => String(error));
        if (typeof created === 'string') refused.push(created);
        else assert.ok(isInjected(created), 'a Pod is created without a proxy');
      }
    };
    const happening = happens().finally(() => {
      ended = true;
    });
    await Promise.all([creating(), happening]);
    return refused;
  }

  test('no Pod is refused while the root and the certificates of the control plane are replaced', async () => {
    const { api } = mesh.cluster;
    const path = `/api/v1/namespaces/${MESH_NAMESPACE}/secrets/mesh-ca-secret`;
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'mesh-ca-secret', namespace: MESH_NAMESPACE },
    };
    const write = (data: Readonly<Record<string, string>>) => {
      const encoded = Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
      return api.patch(secret, { data: Object.fromEntries(encoded) });
    };
    const { data } = await api.get<{ data: Record<string, string> }>(path);
    const before = Buffer.from(data['ca-cert.pem'] ?? '', 'base64').toString();
    const times = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
    const next = makeCa({ name: 'next', ...times });
    const calls = steadyCalls(mesh, CLIENT, 'http://web.shop/');
    const refused = await refusedWhile(async () => {
      await write({ 'former-certs.pem': next.certificate });
      await eventually(async () => assert.ok((await bundle()).includes(next.certificate.trim())), {
        timeoutMs: 60_000,
      });
      await write({ 'ca-cert.pem': next.certificate, 'ca-key.pem': next.key, 'former-certs.pem': before });
      for (const { status } of await mesh.ready(MESH_NAMESPACE, 'app.kubernetes.io/name=ctl-discovery', 2))
        await eventually(() => verified(status.podIP ?? '', next.certificate), { timeoutMs: 60_000 });
    });
    assert.deepEqual(refused, []);
    assert.deepEqual(Object.keys(await calls.stop()), ['200']);
  });

  /** The roots by which the API server verifies the injector, PEM. */
  async function bundle(): Promise<string> {
    const path = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mesh-sidecar-injector';
    const { webhooks } = await mesh.cluster.api.get<{ webhooks: { clientConfig: { caBundle: string } }[] }>(path);
    return Buffer.from(webhooks[0]?.clientConfig.caBundle ?? '', 'base64').toString();
  }

  /** Rejects unless the server's certificate is of this root. */
  function verified(host: string, ca: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port: 15_017, ca, servername: `meshd.${MESH_NAMESPACE}.svc` }, () => {
        socket.destroy();
        resolve();
      });
      socket.once('error', reject);
    });
  }
});
