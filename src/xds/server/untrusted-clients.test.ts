/**
 * What clients without authentication can leave in the server's memory: incomplete requests, connections without a
 * stream, and connections.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as dial, type Socket } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import type { CtlError } from '../../core/errors.ts';
import { XDS } from '../../core/xds-types.ts';
import { prefixed } from '../../grpc/index.ts';
import { Content, encodeDeltaRequest, encodeNode } from '../testing/content.ts';
import { FakeEngine, quietObserver } from '../testing/engine.ts';
import { testServer } from '../testing/server.ts';
import type { XdsServer } from './server.ts';
import type { XdsServerOptions } from './server-options.ts';
import { ADS_PATHS, HEALTH_PATHS } from './services.ts';

let server: XdsServer;
let sessions: ClientHttp2Session[] = [];
let sockets: Socket[] = [];

async function start(options: Partial<XdsServerOptions>): Promise<void> {
  server = testServer({
    engine: new FakeEngine(new Content()),
    ...options,
  });
  await server.start();
}

/** Opens a connection from an address in 127.0.0.0/8. */
function session(localAddress = '127.0.0.1'): ClientHttp2Session {
  const port = server.ports()[0] ?? 0;
  const made = connect(`http://127.0.0.1:${port}`, {
    createConnection: () => dial({ host: '127.0.0.1', port, localAddress }),
  });
  made.on('error', () => {});
  sessions.push(made);
  return made;
}

/** A call that has sent these bytes; with `complete` it has also half-closed. */
function call(from: ClientHttp2Session, bytes: Uint8Array, complete: boolean, path = HEALTH_PATHS.check) {
  const stream = from.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });
  const answer = Promise.withResolvers<number | undefined>();
  const take = (headers: Readonly<Record<string, unknown>>): void => {
    if (headers['grpc-status'] !== undefined) answer.resolve(Number(headers['grpc-status']));
  };
  stream.on('close', () => answer.resolve(undefined));
  stream.on('response', take);
  stream.on('trailers', take);
  stream.on('error', () => {});
  stream.resume();
  if (complete) stream.end(bytes);
  else stream.write(bytes);
  return { stream, ended: answer.promise };
}

const WHOLE = Buffer.alloc(5);
/** The first byte of a message of 100 bytes. */
const HALF = Buffer.from([0, 0, 0, 0, 100, 1]);

afterEach(async () => {
  for (const one of sessions) one.destroy();
  for (const one of sockets) one.destroy();
  sessions = [];
  sockets = [];
  await server.close({ drainMs: 0 });
});

describe('requests that are not completed', { timeout: 120_000 }, () => {
  it('are refused after a timeout', async () => {
    await start({ requestTimeoutMs: 50 });
    assert.equal(await call(session(), HALF, false).ended, status.DEADLINE_EXCEEDED);
    // Complete, but not half-closed.
    assert.equal(await call(session(), WHOLE, false).ended, status.DEADLINE_EXCEEDED);
    assert.equal(await call(session(), WHOLE, false, HEALTH_PATHS.watch).ended, status.DEADLINE_EXCEEDED);
  });

  it('end a stream that has not sent its first request, but not one that has', async () => {
    await start({ firstRequestMs: 300 });
    const from = session();
    const asking = call(
      from,
      prefixed(
        encodeDeltaRequest({ typeUrl: XDS.cds.url, node: encodeNode('sidecar~10.0.0.1~p.n~n.svc.cluster.local') }),
      ),
      false,
      ADS_PATHS.delta,
    );
    const silent = call(from, HALF, false, ADS_PATHS.delta);
    assert.equal(await silent.ended, status.DEADLINE_EXCEEDED);
    assert.equal(await call(from, Buffer.alloc(0), false, ADS_PATHS.sotw).ended, status.DEADLINE_EXCEEDED);
    assert.deepEqual(
      server.connections().map(({ mode }) => mode),
      ['delta'],
    );
    asking.stream.close();
  });

  it('are limited for each connection, while complete ones and other connections are served', async () => {
    await start({ maxIncomplete: 3 });
    const [greedy, other] = [session(), session()];
    const halves = Array.from({ length: 3 }, () => call(greedy, HALF, false));
    assert.equal(await call(greedy, WHOLE, true).ended, status.RESOURCE_EXHAUSTED);
    for (let i = 0; i < 10; i++) assert.equal(await call(other, WHOLE, true).ended, status.OK);
    // Ended ones make way for others.
    for (const { stream } of halves) stream.close();
    await Promise.all(halves.map(({ ended }) => ended));
    assert.equal(await call(greedy, WHOLE, true).ended, status.OK);
  });

  it('do not end a stream that waits for the quota that others use', async () => {
    const content = new Content();
    content.set('cds', 'a', '1');
    await start({ engine: new FakeEngine(content), maxReceiveBytes: 256 * 1024, firstRequestMs: 300 });
    const node = encodeNode('sidecar~10.0.0.1~p.n~n.svc.cluster.local');
    const large = prefixed(encodeDeltaRequest({ typeUrl: `x${'y'.repeat(200_000)}`, node }));
    const small = prefixed(encodeDeltaRequest({ typeUrl: XDS.cds.url, node }));
    const halves = Array.from({ length: 17 }, () => {
      const one = call(session(), Buffer.concat([small, large.subarray(0, -1)]), false, ADS_PATHS.delta);
      return { ...one, served: once(one.stream, 'data') };
    });
    await Promise.all(halves.map(({ served }) => served));
    const waiting = call(session(), large, false, ADS_PATHS.delta);
    await new Promise((resolve) => setTimeout(resolve, 50));
    // A new stream that sends nothing is ended. The other one would have been ended by then.
    assert.equal(await call(session(), HALF, false, ADS_PATHS.delta).ended, status.DEADLINE_EXCEEDED);
    for (const { stream } of halves) stream.close();
    assert.equal(await waiting.ended, status.INVALID_ARGUMENT);
  });

  it('use limited memory: more large ones of one address wait, small ones and those of others are read', async () => {
    const content = new Content();
    content.set('cds', 'a', '1');
    await start({ engine: new FakeEngine(content), maxReceiveBytes: 256 * 1024 });
    /** About 200,000 bytes that no other request has. */
    const large = (name: string): Buffer => {
      const subscribe = Array.from({ length: 5000 }, (_, index) => `${name}-${index}.${'x'.repeat(25)}`);
      const node = encodeNode('sidecar~10.0.0.1~p.n~n.svc.cluster.local');
      return prefixed(encodeDeltaRequest({ typeUrl: XDS.cds.url, node, subscribe }));
    };
    const asked = (bytes: Buffer, address?: string) => {
      const one = call(session(address), bytes, false, ADS_PATHS.delta);
      return { ...one, served: once(one.stream, 'data') };
    };
    const small = prefixed(encodeDeltaRequest({ typeUrl: XDS.cds.url, node: encodeNode('sidecar~10.0.0.1~p.n~n') }));
    const halves = Array.from({ length: 20 }, (_, index) =>
      asked(Buffer.concat([small, large(`half-${index}`).subarray(0, -1)])),
    );
    // A stream that was served has been read.
    await Promise.all(halves.map((half) => half.served));
    const waiting = asked(large('same-address'));
    let served = false;
    waiting.served.then(() => (served = true));
    await asked(large('other-address'), '127.0.0.2').served;
    await asked(small).served;
    assert.equal(served, false);
    for (const { stream } of halves) stream.close();
    await waiting.served;
  });

  it('are refused by the length that they announce', async () => {
    await start({});
    for (const path of [HEALTH_PATHS.check, HEALTH_PATHS.watch]) {
      const { ended } = call(session(), Buffer.from([0, 0, 1, 0, 0]), false, path);
      assert.equal(await ended, status.RESOURCE_EXHAUSTED);
    }
  });
});

