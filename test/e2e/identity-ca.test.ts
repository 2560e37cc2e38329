/**
 * Identity with the real ctl-discovery: a token of the local issuer gets a certificate of the mesh CA, which gets xDS
 * over TLS, as for an agent.
 */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { encode, mesh } from '../../src/protobuf/index.ts';
import { ecKey } from '../../src/security/authority/testing/fixtures.ts';
import { issueToken } from '../../src/security/local-issuer.ts';
import { type Discovery, discoveryPorts, startDiscovery, tempDir } from '../harness/index.ts';
import {
  call,
  certificate,
  channel,
  client,
  codeOf,
  debugPage,
  ISTIO,
  MESH,
  stream,
} from './support/identity-calls.ts';

const { MeshCertificateRequest, TrustBundleResponse } = mesh.v1.auth;

interface World {
  readonly discovery: Discovery;
  readonly port: number;
  readonly root: string;
  token(
    namespace: string,
    serviceAccount: string,
    changes?: { audience?: string; lifetimeSeconds?: number; now?: number },
  ): Promise<string>;
  restart(env?: Readonly<Record<string, string>>): Promise<World>;
}

async function startWorld(t: TestContext, env: Readonly<Record<string, string>> = {}): Promise<World> {
  const [caDir, issuerDir, configDir] = [await tempDir(t), join(await tempDir(t), 'issuer'), await tempDir(t)];
  const ports = await discoveryPorts();
  const begin = async (more: Readonly<Record<string, string>>): Promise<World> => {
    const discovery = await startDiscovery(t, {
      configDir,
      ports,
      env: { SELF_SIGNED_CA_DIR: caDir, LOCAL_TOKEN_ISSUER_DIR: issuerDir, ...more },
    });
    return {
      discovery,
      port: ports.secure ?? 0,
      root: await readFile(join(caDir, 'root-cert.pem'), 'utf8').catch(() => ''),
      token: (namespace, serviceAccount, changes = {}) =>
        issueToken({
          directory: issuerDir,
          identity: { namespace, serviceAccount },
          audience: 'mesh-ca',
          lifetimeSeconds: 60,
          now: Date.now(),
          ...changes,
        }),
      restart: async (changed = {}) => {
        await discovery.stop();
        return begin(changed);
      },
    };
  };
  return begin(env);
}

test('a token gets a certificate, under both names of the service, and the certificate gets xDS', async (t) => {
  const world = await startWorld(t);
  const plain = client(t, world.port, channel(world));
  const token = await world.token('shop', 'web');
  const keys = ecKey('P-256');
  for (const service of [MESH, ISTIO]) {
    const chain = await certificate(plain, keys, token, service);
    const leaf = new X509Certificate(chain[0] ?? '');
    assert.equal(leaf.subjectAltName, 'URI:spiffe://cluster.local/ns/shop/sa/web');
    assert.equal(
      new X509Certificate(chain.at(-1) ?? '').fingerprint256,
      new X509Certificate(world.root).fingerprint256,
    );
  }
  const chain = (await certificate(plain, keys, token)).join('');
  const known = client(t, world.port, channel(world, { chain, keys }));
  const { roots } = TrustBundleResponse.decode(await call(known, `${MESH}/GetTrustBundle`, new Uint8Array()));
  assert.equal(roots.length, 1);

  assert.equal(await stream(known).first, 'served');
  assert.equal(await stream(known, { metadata: { SERVICE_ACCOUNT: 'web' } }).first, 'served');
  assert.equal(await stream(plain, {}, token).first, 'served');
  // A certificate is renewed with the current one.
  assert.equal((await certificate(known, ecKey('P-256'))).length, 2);

  assert.match(await stream(known, { namespace: 'bank' }).first, /^PERMISSION_DENIED: .*is "bank".*for "shop"/);
  assert.match(
    await stream(known, { metadata: { SERVICE_ACCOUNT: 'admin' } }).first,
    /^PERMISSION_DENIED: node.metadata.SERVICE_ACCOUNT: is "admin"/,
  );
  assert.match(await stream(known, { metadata: { NAMESPACE: 'bank' } }).first, /^PERMISSION_DENIED/);

  const { discovery } = world;
  assert.equal(await discovery.metric('ca_server_csr_count'), 4);
  assert.equal(await discovery.metric('ca_server_success_cert_issuance_count'), 4);
  const ends = (await discovery.metric('ca_server_root_cert_expiry_timestamp')) ?? 0;
  assert.equal(ends * 1000, new X509Certificate(world.root).validToDate.getTime());
});

