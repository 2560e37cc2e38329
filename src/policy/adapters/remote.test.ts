/** Adapters outside, as real gRPC servers (grpc-js): what they return, and what happens when they fail. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { testRoot } from '../../agent/identity/testing/certificates.ts';
import { CtlError } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Connection, DynamicTemplate, Handler, Instance } from '../types.ts';
import { openRemote } from './remote.ts';
import { RemoteChannel } from './remote-channel.ts';
import { CALL, type TestHost, testHost } from './testing/host.ts';
import type { Built, CheckResult } from './types.ts';

const METHOD = '/test.Handle/Handle';

/** Added to the time of calls, so that none is late on a starved machine. */
const PATIENCE_MS = 60_000;

/** A template whose messages are JSON. */
const TEMPLATE: DynamicTemplate = {
  id: 'template.shop',
  fingerprint: 'one',
  variety: 'CHECK',
  method: METHOD,
  output: new Map(),
  encodeRequest: ({ instances, quota }) =>
    Buffer.from(
      JSON.stringify({ instances: instances.map((each) => Buffer.from(each).toString()), quota: quota?.name }),
    ),
  decodeCheck: (response) => {
    try {
      return { output: new Map(), ...(JSON.parse(Buffer.from(response).toString()) as CheckResult) } as never;
    } catch (error) {
      throw new CtlError('invalid_argument', 'the response cannot be read', {}, error);
    }
  },
  decodeQuota: (response) => new Map(Object.entries(JSON.parse(Buffer.from(response).toString()) as object)) as never,
};

function value(text: string, template = TEMPLATE): Built {
  const message = Buffer.from(text);
  const instance: Instance = {
    id: 'value.instance.shop',
    variety: 'CHECK',
    dynamic: template,
    reads: [],
    build: () => ({ template: 'dynamic', message }),
  };
  return { instance, value: { template: 'dynamic', message } };
}

type Answer = (request: string) => string | Promise<string>;

interface Adapter {
  readonly asked: string[];
  /** The metadata `authorization` of each call. */
  readonly authorizations: string[];
  readonly address: string;
  stop(): void;
}

