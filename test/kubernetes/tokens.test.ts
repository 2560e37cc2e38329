/**
 * Callers of `ctl-discovery` with tokens of service accounts, which a real API server issues and reviews. It runs with
 * the permissions of `deploy/rbac.yaml`.
 */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SignJWT } from 'jose';
import { ecKey } from '../../src/security/authority/testing/fixtures.ts';
import { pod } from '../e2e/support/config.ts';
import { certificate, channel, client, codeOf, type NodeClaim, stream } from '../e2e/support/identity-calls.ts';
import {
  createScope,
  type Discovery,
  discoveryPorts,
  eventually,
  request,
  startAgent,
  startDiscovery,
  tempDir,
} from '../harness/index.ts';
import {
  type ApiObject,
  discoveryKubeconfig,
  type Kubernetes,
  kubernetesUnavailable,
  meshRoot,
  startKubernetes,
  TOKEN_ISSUER,
  type TokenOptions,
} from '../harness/kubernetes/index.ts';

const TOKEN_REVIEWS = '/apis/authentication.k8s.io/v1/tokenreviews';
const skip = kubernetesUnavailable() ?? false;
const [WEB, OTHER] = ['10.244.9.11', '10.244.9.12'] as const;

/** A running Pod that no kubelet runs. */
const running = (name: string, namespace: string, ip: string, serviceAccount: string) => {
  const document = pod(name, { namespace, labels: { app: name }, ip, serviceAccount }) as ApiObject & { spec: object };
  return { ...document, spec: { ...document.spec, containers: [{ name: 'app', image: 'none' }] } };
};