test('callers without a valid credential are refused by the certificate service and by xDS', async (t) => {
  const world = await startWorld(t);
  const plain = client(t, world.port, channel(world));
  const keys = ecKey('P-256');
  const refusals: readonly (readonly [string, string | undefined, RegExp])[] = [
    ['nothing', undefined, /a client certificate of the mesh or a bearer token is required/],
    ['no token', 'secret', /token: not a JSON Web Token/],
    ['an expired token', await world.token('shop', 'web', { now: Date.now() - 3_600_000 }), /it has expired/],
    ['a token for others', await world.token('shop', 'web', { audience: 'vault' }), /meant for another audience/],
  ];
  for (const [what, token, reason] of refusals) {
    await assert.rejects(certificate(plain, keys, token), (error: ServiceError) => {
      assert.equal(codeOf(error), 'UNAUTHENTICATED', what);
      assert.match(error.details, reason);
      return true;
    });
    assert.match(await stream(plain, {}, token).first, /^UNAUTHENTICATED/, what);
  }
  assert.equal(await world.discovery.metric('ca_server_authentication_failure_count'), refusals.length);

  const token = await world.token('shop', 'web');
  const bad = encode(MeshCertificateRequest, { csr: 'none' });
  await assert.rejects(call(plain, `${MESH}/CreateCertificate`, bad, token), /INVALID_ARGUMENT/);
  assert.equal(await world.discovery.metric('ca_server_csr_parsing_err_count'), 1);
  await assert.rejects(call(plain, `${MESH}/CreateCertificate`, Buffer.alloc(100_000), token), /RESOURCE_EXHAUSTED/);
  await assert.rejects(certificate(plain, keys, token, MESH, 10 ** 9), /INVALID_ARGUMENT.*MAX_WORKLOAD_CERT_TTL/);

  const open = client(t, world.discovery.ports.grpc, credentials.createInsecure());
  await assert.rejects(certificate(open, keys, token), /UNIMPLEMENTED.*only on the secure gRPC address/);
  assert.equal(await stream(open).first, 'served');
});

