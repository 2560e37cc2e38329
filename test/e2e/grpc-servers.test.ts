/**
 * gRPC servers that speak xDS themselves, in Go, with the real ctl-discovery and clients of the same kind: mutual TLS
 * with verified names on both sides, authorization, and refusal of what such servers cannot decide.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Client, credentials } from '@grpc/grpc-js';
import {
  type CallResult,
  type GrpcApplication,
  SAY,
  startGrpcApplication,
  writeGrpcBootstrap,
} from '../grpc/application.ts';
import { buildUnavailable } from '../grpc/build.ts';
import { eventually, freePorts } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type CertificateFiles, foreignRoot, signedBy } from './support/foreign-certificate.ts';
import { planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PORT = 7070;
const TARGET = `xds:///echo.default.svc.cluster.local:${PORT}`;
const SHOUT = '/echo.Echo/Shout';

const owner = suiteOwner();
const mesh = lazy<TestMesh>();
const server = lazy<GrpcApplication>();
const client = lazy<GrpcApplication>();
const other = lazy<GrpcApplication>();
const foreign = lazy<GrpcApplication>();
const address = planMesh();
const ADDRESS = address(1);
const [SERVED = 0, UNSERVED = 0] = await freePorts(2);
const skip = (await buildUnavailable()) ?? false;

const STRICT = resource('PeerAuthentication', 'default', { mtls: { mode: 'STRICT' } });

function rule(tls: Document): Document {
  return resource('DestinationRule', 'echo', { host: 'echo', trafficPolicy: { tls } });
}

function policy(name: string, spec: Document): Document {
  return resource('AuthorizationPolicy', name, { selector: { matchLabels: { app: 'echo' } }, ...spec });
}

const MUTUAL = rule({ mode: 'MESH_MUTUAL' });

/** Starts an application with a certificate of this service account, signed by `root`. */
async function start(name: string, number: number, root: CertificateFiles, trusted = root): Promise<GrpcApplication> {
  const leaf = await signedBy(owner, root, `URI:spiffe://cluster.local/ns/default/sa/${name}`);
  const bootstrap = await writeGrpcBootstrap(owner, {
    serverUri: `127.0.0.1:${mesh.get().discovery().ports.grpc}`,
    id: `sidecar~${address(number)}~${name}.default~default.svc.cluster.local`,
    metadata: { NAMESPACE: 'default', LABELS: { app: name } },
    certificates: { ...leaf, roots: trusted.certificate },
  });
  return await startGrpcApplication(owner, { language: 'go', bootstrap });
}

before(async () => {
  if (skip !== false) return;
  const ports = [{ name: 'grpc', port: PORT, targetPort: SERVED }];
  const echo = [
    service('echo', { ports, clusterIP: '10.96.7.2' }),
    endpoints('echo', { echo: ADDRESS }, [{ name: 'grpc', port: SERVED }]),
    pod('echo', { ip: ADDRESS, labels: { app: 'echo' }, serviceAccount: 'echo' }),
  ];
  mesh.set(await startMesh(owner, address, { files: { echo, peers: [STRICT], rule: [MUTUAL] } }));
  const [root, elsewhere] = await Promise.all([foreignRoot(owner), foreignRoot(owner)]);
  const [echoing, calling, another, stranger] = await Promise.all([
    start('echo', 1, root),
    start('client', 2, root),
    start('other', 3, root),
    start('client', 4, elsewhere, root),
  ]);
  server.set(echoing);
  client.set(calling);
  other.set(another);
  foreign.set(stranger);
  await echoing.serve(`0.0.0.0:${SERVED}`, 'echo');
});

/** Calls until the result is this; the policies of a server may arrive after the test has written them. */
async function expect(
  application: GrpcApplication,
  options: Parameters<GrpcApplication['call']>[1],
  expected: Partial<CallResult>,
): Promise<void> {
  await eventually(
    async () => {
      const { answers, errors, message } = await application.call(TARGET, options);
      assert.deepEqual({ answers, errors }, { answers: {}, errors: {}, ...expected }, message);
    },
    { timeoutMs: 60_000 },
  );
}

const OK = { answers: { echo: 1 } };
const DENIED = { errors: { PermissionDenied: 1 } };
const UNREACHED = { errors: { Unavailable: 1 } };

/** Calls in plain text, without xDS. */
async function plainCall(port: number): Promise<string> {
  const plain = new Client(`${ADDRESS}:${port}`, credentials.createInsecure(), { 'grpc.enable_retries': 0 });
  const same = (bytes: Buffer) => bytes;
  const answer = await new Promise<string>((resolve) => {
    const deadline = Date.now() + 60_000;
    plain.makeUnaryRequest(SAY, same, same, Buffer.alloc(0), { deadline }, (error, bytes) => {
      resolve(error === null ? `answer ${bytes?.subarray(2).toString()}` : 'refused');
    });
  });
  plain.close();
  return answer;
}

