/** Labels of running Pods: what is set with `kubectl label` decides which documents select the proxy of the Pod. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createScope, eventually, netnsUnavailable } from '../harness/index.ts';
import { helmUnavailable, type Image, kubernetesUnavailable } from '../harness/kubernetes/index.ts';
import { type InjectedMesh, kubectlUnavailable, startInjectedMesh, steadyCalls } from './support/injected-mesh.ts';

const skip =
  kubernetesUnavailable() ?? helmUnavailable() ?? (await netnsUnavailable()) ?? kubectlUnavailable() ?? false;

const SHOP = 'shop';
const PORT = 8080;
const CLIENT = `${SHOP}/client`;
const URL = 'http://web.shop/';

const web: Image = () => [
  process.execPath,
  '-e',
  `require('node:http').createServer((_, answer) => answer.end('web')).listen(${PORT});`,
];

const object = (apiVersion: string, kind: string, name: string, more: object) => ({
  apiVersion,
  kind,
  metadata: { name, namespace: SHOP },
  ...more,
});

const pod = (name: string, container: object) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: SHOP, labels: { app: name } },
  spec: { containers: [{ name: 'app', ...container }] },
});

/** Denies everything to the workloads that are in quarantine. */
const QUARANTINE = object('security.mesh.io/v1beta1', 'AuthorizationPolicy', 'quarantine', {
  spec: { selector: { matchLabels: { quarantine: 'on' } }, action: 'DENY', rules: [{}] },
});

/** Marks the answers of the workloads that are on trial. */
const MARK = object('networking.mesh.io/v1alpha3', 'EnvoyFilter', 'mark', {
  spec: {
    workloadSelector: { labels: { trial: 'on' } },
    configPatches: [
      {
        applyTo: 'HTTP_FILTER',
        match: {
          context: 'SIDECAR_INBOUND',
          listener: {
            filterChain: {
              filter: {
                name: 'envoy.filters.network.http_connection_manager',
                subFilter: { name: 'envoy.filters.http.router' },
              },
            },
          },
        },
        patch: {
          operation: 'INSERT_BEFORE',
          value: {
            name: 'mark',
            typed_config: {
              '@type': 'type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua',
              default_source_code: {
                inline_string: 'function envoy_on_response(handle) handle:headers():add("x-mark", "trial") end',
              },
            },
          },
        },
      },
    ],
  },
});

/** The workloads without egress call nobody. */
const CLOSED = object('networking.mesh.io/v1alpha3', 'Sidecar', 'closed', {
  spec: {
    workloadSelector: { labels: { egress: 'none' } },
    outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' },
    egress: [{ hosts: ['mesh-system/*'] }],
  },
});

describe('labels of running Pods', { skip }, () => {
  const owner = createScope();
  let mesh: InjectedMesh;
  before(async () => {
    mesh = await startInjectedMesh(owner, [SHOP], { web });
    const ports = [{ name: 'http', port: 80, targetPort: PORT }];
    const readinessProbe = { httpGet: { path: '/', port: PORT } };
    await mesh.apply(
      object('v1', 'Service', 'web', { spec: { selector: { app: 'web' }, ports } }),
      pod('web', { image: 'web', readinessProbe }),
      pod('client', { image: 'tools', command: ['sleep', 'infinity'] }),
      QUARANTINE,
      MARK,
      CLOSED,
    );
    await mesh.ready(SHOP, 'app in (web,client)', 2);
    await answers(200);
  });
  after(() => owner.close());

  const label = (name: string, text: string) => mesh.kubectl('-n', SHOP, 'label', 'pod', name, text);

  /** Waits for calls of the client to be answered so. */
  const answers = (status: number, header = /^/) =>
    eventually(async () => {
      const answer = await mesh.curl(CLIENT, URL, '-i');
      assert.equal(answer.status, status, answer.body);
      assert.match(answer.body, header);
    });

  const restarts = async () =>
    (await mesh.pods(SHOP)).flatMap(({ status }) => (status.containerStatuses ?? []).map((each) => each.restartCount));

  test('a policy that denies takes effect with the label, and ends with it', async () => {
    await label('web', 'quarantine=on');
    await answers(403);
    await label('web', 'quarantine-');
    await answers(200);
    assert.ok((await restarts()).every((count) => count === 0));
  });

  test('an EnvoyFilter applies while the Pod has the label', async () => {
    await label('web', 'trial=on');
    await answers(200, /^x-mark: trial/m);
    await label('web', 'trial-');
    await answers(200, /^(?!.*x-mark)/s);
  });

  test('a Sidecar decides what the Pod can call while the Pod has the label', async () => {
    await label('client', 'egress=none');
    // The connection is closed.
    await answers(0);
    await label('client', 'egress-');
    await answers(200);
  });

  test('a label that nothing selects fails no request', async () => {
    const calls = steadyCalls(mesh, CLIENT, URL);
    await calls.more(3);
    await label('web', 'note=seen');
    await calls.more(10);
    assert.deepEqual(Object.keys(await calls.stop()), ['200']);
  });
});
