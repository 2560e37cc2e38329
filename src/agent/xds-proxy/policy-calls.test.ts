/** Calls of the policy component through the agent: clients on its socket, a control plane that a test answers for. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import { eventually } from '../../../test/harness/eventually.ts';
import { tempDir } from '../../../test/harness/files.ts';
import { POLICY_METHODS, POLICY_NAMESPACE_METADATA } from '../../core/proxy.ts';
import { type WallClock, wallClock } from '../../core/wall-clock.ts';
import { type GrpcClient, openGrpcClient, startGrpcServer } from '../grpc/index.ts';
import { testRoot } from '../identity/testing/certificates.ts';
import { logLines } from '../identity/testing/log-lines.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import { PolicyCalls } from './policy-calls.ts';
import { listen, type ServerTls } from './testing/control-plane.ts';

const bytesOf = (bytes: Buffer): Buffer => bytes;

interface Component {
  readonly address: ControlPlane;
  /** What it was sent: namespaces of decisions, messages of records. */
  readonly seen: string[];
  readonly certificates: (string | undefined)[];
  /** Decisions that were not waited for. */
  cancelled(): number;
  stop(): void;
}

/** Allows `allow`, does not answer `wait`, and has no decision about anything else. */
async function startComponent(context: TestContext, tls?: ServerTls) {
  const server = new grpc.Server({ 'grpc.enable_channelz': 0 });
  const [seen, certificates]: [string[], (string | undefined)[]] = [[], []];
  let cancelled = 0;
  const method = (path: string, isStream: boolean) => ({
    path,
    requestStream: isStream,
    responseStream: false,
    requestSerialize: bytesOf,
    requestDeserialize: bytesOf,
    responseSerialize: bytesOf,
    responseDeserialize: bytesOf,
  });
  server.addService(
    { check: method(POLICY_METHODS.check, false), records: method(POLICY_METHODS.records, true) },
    {
      check: (call: grpc.ServerUnaryCall<Buffer, Buffer>, done: grpc.sendUnaryData<Buffer>) => {
        seen.push(String(call.metadata.get(POLICY_NAMESPACE_METADATA)[0]));
        certificates.push(call.getAuthContext().sslPeerCertificate?.fingerprint256);
        const said = call.request.toString();
        if (said === 'allow') done(null, Buffer.from('allowed'));
        else if (said === 'wait') call.on('cancelled', () => cancelled++);
        else done({ code: grpc.status.UNAVAILABLE, details: 'no decision' });
      },
      records: (call: grpc.ServerReadableStream<Buffer, Buffer>, done: grpc.sendUnaryData<Buffer>) => {
        call.on('data', (bytes: Buffer) => seen.push(bytes.toString()));
        call.on('end', () => done(null, Buffer.alloc(0)));
      },
    },
  );
  const port = await listen(server, tls);
  const stop = (): void => server.forceShutdown();
  context.after(stop);
  const address = { host: '127.0.0.1', port, tls: tls !== undefined, serverName: 'meshd.mesh-system.svc' };
  return { address, seen, certificates, cancelled: () => cancelled, stop } satisfies Component;
}

/** An agent in front of these addresses, and a client of it. */
async function startRelay(
  context: TestContext,
  addresses: readonly ControlPlane[],
  {
    secrets,
    serverId,
    clock = wallClock,
  }: { readonly secrets?: SecretSource; readonly serverId?: string; readonly clock?: WallClock } = {},
) {
  const log = logLines();
  const calls = new PolicyCalls({
    addresses,
    secrets,
    serverId,
    openClient: openGrpcClient,
    clock,
    random: () => 0,
    log,
  });
  const path = join(await tempDir(context), 'XDS');
  const server = await startGrpcServer({
    address: { path },
    methods: calls.methods(),
    limits: { connections: 8, streams: 8, messageBytes: 4 * 1024 * 1024 },
    log,
  });
  const client = await openGrpcClient({ address: { path }, tls: undefined }, { maxMessageBytes: 4 * 1024 * 1024 });
  context.after(async () => {
    client.close();
    await server.close();
    await calls.close();
  });
  return { client, log };
}

const METADATA = { [POLICY_NAMESPACE_METADATA]: 'shop', authorization: 'Bearer of-a-client' };

/** The response, or the error in one line. */
function check(client: GrpcClient, request: string | Buffer): Promise<string> {
  const call = { path: POLICY_METHODS.check, request: Buffer.from(request), metadata: METADATA, timeoutMs: 20_000 };
  return client.unary(call).then(String, (error: Error) => error.message);
}

function secretsOf(initial: WorkloadSecrets | undefined): SecretSource & { set(secrets: WorkloadSecrets): void } {
  let current = initial;
  return {
    current: () => current,
    missing: () => (current === undefined ? 'none' : undefined),
    onChange: () => () => undefined,
    start: () => undefined,
    close: async () => undefined,
    set: (secrets) => {
      current = secrets;
    },
  };
}

