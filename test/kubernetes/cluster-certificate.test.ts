/**
 * The certificate of the secure gRPC address from a signer of a real API server
 * (CTL_CERT_PROVIDER=orchestrator/<signer>). `ctl-discovery` has the permissions of `deploy/rbac.yaml`, and those that
 * docs/certificates.md adds for a signer.
 */
import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { readCsr } from '../../src/security/authority/csr.ts';
import { derOf, ecKey, makeCa, makeLeaf, pemOf } from '../../src/security/testing/credentials.ts';
import { channel, client, stream } from '../e2e/support/identity-calls.ts';
import { createScope, type DiscoveryOptions, discoveryPorts, eventually, startDiscovery } from '../harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  startKubernetes,
  watchCollection,
} from '../harness/kubernetes/index.ts';

const skip = kubernetesUnavailable() ?? false;
const [SIGNER, REQUESTS] = ['example.com/serving', '/apis/certificates.k8s.io/v1/certificatesigningrequests'];
const DAY_MS = 86_400_000;
const ca = makeCa({ name: 'signer', notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS });
const root = pemOf(derOf(ca));

interface Request extends ApiObject {
  readonly spec: { readonly signerName: string; readonly request: string };
  readonly status?: { readonly certificate?: string; readonly conditions?: readonly { readonly type: string }[] };
}

const hasCondition = ({ status }: Request, type: string) =>
  status?.conditions?.some((condition) => condition.type === type) === true;

describe('the certificate of the secure gRPC address from a signer of the cluster', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  /** Lifetimes of the next certificates, ms; then a day. */
  let lifetimes: number[] = [];
  const requests = new Map<string, Request>();

  const decide = (name: string, conditions: readonly object[]) =>
    cluster.api.request({
      method: 'PUT',
      path: `${REQUESTS}/${name}/approval`,
      body: {
        ...requests.get(name),
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        status: { conditions },
      },
    });
  const decision = (type: string) => [{ type, status: 'True', reason: 'Test', message: 'by the test' }];

  /** Signs a request that is approved. */
  const sign = async (object: ApiObject): Promise<void> => {
    const request = object as Request;
    requests.set(request.metadata.name, request);
    if (request.status?.certificate !== undefined || !hasCondition(request, 'Approved')) return;
    const { publicKey } = readCsr(Buffer.from(request.spec.request, 'base64').toString());
    const keys = { ...ecKey('P-256'), publicKey: createPublicKey({ key: publicKey, format: 'der', type: 'spki' }) };
    const names = ['meshd', 'ctl-discovery'].flatMap((name) =>
      ['', '.svc', '.svc.cluster.local'].map((end) => `${name}.mesh-system${end}`),
    );
    const notAfter = Date.now() + (lifetimes.shift() ?? DAY_MS / 2);
    const leaf = makeLeaf({
      issuer: ca,
      keys,
      uris: [],
      dnsNames: [...names, 'localhost'],
      notBefore: Date.now() - DAY_MS / 2,
      notAfter,
    });
    await cluster.api.patch(
      { apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest', metadata: request.metadata },
      { status: { certificate: Buffer.from(pemOf(leaf)).toString('base64') } },
      'status',
    );
  };

  const allow = async (rules: readonly object[]) => {
    const [apiVersion, metadata] = ['rbac.authorization.k8s.io/v1', { name: 'ctl-discovery-signer' }];
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: metadata.name };
    const subjects = [{ kind: 'ServiceAccount', name: 'ctl-discovery', namespace: 'mesh-system' }];
    await cluster.api.apply([
      { apiVersion, kind: 'ClusterRole', metadata, rules },
      { apiVersion, kind: 'ClusterRoleBinding', metadata, roleRef, subjects },
    ]);
  };
  const group = { apiGroups: ['certificates.k8s.io'] };
  const CREATE = { ...group, resources: ['certificatesigningrequests'], verbs: ['create', 'get'] };
  const APPROVE = [
    { ...group, resources: ['certificatesigningrequests/approval'], verbs: ['update'] },
    { ...group, resources: ['signers'], resourceNames: [SIGNER], verbs: ['approve'] },
  ];

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    watchCollection(owner, cluster.api, REQUESTS, {
      changed: (object) => void sign(object).catch(() => undefined),
      gone: () => {},
    });
  });
  after(() => owner.close());

  const start = async (options: Partial<DiscoveryOptions> = {}) =>
    startDiscovery(owner, {
      kubeconfig: await discoveryKubeconfig(owner, cluster),
      ports: await discoveryPorts(),
      env: { CTL_CERT_PROVIDER: `orchestrator/${SIGNER}`, MESHD_CUSTOM_HOST: 'localhost' },
      ...options,
    });
  /** What a caller without a credential is answered over a connection that this signer's root verifies. */
  const reached = (port: number | undefined) => stream(client(owner, port ?? 0, channel({ root }))).first;
  const pending = () => [...requests.values()].find((each) => each.status?.conditions === undefined)?.metadata.name;

  test('is requested, approved and in use, and another one before it ends', async () => {
    await allow([CREATE, ...APPROVE]);
    lifetimes = [8000];
    const discovery = await start();
    assert.match(await reached(discovery.ports.secure), /^UNAUTHENTICATED/);
    const line = /new connections to the secure gRPC address use the new certificate/;
    await eventually(() => assert.match(discovery.output(), line), { timeoutMs: 30_000 });
    assert.equal(requests.size, 2);
    assert.match(await reached(discovery.ports.secure), /^UNAUTHENTICATED/);
    assert.equal((await discovery.stop()).code, 0);
  });

  test('waits for an approval where this program may not approve, and is not in use before', async () => {
    await allow([CREATE]);
    const discovery = await start({ waitReady: false });
    const line =
      /certificate of the secure gRPC address: CertificateSigningRequest meshd-mesh-system-\S+.* is waiting for appr/;
    await eventually(() => assert.match(discovery.output(), line), { timeoutMs: 30_000 });
    assert.equal((await discovery.http('/ready')).status, 503);
    await eventually(() => assert.ok(pending()));
    await decide(pending() ?? '', decision('Approved'));
    await discovery.waitReady();
    assert.match(await reached(discovery.ports.secure), /^UNAUTHENTICATED/);
    await discovery.stop();
  });

  test('that is denied ends the start with one line', async () => {
    const discovery = await start({ waitReady: false });
    await eventually(() => assert.ok(pending()), { timeoutMs: 30_000 });
    await decide(pending() ?? '', decision('Denied'));
    assert.equal((await discovery.exited).code, 1);
    assert.match(discovery.output(), /^ctl-discovery: CertificateSigningRequest\/\S+: was denied: "by the test"$/m);
  });

  test('is waited for until SIGTERM', async () => {
    await allow([]);
    const discovery = await start({ waitReady: false });
    const line = /cannot be requested: HTTP 403 Forbidden/;
    await eventually(() => assert.match(discovery.output(), line), { timeoutMs: 30_000 });
    assert.equal((await discovery.stop()).code, 0);
  });
});