describe('streams of proxies', { timeout: 120_000 }, () => {
  const request = prefixed(
    encodeDeltaRequest({ typeUrl: XDS.cds.url, node: encodeNode('sidecar~10.0.0.1~p.n~n.svc.cluster.local') }),
  );
  /** `served`, or the status with which the stream has ended. */
  async function outcome({ stream, ended }: ReturnType<typeof call>): Promise<'served' | number | undefined> {
    return Promise.race([once(stream, 'data').then(() => 'served' as const), ended]);
  }

  it('are not all for one address; those of another are served, and refusals are reported', async () => {
    const refused: string[] = [];
    const content = new Content();
    content.set('cds', 'a', '1');
    await start({
      engine: new FakeEngine(content),
      maxStreams: 5,
      observer: { ...quietObserver, refused: (peer, error) => refused.push(`${peer} ${error.code}`) },
    });
    const greedy = session();
    const taken = Array.from({ length: 4 }, () => call(greedy, request, false, ADS_PATHS.delta));
    for (const one of taken) assert.equal(await outcome(one), 'served');
    for (const from of [greedy, session()])
      assert.equal(await outcome(call(from, request, false, ADS_PATHS.delta)), status.RESOURCE_EXHAUSTED);
    assert.equal(refused.length, 2);
    for (const line of refused) assert.match(line, /^127\.0\.0\.1:\d+ resource_exhausted$/);
    assert.equal(await outcome(call(session('127.0.0.2'), request, false, ADS_PATHS.delta)), 'served');
    // Ended ones make way for others.
    for (const { stream } of taken) stream.close();
    await Promise.all(taken.map(({ ended }) => ended));
    assert.equal(await outcome(call(greedy, request, false, ADS_PATHS.delta)), 'served');
  });
});

describe('a connection', { timeout: 120_000 }, () => {
  for (const [maxStreams, announced] of [
    [100_000, 1000],
    [7, 7],
  ] as const)
    it(`has at most ${announced} streams when the server has at most ${maxStreams}`, async () => {
      await start({ maxStreams });
      const client = session();
      await once(client, 'remoteSettings');
      assert.equal(client.remoteSettings.maxConcurrentStreams, announced);
    });

  it('is closed when it has no calls', async () => {
    await start({ idleMs: 50 });
    const idle = session();
    await once(idle, 'close');
    assert.equal(idle.destroyed, true);
  });

  it('is refused and reported when there are too many, and accepted when others have ended', async () => {
    const refused: string[] = [];
    const observer = {
      ...quietObserver,
      refused: (peer: string, error: CtlError) => refused.push(`${peer} ${error.code}`),
    };
    await start({ maxConnections: 5, observer });
    /** The outcome of a connection: it stays, or is closed at once. */
    const opened = async (): Promise<'taken' | 'closed'> => {
      const socket = dial(server.ports()[0] ?? 0, '127.0.0.1');
      sockets.push(socket);
      const outcome = Promise.withResolvers<'taken' | 'closed'>();
      socket.once('data', () => outcome.resolve('taken'));
      socket.once('close', () => outcome.resolve('closed'));
      socket.on('error', () => {});
      return outcome.promise;
    };
    for (let index = 0; index < 4; index++) assert.equal(await opened(), 'taken');
    assert.equal(await opened(), 'closed');
    assert.equal(refused.length, 1);
    assert.match(refused[0] ?? '', /^127\.0\.0\.1:\d+ resource_exhausted$/);
    sockets[0]?.destroy();
    for (let round = 0; round < 500 && (await opened()) === 'closed'; round++);
    assert.equal(await opened(), 'closed');
  });
});