test('clients and servers use mutual TLS, and nobody else is let in', { skip }, async () => {
  await expect(client.get(), {}, OK);
  assert.deepEqual(Object.values(await server.get().modes()), ['serving']);
  await expect(foreign.get(), {}, UNREACHED);
  assert.equal(await plainCall(SERVED), 'refused');
});

test('a client refuses a server with another name', { skip }, async () => {
  const name = 'spiffe://cluster.local/ns/default/sa/someone';
  await mesh.get().config.apply('rule', rule({ mode: 'MESH_MUTUAL', subjectAltNames: [name] }));
  // It keeps the connections that it has.
  await expect(client.get(), { fresh: true }, UNREACHED);
  await mesh.get().config.apply('rule', MUTUAL);
  await expect(client.get(), { fresh: true }, OK);
});

test('a destination that needs another kind of TLS is not reached in plain text', { skip }, async () => {
  await mesh.get().config.apply('rule', rule({ mode: 'SIMPLE' }));
  await expect(client.get(), {}, UNREACHED);
  const metrics = await mesh.get().discovery().metric('ctl_missing_credentials');
  assert.ok(metrics !== undefined && metrics > 0, String(metrics));
  await mesh.get().config.apply('rule', MUTUAL);
  await expect(client.get(), {}, OK);
});

test('a server allows and denies by caller and method', { skip }, async () => {
  const principals = ['cluster.local/ns/default/sa/client'];
  const allowed = policy('callers', { rules: [{ from: [{ source: { principals } }] }] });
  await mesh.get().config.apply('policies', allowed);
  await expect(other.get(), {}, DENIED);
  await expect(client.get(), { method: SHOUT }, OK);
  const denied = policy('quiet', { action: 'DENY', rules: [{ to: [{ operation: { paths: [SHOUT] } }] }] });
  await mesh.get().config.apply('policies', allowed, denied);
  await expect(client.get(), { method: SHOUT }, DENIED);
  await expect(client.get(), {}, OK);
  await mesh.get().config.apply('policies', policy('nobody', {}));
  await expect(client.get(), {}, DENIED);
  await mesh.get().config.remove('policies');
  await expect(other.get(), { method: SHOUT }, OK);
});

test('a server refuses what it cannot decide: tokens and external authorizers', { skip }, async () => {
  const jwtRules = [{ issuer: 'tester', jwks: '{"keys":[]}' }];
  const tokens = resource('RequestAuthentication', 'tokens', { selector: { matchLabels: { app: 'echo' } }, jwtRules });
  const asked = policy('asked', {
    action: 'CUSTOM',
    provider: { name: 'authorizer' },
    rules: [{ to: [{ operation: { paths: [SHOUT] } }] }],
  });
  await mesh.get().config.apply('policies', tokens, asked);
  await expect(client.get(), { headers: { authorization: 'Bearer a.b.c' } }, DENIED);
  await expect(client.get(), { method: SHOUT }, DENIED);
  await expect(client.get(), {}, OK);
  const users = policy('users', { rules: [{ from: [{ source: { requestPrincipals: ['*'] } }] }] });
  await mesh.get().config.apply('policies', users);
  await expect(client.get(), {}, DENIED);
  // The address of the peer is not that of a client behind a gateway.
  await mesh.get().config.remove('policies');
  await expect(client.get(), {}, OK);
  const clients = policy('clients', { rules: [{ from: [{ source: { remoteIpBlocks: ['127.0.0.0/8'] } }] }] });
  await mesh.get().config.apply('policies', users, clients);
  await expect(client.get(), {}, DENIED);
  const problems = await mesh.get().discovery().http('/debug/push_status');
  assert.match(problems.body, /AuthorizationPolicy default\/clients: gRPC servers do not support some/);
  assert.match(problems.body, /AuthorizationPolicy default\/users: gRPC servers do not support some/);
  await mesh.get().config.remove('policies');
  await expect(client.get(), {}, OK);
});

test('a port of no service is not served', { skip }, async () => {
  await server.get().serve(`0.0.0.0:${UNSERVED}`, 'unknown');
  assert.equal(await plainCall(UNSERVED), 'refused');
});

test('where mutual TLS is switched off, client and server speak plain text', { skip }, async () => {
  await mesh.get().config.apply('rule', rule({ mode: 'DISABLE' }));
  await mesh.get().config.apply('peers', resource('PeerAuthentication', 'default', { mtls: { mode: 'DISABLE' } }));
  await expect(client.get(), {}, OK);
  await eventually(async () => assert.equal(await plainCall(SERVED), 'answer echo'));
});

test('nothing that an application was sent was rejected', { skip }, async () => {
  const text = await mesh.get().discovery().metrics();
  const rejects = text.split('\n').filter((line) => /^ctl_xds_\w+_reject\b/.test(line) && !line.endsWith(' 0'));
  assert.deepEqual(rejects, []);
});