async function startAdapter(
  context: TestContext,
  answer: Answer,
  credentials = ServerCredentials.createInsecure(),
): Promise<Adapter> {
  const [asked, authorizations]: [string[], string[]] = [[], []];
  const server = new Server();
  const bytes = (buffer: Buffer): Buffer => buffer;
  const definition = {
    handle: {
      path: METHOD,
      requestStream: false,
      responseStream: false,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    },
  };
  server.addService(definition, {
    handle: (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => {
      asked.push(call.request.toString());
      authorizations.push(...call.metadata.get('authorization').map(String));
      Promise.resolve(answer(call.request.toString())).then((text) => done(null, Buffer.from(text)), done);
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => (error === null ? resolve(bound) : reject(error))),
  );
  const stop = (): void => server.forceShutdown();
  context.after(stop);
  return { asked, authorizations, address: `127.0.0.1:${port}`, stop };
}

function open(
  context: TestContext,
  connection: Connection,
  {
    host = testHost(),
    namespace = 'mesh-system',
    results = new FairLimiter(1024 * 1024),
    patienceMs = PATIENCE_MS,
  }: {
    readonly host?: TestHost;
    readonly namespace?: string;
    readonly results?: FairLimiter;
    readonly patienceMs?: number;
  } = {},
) {
  const params = { adapter: 'adapter.shop', typeUrl: '', value: new Uint8Array(0), sessionBased: false };
  const handler = { id: 'remote.shop', namespace, fingerprint: '', adapter: 'remote', params, connection } as const;
  const running = openRemote(
    handler as Extract<Handler, { adapter: 'remote' }>,
    // Deadlines of calls are times of the machine.
    { ...host, now: () => Date.now() + patienceMs, later: (ms, run) => host.later(ms + patienceMs, run) },
    { configNamespace: 'mesh-system', results },
  );
  context.after(() => running.close());
  const check = async (text: string, caller = CALL.caller) => {
    const result = await running.check?.(value(text), { ...CALL, caller });
    return result?.status.code;
  };
  return { running, check };
}

const verdict = (code: number, validDurationMs = 0, validUseCount = 0): string =>
  JSON.stringify({ status: { code, message: '' }, validDurationMs, validUseCount });

test('a result is not used again when the template of the instance differs', async (t) => {
  const adapter = await startAdapter(t, () => verdict(0, 1_000, 3));
  const { running } = open(t, { address: adapter.address });
  for (const fingerprint of ['one', 'other', 'other'])
    await running.check?.(value('a', { ...TEMPLATE, fingerprint }), CALL);
  assert.equal(adapter.asked.length, 2);
});

test('a result is used again as often and as long as the adapter says, by the same proxy', async (t) => {
  const host = testHost();
  const adapter = await startAdapter(t, () => verdict(0, 1_000, 3));
  const { check } = open(t, { address: adapter.address }, { host });
  for (let count = 0; count < 4; count++) assert.equal(await check('a'), 0);
  assert.equal(adapter.asked.length, 2);
  await check('a', 'spiffe://td/ns/other/sa/web');
  assert.equal(adapter.asked.length, 3);
  await check('b');
  assert.equal(adapter.asked.length, 4);
  host.advance(1_001);
  await check('a');
  assert.equal(adapter.asked.length, 5);
});

test('all handlers share memory for results, of which one namespace does not get all', async (t) => {
  const [host, results] = [testHost(), new FairLimiter(16 * 1024)];
  const adapter = await startAdapter(t, () => verdict(0, 60_000, 100));
  const { check, running } = open(t, { address: adapter.address }, { host, results });
  const greedy = (text: string) => check(text, 'spiffe://td/ns/greedy/sa/a');
  const other = () => check('a', 'spiffe://td/ns/other/sa/a');
  await other();
  for (let count = 0; count < 40; count++) await greedy(`${count}`);
  assert.ok(results.size <= 16 * 1024);
  const asked = adapter.asked.length;
  await other();
  // Its newest results are kept, and the oldest ones made room.
  await greedy('39');
  assert.equal(adapter.asked.length, asked);
  await greedy('0');
  assert.equal(adapter.asked.length, asked + 1);
  host.advance(70_000);
  assert.equal(results.size, 0);
  await other();
  await running.close();
  assert.equal(results.size, 0);
});

test('results that may not be used again are not', async (t) => {
  const adapter = await startAdapter(t, () => verdict(7));
  const { check } = open(t, { address: adapter.address });
  assert.deepEqual([await check('a'), await check('a')], [7, 7]);
  assert.equal(adapter.asked.length, 2);
});

test('a long message is cut, and a response of more than 4 KiB is not used again', async (t) => {
  let length = 2_000;
  const status = () => ({ code: 7, message: 'x'.repeat(length) });
  const adapter = await startAdapter(t, () =>
    JSON.stringify({ status: status(), validDurationMs: 1_000, validUseCount: 10 }),
  );
  const { running } = open(t, { address: adapter.address });
  for (let count = 0; count < 2; count++)
    assert.equal((await running.check?.(value('short'), CALL))?.status.message, 'x'.repeat(1_000));
  assert.equal(adapter.asked.length, 1);
  length = 5_000;
  for (let count = 0; count < 2; count++) await running.check?.(value('long'), CALL);
  assert.equal(adapter.asked.length, 3);
});

test('a slow adapter, one that does not answer as its template says, and one that is gone decide nothing', async (t) => {
  let answer: Answer = () => new Promise<string>(() => undefined);
  const adapter = await startAdapter(t, (request) => answer(request));
  const impatient = open(t, { address: adapter.address, timeoutMs: 100 }, { patienceMs: 0 });
  await assert.rejects(impatient.check('slow'), /Deadline exceeded/);
  assert.equal(impatient.running.workers, 0);
  const { running, check } = open(t, { address: adapter.address });
  answer = () => 'no JSON';
  await assert.rejects(check('lying'), /the response cannot be read/);
  answer = () => Promise.reject(new Error('broken'));
  await assert.rejects(check('broken'), /broken/);
  answer = () => 'x'.repeat(2 * 1024 * 1024);
  await assert.rejects(check('large'), /larger than max/);
  adapter.stop();
  await assert.rejects(check('gone'), { code: 'unavailable' });
  assert.equal(running.workers, 0);
});

test('quotas and records are asked for and sent', async (t) => {
  let granted = 1;
  const adapter = await startAdapter(t, () =>
    JSON.stringify({ 'value.instance.shop': { status: { code: 0, message: '' }, grantedAmount: granted } }),
  );
  const { running } = open(t, { address: adapter.address });
  assert.equal((await running.quota?.(value('a'), CALL))?.status.code, 0);
  granted = 0;
  assert.equal((await running.quota?.(value('a'), CALL))?.status.code, 8);
  await running.report?.([value('r1'), value('r2')], CALL);
  assert.equal(adapter.asked.at(-1), '{"instances":["r1","r2"]}');
});

test('a handler of a tenant may not name files of the program', (t) => {
  const tls = { type: 'tls', token: { from: '/etc/passwd', header: 'authorization', prefix: 'Bearer ' } } as const;
  const options = { namespace: 'tenant' };
  assert.throws(() => open(t, { address: 'a:1', authentication: tls }, options), { code: 'permission_denied' });
  const mutual = { type: 'mutual', privateKey: '/key', clientCertificate: '/cert' } as const;
  assert.throws(() => open(t, { address: 'a:1', authentication: mutual }, options), { code: 'permission_denied' });
  const client = { clientId: 'a', clientSecret: '/s', tokenUrl: 'https://a/t', scopes: [], endpointParams: {} };
  const oauth = { type: 'tls', token: { ...tls.token, from: client } } as const;
  assert.throws(() => open(t, { address: 'a:1', authentication: oauth }, options), { code: 'permission_denied' });
  open(t, { address: 'a:1', authentication: { type: 'tls' } }, options);
});

test('the name in the certificate of an adapter is verified, unless that is bypassed for mutual TLS', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const authority = testRoot('adapters');
  const root = authority.pem;
  const certificate = authority.issue(publicKey, ['adapter.example'], 3_600_000);
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(certificate) };
  const adapter = await startAdapter(t, () => verdict(0), ServerCredentials.createSsl(Buffer.from(root), [pair], true));
  const files: Readonly<Record<string, string>> = { '/root': root, '/key': key, '/cert': certificate };
  const readFile = async (path: string) => Buffer.from(files[path] ?? assert.fail(path));
  const by = (serverName: string, skipsSanVerification = false) => {
    const names = { privateKey: '/key', clientCertificate: '/cert', caCertificates: '/root' };
    const authentication = { type: 'mutual', ...names, serverName } as const;
    const host = testHost({ readFile, skipsSanVerification });
    return open(t, { address: adapter.address, authentication }, { host }).check('a');
  };
  assert.equal(await by('adapter.example'), 0);
  await assert.rejects(by('other.example'), /not for other.example/);
  await assert.rejects(by('spiffe://td/ns/a/sa/b'), /not for spiffe/);
  assert.equal(await by('other.example', true), 0);
});