function issuer() {
  const root = testRoot('mesh');
  return (...names: string[]): WorkloadSecrets => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const chain = root.issue(publicKey, names, 3_600_000);
    return { certificate: { key, chain, notBefore: 0, expiresAt: Date.now() + 3_600_000 }, roots: root.pem };
  };
}

test('decisions, failures and records pass through, with the namespace and no other metadata', async (context) => {
  const component = await startComponent(context);
  const { client } = await startRelay(context, [component.address]);
  assert.equal(await check(client, 'allow'), 'allowed');
  assert.match(await check(client, 'unknown'), /no decision/);
  assert.deepEqual(component.seen, ['shop', 'shop']);
  const records = client.stream(POLICY_METHODS.records);
  const ended = new Promise((resolve) => records.on('end', resolve));
  records.on('data', () => undefined);
  records.write(Buffer.from('one'));
  records.write(Buffer.from('two'));
  records.end();
  await ended;
  assert.deepEqual(component.seen.slice(2), ['one', 'two']);
});

test('a call is ended when its client has gone, and a long message is refused', async (context) => {
  const component = await startComponent(context);
  const { client } = await startRelay(context, [component.address]);
  assert.match(await check(client, Buffer.alloc(256 * 1024 + 1)), /too long/);
  assert.deepEqual(component.seen, []);
  const waiting = Array.from({ length: 3 }, () => {
    const stream = client.stream(POLICY_METHODS.check);
    stream.on('error', () => undefined);
    stream.end(Buffer.from('wait'));
    return stream;
  });
  await eventually(() => assert.equal(component.seen.length, 3));
  for (const stream of waiting) stream.cancel();
  await eventually(() => assert.equal(component.cancelled(), 3));
});

test('after a failure the next address is used, and the log says so', async (context) => {
  const [first, second] = [await startComponent(context), await startComponent(context)];
  const { client, log } = await startRelay(context, [first.address, second.address]);
  assert.equal(await check(client, 'allow'), 'allowed');
  first.stop();
  await eventually(async () => assert.equal(await check(client, 'allow'), 'allowed'));
  assert.deepEqual([first.seen.length, second.seen.length], [1, 1]);
  const [failed, ...others] = log.lines;
  assert.match(failed ?? '', /warn decisions and records of the policy component cannot reach the control plane/);
  assert.equal(others.at(-1), 'info decisions and records of the policy component reach the control plane again');
});

test('a component that has no decision keeps its connection, and the log does not call it unreachable', async (context) => {
  const [first, second] = [await startComponent(context), await startComponent(context)];
  // By the time of each call, the connection could have been replaced.
  let now = 0;
  const clock = { ...wallClock, now: () => (now += 60_000) };
  const { client, log } = await startRelay(context, [first.address, second.address], { clock });
  for (const _ of [1, 2, 3]) assert.match(await check(client, 'unknown'), /no decision/);
  assert.equal(await check(client, 'allow'), 'allowed');
  assert.deepEqual([first.seen.length, second.seen.length], [4, 0]);
  assert.deepEqual(log.lines, []);
});

test('with TLS, the certificate of the component has the identity, or its name if none is required', async (context) => {
  const issue = issuer();
  const id = 'spiffe://cluster.local/ns/mesh-system/sa/ctl-discovery';
  const { certificate, roots } = issue('meshd.mesh-system.svc', id);
  const component = await startComponent(context, { roots, ...certificate });
  const secrets = secretsOf(issue('spiffe://cluster.local/ns/shop/sa/web'));
  const from = async (serverId: string | undefined, host = component.address.serverName): Promise<string> => {
    const address = { ...component.address, serverName: host };
    const { client } = await startRelay(context, [address], { secrets, ...(serverId && { serverId }) });
    return check(client, 'allow');
  };
  assert.equal(await from(id), 'allowed');
  assert.match(await from(`${id}-2`), /does not have the identity spiffe:.*ctl-discovery-2/);
  assert.equal(await from(undefined), 'allowed');
  assert.match(await from(undefined, 'another.mesh-system.svc'), /another\.mesh-system\.svc/);
});

test('with TLS, the agent waits for no certificate, and uses a renewed one', async (context) => {
  const issue = issuer();
  const { certificate, roots } = issue('meshd.mesh-system.svc');
  const component = await startComponent(context, { roots, ...certificate });
  const secrets = secretsOf(undefined);
  const { client } = await startRelay(context, [component.address], { secrets });
  assert.match(await check(client, 'allow'), /no certificate yet/);
  for (const _ of [1, 2]) {
    secrets.set(issue('spiffe://cluster.local/ns/shop/sa/web'));
    assert.equal(await check(client, 'allow'), 'allowed');
  }
  const [one, other] = component.certificates;
  assert.ok(one !== undefined && other !== undefined);
  assert.notEqual(one, other);
});
