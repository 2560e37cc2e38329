/**
 * gRPC applications without a proxy in injected Pods that run: with an agent without Envoy, as another user than the
 * agent's and with mutual TLS; and without an agent, in plain text. The applications are real ones in Go.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type CallResult, type GrpcControl, grpcControl } from '../grpc/application.ts';
import { buildGrpcApplication, buildUnavailable } from '../grpc/build.ts';
import { createScope, eventually, netnsUnavailable } from '../harness/index.ts';
import { helmUnavailable, kubernetesUnavailable } from '../harness/kubernetes/index.ts';
import { type InjectedMesh, kubectlUnavailable, startInjectedMesh } from './support/injected-mesh.ts';

const skip =
  kubernetesUnavailable() ??
  helmUnavailable() ??
  (await netnsUnavailable()) ??
  kubectlUnavailable() ??
  (await buildUnavailable()) ??
  false;

const [SECURED, PLAIN] = ['secured', 'plain'];
const [PORT, CONTROL] = [7070, 8090];

const object = (apiVersion: string, kind: string, namespace: string, name: string, more: object) => ({
  apiVersion,
  kind,
  metadata: { name, namespace },
  ...more,
});

/** Its container runs as a user that owns none of the agent's files. */
function pod(namespace: string, name: string, template: string): object {
  const metadata = {
    name,
    namespace,
    labels: { app: name },
    annotations: { 'inject.mesh.io/templates': template },
  };
  const securityContext = { runAsUser: 1000, runAsGroup: 1000 };
  // Injection leaves the probe alone: no sidecar stands between the kubelet and the application.
  const readinessProbe = { tcpSocket: { port: CONTROL } };
  const containers = [{ name: 'app', image: 'grpc', readinessProbe }];
  const spec = { serviceAccountName: name, securityContext, containers };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec };
}

const world = (namespace: string, template: string): object[] => [
  ...['server', 'client', 'other'].flatMap((name) => [
    object('v1', 'ServiceAccount', namespace, name, {}),
    pod(namespace, name, template),
  ]),
  object('v1', 'Service', namespace, 'server', {
    spec: { selector: { app: 'server' }, ports: [{ name: 'grpc', port: PORT, targetPort: PORT }] },
  }),
];

describe('gRPC applications without a proxy', { skip }, () => {
  const owner = createScope();
  let mesh: InjectedMesh;
  before(async () => {
    const program = await buildGrpcApplication();
    const grpc = () => [program, `0.0.0.0:${CONTROL}`];
    const values = { plainText: { enabled: true } };
    mesh = await startInjectedMesh(owner, [SECURED, PLAIN], { grpc }, { values });
    const source = { principals: [`cluster.local/ns/${SECURED}/sa/client`] };
    await mesh.apply(
      ...world(SECURED, 'grpc-agent'),
      ...world(PLAIN, 'grpc-simple'),
      object('security.mesh.io/v1beta1', 'PeerAuthentication', SECURED, 'default', {
        spec: { mtls: { mode: 'STRICT' } },
      }),
      object('networking.mesh.io/v1alpha3', 'DestinationRule', SECURED, 'server', {
        spec: { host: 'server', trafficPolicy: { tls: { mode: 'MESH_MUTUAL' } } },
      }),
      object('security.mesh.io/v1beta1', 'AuthorizationPolicy', SECURED, 'server', {
        spec: { selector: { matchLabels: { app: 'server' } }, rules: [{ from: [{ source }] }] },
      }),
    );
    for (const namespace of [SECURED, PLAIN])
      await (await application(namespace, 'server')).serve(`0.0.0.0:${PORT}`, `server of ${namespace}`);
  });
  after(() => owner.close());

  async function application(namespace: string, name: string): Promise<GrpcControl> {
    const [running] = await mesh.ready(namespace, `app=${name}`);
    return grpcControl(running?.status.podIP ?? '', CONTROL);
  }

  async function expect(namespace: string, name: string, expected: Partial<CallResult>): Promise<void> {
    const caller = await application(namespace, name);
    await eventually(
      async () => {
        const target = `xds:///server.${namespace}.svc.cluster.local:${PORT}`;
        const { answers, errors, message } = await caller.call(target, { fresh: true });
        assert.deepEqual({ answers, errors }, { answers: {}, errors: {}, ...expected }, message);
      },
      { timeoutMs: 60_000 },
    ).catch((error: unknown) => {
      throw new Error(mesh.output(), { cause: error });
    });
  }

  test('with an agent and no Envoy they use mutual TLS, and policies know the caller', async () => {
    await expect(SECURED, 'client', { answers: { [`server of ${SECURED}`]: 1 } });
    await expect(SECURED, 'other', { errors: { PermissionDenied: 1 } });
    const [running] = await mesh.pods(SECURED, 'app=client');
    const names = running?.spec.initContainers?.map(({ name }) => name);
    assert.deepEqual(names, ['mesh-proxy']);
    assert.doesNotMatch(mesh.output(), /Envoy has started/);
  });

  test('without an agent they call each other in plain text, and nobody with mutual TLS', async () => {
    await expect(PLAIN, 'client', { answers: { [`server of ${PLAIN}`]: 1 } });
    const caller = await application(PLAIN, 'client');
    const { answers } = await caller.call(`xds:///server.${SECURED}.svc.cluster.local:${PORT}`, { timeoutMs: 5_000 });
    assert.deepEqual(answers, {});
  });
});