test('debug pages over xDS are for callers with a credential, of the root namespace or for their own proxies', async (t) => {
  const world = await startWorld(t);
  const plain = client(t, world.port, channel(world));
  const [root, shop, bank] = await Promise.all(
    ['mesh-system', 'shop', 'bank'].map((namespace) => world.token(namespace, 'web')),
  );
  for (const [namespace, token] of [
    ['shop', shop],
    ['bank', bank],
  ] as const) {
    assert.equal(await stream(plain, { namespace }, token).first, 'served');
  }
  const [SYNCZ, DUMP] = ['istio.io/debug/syncz', 'istio.io/debug/config_dump'];
  const ids = async (token: string | undefined) => {
    const { resources, controlPlane } = await debugPage(plain, SYNCZ, '', token);
    assert.match(controlPlane?.identifier ?? '', /^\{"Component":"ctl-discovery","ID":"[^"]+","Info":\{"version":/);
    // The first field of a ClientConfig is its node, whose first field is the id: what istioctl prints as the name.
    return resources.map(({ value }) => /\n.(\w+\.\w+)/.exec(Buffer.from(value).toString('latin1'))?.[1]);
  };
  assert.deepEqual((await ids(root)).sort(), ['web.bank', 'web.shop']);
  assert.deepEqual(await ids(shop), ['web.shop']);
  const types = async (proxy: string, token: string | undefined) => {
    const { resources } = await debugPage(plain, DUMP, proxy, token);
    return resources.map(({ typeUrl }) => typeUrl.split('.').at(-1)?.replace('ConfigDump', '')).join();
  };
  assert.equal(await types('web.shop', shop), 'Bootstrap,Clusters,Endpoints,Listeners,Routes,Secrets,Ecds');
  assert.equal(await types('web.bank', shop), '');
  const text = async (name: string, token: string | undefined) => {
    const { resources } = await debugPage(plain, 'istio.io/debug', name, token);
    return Buffer.from(resources[0]?.value ?? []).toString();
  };
  assert.deepEqual(
    (JSON.parse(await text('syncz', bank)) as { proxy: string }[]).map(({ proxy }) => proxy),
    ['web.bank'],
  );
  assert.match(await text('nothing', root), /^404 page not found/);
  assert.match(await text('edsz?proxyID=web.bank', shop), /Proxy not connected/);
  await assert.rejects(debugPage(plain, SYNCZ, ''), /UNAUTHENTICATED/);
  // Plain text has no credentials.
  const open = client(t, world.discovery.ports.grpc, credentials.createInsecure());
  await assert.rejects(debugPage(open, SYNCZ, ''), /UNAUTHENTICATED: debug pages need a credential/);
});

test('a stream ends when its credential expires', async (t) => {
  const world = await startWorld(t);
  const plain = client(t, world.port, channel(world));
  const byToken = stream(plain, {}, await world.token('shop', 'web', { lifetimeSeconds: 8 }));
  const keys = ecKey('P-256');
  const chain = await certificate(plain, keys, await world.token('shop', 'web'), MESH, 8);
  const known = client(t, world.port, channel(world, { chain: chain.join(''), keys }));
  const byCertificate = stream(known);
  for (const { first, ended } of [byToken, byCertificate]) {
    assert.equal(await first, 'served');
    const { code, details } = await ended;
    assert.deepEqual([status[code], details], ['UNAVAILABLE', 'the credential of this stream has expired: reconnect']);
  }
  // A new connection of the same client, which has only the old certificate.
  assert.match(await stream(known).first, /^UNAUTHENTICATED: client certificate: it expired at/);
});

test('the authority keeps its root over a restart, and can be disabled', async (t) => {
  const world = await startWorld(t);
  const keys = ecKey('P-256');
  const token = await world.token('shop', 'web');
  const chain = (await certificate(client(t, world.port, channel(world)), keys, token)).join('');

  const again = await world.restart();
  assert.equal(again.root, world.root);
  assert.equal(await stream(client(t, again.port, channel(again, { chain, keys }))).first, 'served');

  const open = await again.restart({ XDS_AUTH: 'false' });
  const anybody = client(t, open.port, channel(open));
  assert.equal(await stream(anybody, { namespace: 'bank' }).first, 'served');
  await assert.rejects(certificate(anybody, keys), /UNAUTHENTICATED/);

  const without = await open.restart({ ENABLE_CA_SERVER: 'false' });
  // The secure gRPC address still serves xDS to authenticated callers.
  await assert.rejects(certificate(client(t, without.port, channel(without)), keys, token), /UNIMPLEMENTED/);
  assert.equal(await stream(client(t, without.port, channel(without, { chain, keys }))).first, 'served');
  assert.match(await stream(client(t, without.port, channel(without))).first, /^UNAUTHENTICATED/);

  const bare = await without.restart({ ENABLE_CA_SERVER: 'false', CTL_CERT_PROVIDER: 'none' });
  assert.match(
    bare.discovery.output(),
    /the secure gRPC address \S+ and the webhooks are not served: without a CA server .*--tlsCertFile/,
  );
  assert.equal(await stream(client(t, bare.discovery.ports.grpc, credentials.createInsecure())).first, 'served');
});

test('invalid settings end the program with one line', async (t) => {
  const rows: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [{ JWT_POLICY: 'none' }, /^ctl-discovery: JWT_POLICY: "none" is not one of/m],
    [{ CTL_CERT_PROVIDER: 'kubernetes' }, /^ctl-discovery: CTL_CERT_PROVIDER: "kubernetes" is not one of/m],
    [
      { CTL_CERT_PROVIDER: 'orchestrator' },
      /^ctl-discovery: CTL_CERT_PROVIDER: "orchestrator" is not one of .*orchestrator\/<signer name>/m,
    ],
    [
      { CTL_CERT_PROVIDER: 'orchestrator/example.com/serving' },
      /^ctl-discovery: CTL_CERT_PROVIDER=orchestrator\/example.com\/serving: needs an API server/m,
    ],
    [{ TOKEN_ISSUER: 'http://issuer.example' }, /^ctl-discovery: TOKEN_ISSUER: .*must use https/m],
    [
      { SPIFFE_BUNDLE_ENDPOINTS: 'other.example' },
      /^ctl-discovery: SPIFFE_BUNDLE_ENDPOINTS: "other.example": the trust domain is missing/m,
    ],
  ];
  for (const [env, line] of rows) {
    const discovery = await startDiscovery(t, { configDir: await tempDir(t), env, waitReady: false });
    assert.equal((await discovery.exited).code, 1);
    assert.match(discovery.output(), line);
  }
});

test('a key directory in use, or readable by others, ends the start with one line', async (t) => {
  const caDir = await tempDir(t);
  const start = async (waitReady: boolean): Promise<Discovery> =>
    startDiscovery(t, { configDir: await tempDir(t), env: { SELF_SIGNED_CA_DIR: caDir }, waitReady });
  const first = await start(true);
  const second = await start(false);
  assert.equal((await second.exited).code, 1);
  assert.match(second.output(), /^ctl-discovery: \S+: is in use by another program \(process \d+\)/m);
  // A killed program leaves its lock, which is recognized as free.
  process.kill(first.pid, 'SIGKILL');
  await first.exited;
  await (await start(true)).stop();

  await chmod(join(caDir, 'ca-state.json'), 0o644);
  const third = await start(false);
  assert.equal((await third.exited).code, 1);
  assert.match(third.output(), /^ctl-discovery: \S+ca-state\.json: .*mode 0644.*set it to 0600/m);
});
