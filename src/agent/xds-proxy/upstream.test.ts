import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { XDS } from '../../core/xds-types.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import type { BytesStream, Connected, GrpcClient, GrpcTarget } from '../grpc/index.ts';
import { logLines } from '../identity/testing/log-lines.ts';
import type { SecretSource } from '../types.ts';
import { ClientStream } from './client-stream.ts';
import { readResponse, writeRequest } from './messages.ts';
import { Snapshot } from './snapshot.ts';
import { createUpstream } from './upstream.ts';

const address = (host: string) => ({ host, port: 15010, tls: false, serverName: '' });

/** Connections to hosts that never answer, in these states. */
function unanswered(hosts: readonly string[], state: Connected) {
  const clock = fakeClock();
  const log = logLines();
  const opened: string[] = [];
  let open = 0;
  const openClient = ({ address: to }: GrpcTarget): Promise<GrpcClient> => {
    opened.push('host' in to ? to.host : '');
    open++;
    const stream = Object.assign(new PassThrough({ objectMode: true }), { cancel: () => undefined });
    // What is written must not be read as a response.
    stream.write = () => true;
    return Promise.resolve({
      unary: () => Promise.reject(new CtlError('unavailable', 'not used')),
      stream: () => stream as unknown as BytesStream,
      ready: ({ connectMs, handshakeMs }) => {
        const ms = { ready: 0, 'no connection': connectMs, 'no handshake': handshakeMs }[state];
        return new Promise((resolve) => void clock.setTimer(ms, () => resolve(state)));
      },
      errorOf: (error) => new CtlError('unavailable', String(error)),
      isStatusOfServer: () => false,
      close: () => void open--,
    });
  };
  const addresses = hosts.map(address);
  const upstream = createUpstream({ addresses, secrets: undefined, openClient, clock, random: () => 0, log });
  return { clock, log, opened, upstream, open: () => open };
}

const ignored = {
  attached: () => undefined,
  stable: () => undefined,
  message: () => undefined,
  drained: () => undefined,
  detached: () => undefined,
  failed: () => undefined,
};

test('an address without a connection is given up after 5 s, and the next one is tried', async () => {
  const { clock, log, opened, open, upstream } = unanswered(['a', 'b'], 'no connection');
  const stream = upstream.open('delta', ignored);
  await clock.advance(5_000);
  await clock.advance(500);
  await clock.advance(5_000);
  assert.deepEqual(opened, ['a', 'b']);
  assert.match(log.lines[0] ?? '', /cannot be reached.*no connection within 5 s/);
  assert.equal(upstream.failures(), 2);
  await stream.close();
  assert.equal(open(), 0);
});

test('a busy address has longer for the handshake, less so beside another one; the snapshot serves meanwhile', async () => {
  for (const [hosts, seconds] of [
    [['a'], 30],
    [['a', 'b'], 10],
  ] as const) {
    const { clock, log, opened, upstream } = unanswered(hosts, 'no handshake');
    let failed = 0;
    const stream = upstream.open('delta', { ...ignored, failed: () => void failed++ });
    await clock.advance(4_999);
    assert.equal(failed, 0);
    await clock.advance(1);
    assert.deepEqual([failed, upstream.failures(), opened], [1, 0, ['a']]);
    await clock.advance(seconds * 1000 - 5_000);
    assert.deepEqual([failed, upstream.failures()], [2, 1]);
    assert.match(log.lines[0] ?? '', new RegExp(`cannot be reached.*no handshake within ${seconds} s`));
    await stream.close();
  }
});

test('delays between attempts grow to 5 s', async () => {
  const { clock, opened, upstream } = unanswered(['a'], 'no connection');
  const stream = upstream.open('delta', ignored);
  const attempts: number[] = [];
  for (let seconds = 0; seconds < 60; seconds++) {
    const before = opened.length;
    await clock.advance(1_000);
    if (opened.length > before) attempts.push(seconds);
  }
  // 5 s for each connection, and then 0.5, 1, 2, 4, 5 s.
  assert.deepEqual(attempts, [5, 11, 18, 27, 37, 47, 57]);
  await stream.close();
});

test('attempts leave no listeners behind', async (t: TestContext) => {
  const { clock, upstream } = unanswered(['a'], 'no connection');
  const added = t.mock.method(AbortSignal.prototype, 'addEventListener');
  const removed = t.mock.method(AbortSignal.prototype, 'removeEventListener');
  const stream = upstream.open('delta', ignored);
  for (let seconds = 0; seconds < 60; seconds++) await clock.advance(1_000);
  assert.ok(added.mock.callCount() > 5);
  // That of the current attempt or delay.
  assert.ok(added.mock.callCount() - removed.mock.callCount() <= 1);
  await stream.close();
});

test('while there is no certificate the snapshot may serve, and the log has one line', async () => {
  const { clock, log, opened } = unanswered(['a'], 'no connection');
  const secrets: SecretSource = {
    current: () => undefined,
    missing: () => 'not issued yet',
    onChange: () => () => undefined,
    start: () => undefined,
    close: () => Promise.resolve(),
  };
  const openClient = () => Promise.reject(new CtlError('unavailable', 'not used'));
  const addresses = [{ ...address('a'), tls: true, serverName: 'a' }];
  const upstream = createUpstream({ addresses, secrets, openClient, clock, random: () => 0, log });
  let failed = 0;
  const stream = upstream.open('delta', { ...ignored, failed: () => void failed++ });
  for (let seconds = 0; seconds < 30; seconds++) await clock.advance(1_000);
  assert.deepEqual([failed, opened], [1, []]);
  assert.match(log.lines.join('\n'), /^warn the control plane cannot be reached.*no certificate yet[^\n]*$/);
  await stream.close();
});