/** An adapter with TLS, and a handler that gets a token for it from an OAuth server that a test simulates. */
async function withOauth(t: TestContext, call: TestHost['call'], options: { timeoutMs?: number; patienceMs?: number }) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const authority = testRoot('adapters');
  const certificate = authority.issue(publicKey, ['adapter.example'], 3_600_000);
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(certificate) };
  const adapter = await startAdapter(t, () => verdict(0), ServerCredentials.createSsl(null, [pair]));
  const files: Readonly<Record<string, string>> = { '/root': authority.pem, '/secret': 's3cret' };
  const host = testHost({ readFile: async (path) => Buffer.from(files[path] ?? assert.fail(path)), call });
  const client = { clientId: 'mesh', clientSecret: '/secret', tokenUrl: 'https://as.example/token', scopes: [] };
  const token = { from: { ...client, endpointParams: {} }, header: 'authorization', prefix: 'Bearer ' } as const;
  const names = { caCertificates: '/root', serverName: 'adapter.example' };
  const { timeoutMs, patienceMs } = options;
  const connection: Connection = {
    address: adapter.address,
    authentication: { type: 'tls', ...names, token },
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
  return { adapter, host, ...open(t, connection, { host, ...(patienceMs !== undefined && { patienceMs }) }) };
}

test('an adapter gets the token of an OAuth client, and no call without one', async (t) => {
  const answer = { status: 503, text: '' };
  const { adapter, host, check } = await withOauth(t, async () => ({ ...answer, headers: {} }), {});
  await assert.rejects(check('a'), /as\.example\/token returned HTTP 503/);
  assert.equal(adapter.asked.length, 0);
  Object.assign(answer, { status: 200, text: JSON.stringify({ access_token: 'abc', expires_in: 60 }) });
  host.advance(1_000);
  assert.equal(await check('a'), 0);
  assert.deepEqual(adapter.authorizations, ['Bearer abc']);
});

test('a call does not wait longer for a token than its timeout, and nothing is sent without one', async (t) => {
  const silent = new Promise<never>(() => undefined);
  const { adapter, running, check } = await withOauth(t, () => silent, { timeoutMs: 100, patienceMs: 0 });
  await assert.rejects(check('a'), { code: 'deadline_exceeded' });
  assert.equal(adapter.asked.length, 0);
  assert.equal(running.workers, 0);
});

test('a handler that closes while a call begins leaves no request for a token behind', async () => {
  const client = { clientId: 'mesh', clientSecret: '/s', tokenUrl: 'https://a/t', scopes: [], endpointParams: {} };
  const token = { from: client, header: 'authorization', prefix: '' } as const;
  // The steps of a call until it requests its token, one after the other.
  for (let steps = 0; steps < 40; steps++) {
    const signals: (AbortSignal | undefined)[] = [];
    const host = testHost({
      readFile: async () => Buffer.from('secret'),
      call: ({ signal }) => {
        signals.push(signal);
        return Promise.reject(new Error('closed'));
      },
    });
    const channel = new RemoteChannel({ address: '127.0.0.1:1', authentication: { type: 'tls', token } }, host);
    const called = assert.rejects(channel.call(METHOD, new Uint8Array(0), PATIENCE_MS));
    for (let step = 0; step < steps; step++) await undefined;
    channel.close();
    await called;
    assert.ok(
      signals.every((signal) => signal?.aborted),
      `after ${steps} steps`,
    );
  }
});
