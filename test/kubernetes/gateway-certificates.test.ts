/**
 * Gateways of the Gateway API with certificates in Secrets, as the charts install them: the example of
 * docs/gateway-api.md, and Secrets that come late, change and go.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import { example } from '../e2e/support/documents.ts';
import { holdConnection, https } from '../e2e/support/https-client.ts';
import { createScope, eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import {
  type ApiObject,
  conformanceUnavailable,
  helmUnavailable,
  kubernetesUnavailable,
  type Mesh,
  startMesh,
} from '../harness/kubernetes/index.ts';
import { kubectlUnavailable } from './support/injected-mesh.ts';

const skip =
  kubernetesUnavailable() ??
  helmUnavailable() ??
  conformanceUnavailable() ??
  (await netnsUnavailable()) ??
  kubectlUnavailable() ??
  false;

const NS = 'edge';
const HOST = 'shop.example.com';
const GATEWAY = '/apis/gateway.networking.k8s.io/v1/namespaces/edge/gateways/shop';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message: string;
}

interface Status {
  readonly addresses?: readonly { readonly value: string }[];
  readonly conditions: readonly Condition[];
  readonly listeners: readonly { readonly conditions: readonly Condition[] }[];
}

/** A Pod and its Service. */
const shop: ApiObject[] = [
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'shop', namespace: 'default', labels: { app: 'shop' } },
    spec: { containers: [{ name: 'app', image: 'echo', ports: [{ containerPort: 8080 }] }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'shop', namespace: 'default' },
    spec: { selector: { app: 'shop' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
  },
];

describe('a Gateway with a certificate in a Secret, with the charts as installed', { skip }, () => {
  const owner = createScope();
  const root = testRoot('end users');
  let mesh: Mesh;
  let folder = '';
  let kubeconfig = '';

  before(async () => {
    mesh = await startMesh(owner, { gatewayApi: true });
    [folder, kubeconfig] = await Promise.all([tempDir(owner), mesh.cluster.kubeconfig(owner)]);
    // The account `default` of the namespace comes first.
    await eventually(() => mesh.cluster.api.apply(shop));
  });
  after(() => owner.close());

  const output = () => mesh.logs.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n');
  const run = async (script: string): Promise<string> => {
    const path = [dirname(process.env.KUBECTL_PATH ?? ''), process.env.PATH].join(':');
    const env = { ...process.env, PATH: path, HOME: folder, KUBECONFIG: kubeconfig };
    try {
      return (await promisify(execFile)('sh', ['-ec', script], { env, timeout: 600_000 })).stdout;
    } catch (error) {
      throw new Error(`${String(error)}\n${output()}`);
    }
  };
  const status = async () => (await mesh.cluster.api.get<{ status: Status }>(GATEWAY)).status;
  const resolved = async () =>
    (await status()).listeners[0]?.conditions.find(({ type }) => type === 'ResolvedRefs') ?? assert.fail();
  const target = async (trusted = root.pem) => {
    const address = (await status()).addresses?.[0]?.value ?? assert.fail('no address');
    return { address, port: 443, host: HOST, root: trusted };
  };
  const secret = (certificate: { readonly leaf: string; readonly key: string }) => {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    return {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'shop-cert', namespace: NS },
      type: 'kubernetes.io/tls',
      data: { 'tls.crt': base64(certificate.leaf), 'tls.key': base64(certificate.key) },
    };
  };

  test('docs/gateway-api.md: a certificate and a Gateway are enough', async () => {
    const files = { '/tmp/shop': join(folder, 'shop') };
    await run(example('docs/gateway-api.md', 'a Gateway with HTTPS', files));
    const request = example('docs/gateway-api.md', 'a request', files);
    await eventually(async () => assert.match(await run(request), /shop/), { timeoutMs: 60_000 });
    const { status: isResolved, message } = await resolved();
    const expected = 'the gateway reads Secret edge/shop-cert itself; the control plane has not checked the Secret';
    assert.deepEqual([isResolved, message], ['True', expected]);
  });

  test('the control plane has no right to the Secret, and the gateway to no other namespace', async () => {
    const may = async (account: string, namespace: string) =>
      (
        await run(`kubectl auth can-i list secrets -n ${namespace} --as system:serviceaccount:${account} || true`)
      ).trim();
    assert.equal(await may('mesh-system:ctl-discovery', NS), 'no');
    assert.equal(await may('edge:shop-meshd', NS), 'yes');
    assert.equal(await may('edge:shop-meshd', 'mesh-system'), 'no');
    assert.equal(await may('edge:default', NS), 'no');
  });

  test('a Secret that is renewed under load fails no handshake and ends no connection', async () => {
    const sets = [1, 2, 3].map(() => certificateSet(root, HOST));
    const [first, ...others] = sets;
    assert.ok(first);
    await mesh.cluster.api.apply([secret(first)]);
    await eventually(async () => assert.equal((await https(await target())).certificate, first.leaf));
    const at = await target();
    const held = await holdConnection(at);
    owner.after(() => held.close());
    const [failures, seen] = [[] as string[], new Set<string>()];
    let going = true;
    const load = (async () => {
      while (going) {
        await https(at).then(
          ({ status: code, certificate }) => (code === 200 ? seen.add(certificate) : failures.push(String(code))),
          (error: unknown) => failures.push(String(error)),
        );
        assert.equal(await held.get(), 200);
      }
    })();
    for (const next of others) {
      await mesh.cluster.api.apply([secret(next)]);
      await eventually(() => assert.ok(seen.has(next.leaf)));
    }
    going = false;
    await load;
    assert.deepEqual(failures, []);
  });

  test('a Secret that is deleted and created again is followed', async () => {
    const [before, next] = [(await https(await target())).certificate, certificateSet(root, HOST)];
    await mesh.cluster.api.delete(secret(next));
    await eventually(() => assert.match(output(), /no Secret edge\/shop-cert; the last good version stays in use/));
    assert.equal((await https(await target())).certificate, before);
    await mesh.cluster.api.apply([secret(next)]);
    await eventually(async () => assert.equal((await https(await target())).certificate, next.leaf));
  });
});