interface ClientParts {
  readonly snapshot?: Snapshot;
  readonly hostTimeoutMs?: number;
  readonly sent?: Buffer[];
  readonly errors?: CtlError[];
}

type StartedClient = ClientStream & { readonly ask: (host: string) => void };

/** A client with one request, and the snapshot that it may use. */
function startClient(
  { upstream, clock, log }: ReturnType<typeof unanswered>,
  { snapshot, hostTimeoutMs = 0, sent = [], errors = [] }: ClientParts = {},
): StartedClient {
  const listeners = new Map<string, (bytes: Buffer) => void>();
  const client = new ClientStream({
    stream: {
      write: (bytes) => sent.push(bytes) > 0,
      pause: () => undefined,
      resume: () => undefined,
      end: () => undefined,
      on: (event: string, listener: unknown) => listeners.set(event, listener as (bytes: Buffer) => void),
    },
    variant: 'delta',
    noncePrefix: 'snapshot',
    upstream,
    clock,
    hostTimeoutMs,
    counters: { requests: 0, responses: 0, rejections: 0, fromSnapshot: 0, unavailableHosts: 0 },
    log,
    endWithError: (error) => void errors.push(error),
    identified: () => snapshot,
    closed: () => undefined,
  });
  const node = encodeFields([[1, 'sidecar~']]);
  listeners.get('data')?.(writeRequest('delta', { typeUrl: XDS.cds.url, node }));
  const ask = (host: string): void =>
    listeners.get('data')?.(writeRequest('delta', { typeUrl: XDS.vhds.url, names: [`80/${host}`] }));
  return Object.assign(client, { ask });
}

test('a control plane that answers nothing does not make the snapshot younger', async () => {
  const world = unanswered(['a'], 'ready');
  const snapshot = new Snapshot('delta', world.clock.now() - 3_600_000);
  const { asOf } = snapshot;
  const client = startClient(world, { snapshot });
  for (let seconds = 0; seconds < 60; seconds++) {
    await world.clock.advance(1_000);
    assert.equal(client.connected, false);
  }
  assert.ok(world.opened.length > 1);
  assert.equal(snapshot.asOf, asOf);
  client.close();
});

test('a control plane that owes Envoy its first configuration for 30 s is given up', async () => {
  const world = unanswered(['a', 'b'], 'ready');
  const { clock, log, opened } = world;
  const client = startClient(world);
  await clock.advance(29_000);
  assert.deepEqual(opened, ['a']);
  await clock.advance(2_000);
  assert.deepEqual(opened, ['a', 'b']);
  assert.match(log.lines.join('\n'), /no response within 30 s/);
  client.close();
});

/** A client that waits for hosts, and the names of the virtual hosts that it gets. */
function startAsking(state: Connected) {
  const world = unanswered(['a'], state);
  const { clock } = world;
  const sent: Buffer[] = [];
  const errors: CtlError[] = [];
  const snapshot = new Snapshot('delta', clock.now());
  const client = startClient(world, { snapshot, hostTimeoutMs: 1_000, sent, errors });
  const unavailable = () =>
    sent.splice(0).flatMap((bytes) => readResponse('delta', bytes).resources.map(({ name }) => name));
  return { ...world, client, errors, unavailable };
}

test('a host waits longer for a control plane that is connected, until that has left one without an answer', async () => {
  const { clock, log, client, unavailable } = startAsking('ready');
  await clock.advance(0);
  client.ask('first');
  await clock.advance(3_500);
  client.ask('second');
  await clock.advance(1_499);
  assert.deepEqual(unavailable(), []);
  await clock.advance(1);
  assert.deepEqual(unavailable(), ['80/unavailable first', '80/unavailable second']);
  assert.match(log.lines.at(-1) ?? '', /^warn .*has not answered within 5000 ms/);
  client.ask('third');
  await clock.advance(999);
  assert.deepEqual(unavailable(), []);
  await clock.advance(1);
  assert.deepEqual(unavailable(), ['80/unavailable third']);
  client.close();
});

test('a host waits for its time when no control plane can be reached', async () => {
  const { clock, client, unavailable } = startAsking('no connection');
  await clock.advance(4_500);
  client.ask('early');
  await clock.advance(499);
  assert.deepEqual(unavailable(), []);
  // The attempt to connect has failed.
  await clock.advance(1);
  client.ask('late');
  await clock.advance(500);
  assert.deepEqual(unavailable(), ['80/unavailable early']);
  await clock.advance(500);
  assert.deepEqual(unavailable(), ['80/unavailable late']);
  client.close();
});

test('a client that acknowledges no unavailable host loses its stream', async () => {
  const { clock, client, errors } = startAsking('no connection');
  await clock.advance(5_000);
  for (let at = 0; at <= 64 && errors.length === 0; at++) {
    client.ask(`host-${at}`);
    await clock.advance(1_000);
  }
  assert.match(errors[0]?.message ?? '', /64 responses of .* are not acknowledged/);
});