describe('callers with tokens of service accounts', { skip }, () => {
  const owner = createScope();
  let cluster: Kubernetes;
  let discovery: Discovery;
  let root = '';
  let namespace = '';
  let web: ApiObject;

  before(async () => {
    cluster = await startKubernetes(owner, { definitions: true });
    namespace = await cluster.newNamespace('shop');
    const account = (name: string) => ({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } });
    await cluster.api.apply(['web', 'other', 'leaving'].map(account));
    const [made] = await cluster.api.apply([
      running('web-1', namespace, WEB, 'web'),
      running('other-1', namespace, OTHER, 'other'),
    ]);
    web = made ?? assert.fail('no Pod');
    discovery = await startDiscovery(owner, {
      kubeconfig: await discoveryKubeconfig(owner, cluster),
      ports: await discoveryPorts(),
    });
    root = await meshRoot(cluster);
  });
  after(() => owner.close());

  const caller = () => client(owner, discovery.ports.secure ?? 0, channel({ root }));
  const token = (changes: Partial<TokenOptions> = {}) =>
    cluster.serviceAccountToken({ namespace, name: 'web', audiences: ['mesh-ca'], ...changes });
  const opened = (bearer: string, claim: NodeClaim = {}) =>
    stream(caller(), { namespace, pod: 'web-1', address: WEB, ...claim }, bearer).first;

  /** Waits until the API server has noticed that the account or Pod of a token was deleted, which takes a moment. */
  const revoked = (bearer: string) =>
    eventually(async () => {
      const spec = { token: bearer, audiences: ['mesh-ca'] };
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec };
      const answer = await cluster.api.request({ method: 'POST', path: TOKEN_REVIEWS, body });
      const { status } = answer.json() as { status: { authenticated?: boolean } };
      assert.equal(status.authenticated ?? false, false);
    });

  /** Waits until the log of ctl-discovery has a line. */
  const logged = (line: RegExp) => eventually(() => assert.match(discovery.output(), line), { timeoutMs: 30_000 });

  test('a token of a Pod gets a certificate for its account, and the stream of that Pod', async () => {
    const bound = await token({ boundTo: web });
    const [leaf = ''] = await certificate(caller(), ecKey('P-256'), bound);
    const uri = `URI:spiffe://cluster.local/ns/${namespace}/sa/web`;
    assert.equal(new X509Certificate(leaf).subjectAltName, uri);
    assert.equal(await opened(bound), 'served');
    assert.equal(await opened(bound, { metadata: { SERVICE_ACCOUNT: 'web' } }), 'served');
    assert.match(await opened(bound, { pod: 'other-1' }), /^PERMISSION_DENIED: node.id: is "other-1".*"web-1"/);
    assert.match(await opened(bound, { address: OTHER }), /^PERMISSION_DENIED: node.id: .* not an address of the Pod/);
    assert.match(await opened(bound, { namespace: 'default' }), /^PERMISSION_DENIED: node.metadata.NAMESPACE/);
  });

  test('a token of no Pod gets the streams of its account alone', async () => {
    const unbound = await token();
    assert.equal(await opened(unbound), 'served');
    assert.equal(await opened(unbound, { pod: 'unknown' }), 'served');
    assert.match(
      await opened(unbound, { pod: 'other-1', address: OTHER }),
      /^PERMISSION_DENIED: .*service account other/,
    );
  });

  test('a certificate gets the streams of its account alone', async () => {
    const keys = ecKey('P-256');
    const chain = (await certificate(caller(), keys, await token({ boundTo: web }))).join('');
    const known = () => client(owner, discovery.ports.secure ?? 0, channel({ root }, { chain, keys }));
    assert.equal(await stream(known(), { namespace, pod: 'web-1', address: WEB }).first, 'served');
    const refused = await stream(known(), { namespace, pod: 'other-1', address: OTHER }).first;
    assert.match(refused, /^PERMISSION_DENIED: .*service account other/);
  });

  test('an agent gets certificate and configuration with the token of its Pod, and none with that of another', async () => {
    const folder = await tempDir(owner);
    await writeFile(join(folder, 'root.pem'), root);
    const [other = assert.fail('no Pod')] = await cluster.api.apply([running('other-1', namespace, OTHER, 'other')]);
    const agentOf = async (tokenFile: string, bearer: string, waitReady: boolean) => {
      await writeFile(join(folder, tokenFile), bearer);
      return startAgent(owner, {
        name: 'web-1',
        podNamespace: namespace,
        address: WEB,
        discoveryAddress: `127.0.0.1:${discovery.ports.secure}`,
        env: { CA_TOKEN_FILE: join(folder, tokenFile), CA_ROOT_CA: join(folder, 'root.pem') },
        waitReady,
      });
    };
    const agent = await agentOf('own', await token({ boundTo: web }), true);
    assert.match(await agent.admin('/certs'), new RegExp(`"spiffe://cluster.local/ns/${namespace}/sa/web"`));
    await agent.stop();
    const impostor = await agentOf('other', await token({ name: 'other', boundTo: other }), false);
    await logged(/authorization\trefused .*node.id: is "web-1 \(service account web\)", but .* is for "other"/);
    assert.notEqual(await impostor.readiness(), 200);
    await impostor.stop();
  });

  test('a Pod that has just been created is served, and the token of a deleted one is refused', async () => {
    for (const round of [1, 2]) {
      const name = 'brief-0';
      const [made] = await cluster.api.apply([running(name, namespace, `10.244.9.2${round}`, 'web')]);
      const boundTo = made ?? assert.fail('no Pod');
      const [first, second, third] = await Promise.all(
        [3600, 4000, 5000].map((expirationSeconds) => token({ boundTo, expirationSeconds })),
      );
      assert.ok(first && second && third);
      assert.equal(await opened(first, { pod: name, address: `10.244.9.2${round}` }), 'served');
      await cluster.api.delete(boundTo);
      await revoked(third);
      assert.match(await opened(second, { pod: name }), /^UNAUTHENTICATED: token: the API server does not accept it/);
    }
  });

  test('tokens for others, of deleted accounts and of other clusters are refused', async () => {
    const [leaving, left] = [
      await token({ name: 'leaving' }),
      await token({ name: 'leaving', expirationSeconds: 4000 }),
    ];
    await cluster.api.delete({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'leaving', namespace } });
    await revoked(left);
    const elsewhere = await new SignJWT()
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(TOKEN_ISSUER)
      .setSubject(`system:serviceaccount:${namespace}:web`)
      .setAudience('mesh-ca')
      .setExpirationTime('1h')
      .sign(ecKey('P-256').privateKey);
    const rows: readonly (readonly [string, string, RegExp])[] = [
      ['for the API server', await token({ audiences: [TOKEN_ISSUER] }), /it is meant for another audience/],
      ['for another service', await token({ audiences: ['vault'] }), /it is meant for another audience/],
      ['of a deleted account', leaving, /the API server does not accept it/],
      ['of another cluster with the same issuer', elsewhere, /the API server does not accept it/],
      ['of an administrator', cluster.admin.token, /not a JSON Web Token/],
    ];
    for (const [what, bearer, reason] of rows) {
      assert.match(await opened(bearer), /^UNAUTHENTICATED/, what);
      await assert.rejects(certificate(caller(), ecKey('P-256'), bearer), (error: Error) => {
        assert.equal(codeOf(error), 'UNAUTHENTICATED', what);
        assert.match(error.message, reason, what);
        return true;
      });
    }
  });

  test('many proxies that connect at once are all served', async () => {
    const times = Array.from({ length: 60 }, (_, index) => 3600 + index);
    const all = await Promise.all(times.map((expirationSeconds) => token({ boundTo: web, expirationSeconds })));
    const outcomes = await Promise.all(all.map((bearer) => opened(bearer)));
    assert.deepEqual(new Set(outcomes), new Set(['served']));
  });

  test('a token of the root namespace sees all debug pages, that of another namespace its own services', async () => {
    const service = (name: string, of: string) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace: of },
      spec: { ports: [{ name: 'http', port: 80, protocol: 'TCP' }] },
    });
    await cluster.api.apply([service('mine', namespace), service('theirs', 'default')]);
    const page = async (bearer: string) => {
      const headers = { authorization: `Bearer ${bearer}` };
      const { status, body } = await request({ port: discovery.ports.http, path: '/debug/registryz', headers });
      return [status, body.includes('mine.'), body.includes('theirs.')];
    };
    const [all, own] = [await token({ namespace: 'mesh-system', name: 'ctl-discovery' }), await token()];
    await eventually(async () => assert.deepEqual(await page(all), [200, true, true]));
    assert.deepEqual(await page(own), [200, true, false]);
    assert.deepEqual(await page(await token({ audiences: ['vault'] })), [401, false, false]);
  });

  test('while the API server is unavailable, new callers get an error that allows a retry, and connected ones continue', async () => {
    const keys = ecKey('P-256');
    const connected = stream(caller(), { namespace, pod: 'web-1', address: WEB }, await token({ boundTo: web }));
    assert.equal(await connected.first, 'served');
    let ended = false;
    connected.call.on('close', () => {
      ended = true;
    });
    const chain = (await certificate(caller(), keys, await token())).join('');
    const fresh = await token({ expirationSeconds: 4000 });
    await cluster.apiServer.kill();
    assert.match(await opened(fresh), /^UNAVAILABLE: token: the API server cannot review it now, try again later/);
    await logged(
      /\terror\tauthn\tthe API server cannot review tokens: .*; callers with tokens are refused until it can/,
    );
    const renewed = client(owner, discovery.ports.secure ?? 0, channel({ root }, { chain, keys }));
    assert.equal((await certificate(renewed, ecKey('P-256'))).length, 2);
    assert.equal(ended, false);
    await cluster.apiServer.start();
    await eventually(async () => assert.equal(await opened(fresh), 'served'), { timeoutMs: 60_000 });
    await logged(/tokens of service accounts are reviewed by the API server again/);
  });

  test('without the right to create reviews, callers are told to retry, and the log names the right', async () => {
    const name = 'ctl-discovery';
    const role = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${name}`;
    const { rules } = await cluster.api.get<{ rules: { resources: string[] }[] }>(role);
    const reference = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name } };
    const others = rules.filter(({ resources }) => !resources.includes('tokenreviews'));
    assert.ok(others.length < rules.length);
    await cluster.api.patch(reference, { rules: others });
    const refused = async () =>
      assert.match(
        await opened(await token({ expirationSeconds: 5000 })),
        /^UNAVAILABLE: token: the API server cannot/,
      );
    await eventually(refused, { timeoutMs: 30_000 });
    await logged(/\terror\tauthn\tHTTP 403 Forbidden: .*is allowed to create TokenReviews/);
    await cluster.api.patch(reference, { rules });
    await eventually(async () => assert.equal(await opened(await token()), 'served'), { timeoutMs: 30_000 });
  });

  test('with JWT_POLICY first-party-jwt, tokens for the API server itself are accepted', async () => {
    const ports = await discoveryPorts();
    await startDiscovery(owner, {
      kubeconfig: await discoveryKubeconfig(owner, cluster),
      ports,
      env: { JWT_POLICY: 'first-party-jwt' },
    });
    const from = client(owner, ports.secure ?? 0, channel({ root }));
    const claim = { namespace, pod: 'web-1', address: WEB };
    assert.equal(await stream(from, claim, await token({ audiences: [TOKEN_ISSUER], boundTo: web })).first, 'served');
    assert.equal(await stream(from, claim, await token()).first, 'served');
    assert.match(await stream(from, claim, await token({ audiences: ['vault'] })).first, /^UNAUTHENTICATED/);
  });
});
