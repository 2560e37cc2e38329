/** The agent's gRPC server with clients that keep to the protocol, and with others. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { type ClientHttp2Stream, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { endWithError, type GrpcServerOptions, openGrpcClient, type ServerStream, startGrpcServer } from './index.ts';

const METHOD = '/a.Service/Echo';
const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

async function server(context: TestContext, options: Partial<GrpcServerOptions> = {}) {
  const streams: ServerStream[] = [];
  const state = { stale: 0, streams };
  const running = await startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    methods: {
      [METHOD](stream) {
        streams.push(stream);
        stream.on('data', (message: Buffer) => {
          if (message.toString() === 'fail') endWithError(stream, new CtlError('not_found', 'é \ud800 no such thing'));
          else stream.write(message);
        });
        stream.on('end', () => stream.end());
      },
    },
    limits: { connections: 3, streams: 2, messageBytes: 100 },
    keepalive: { intervalMs: 200, onStale: () => void state.stale++ },
    log: silentLog,
    ...options,
  });
  context.after(() => running.close());
  return Object.assign(state, running);
}

async function client(context: TestContext, port: number) {
  const opened = await openGrpcClient(
    { address: { host: '127.0.0.1', port }, tls: undefined },
    { maxMessageBytes: 1000 },
  );
  context.after(() => opened.close());
  return opened;
}

/** The first message of a stream, or its error. */
function first(stream: ServerStreamClient): Promise<string | { readonly code: number; readonly details: string }> {
  return new Promise((resolve) => {
    stream.on('data', (message: Buffer) => resolve(message.toString()));
    stream.on('error', (error: Error & { code: number; details: string }) => resolve(error));
  });
}

type ServerStreamClient = ReturnType<Awaited<ReturnType<typeof openGrpcClient>>['stream']>;

const closed = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.on('close', resolve));

/** Sends a request without gRPC's client. Resolves with the gRPC status, or else the HTTP status. */
function raw(context: TestContext, port: number, headers: OutgoingHttpHeaders): Promise<string> {
  const session = connect(`http://127.0.0.1:${port}`, { maxSendHeaderBlockLength: 10_000_000 });
  context.after(() => session.destroy());
  return new Promise((resolve) => {
    session.on('error', (error) => resolve(error.message));
    const stream: ClientHttp2Stream = session.request({ ':method': 'POST', ':path': METHOD, ...headers });
    const take = (got: IncomingHttpHeaders): void => {
      if (got['grpc-status'] !== undefined) resolve(`grpc ${String(got['grpc-status'])}`);
      else if (Number(got[':status']) !== 200) resolve(`http ${String(got[':status'])}`);
    };
    stream.on('response', take);
    stream.on('trailers', take);
    stream.on('error', (error) => resolve(error.message));
    stream.end();
    stream.resume();
  });
}

const GRPC = { 'content-type': 'application/grpc' };

test('a stream carries messages in both directions, and ends with the status of an error', async (context) => {
  const { port } = await server(context);
  const { stream, errorOf } = await client(context, port);
  const good = stream(METHOD);
  good.write(Buffer.from('hello'));
  assert.equal(await first(good), 'hello');
  const bad = stream(METHOD);
  bad.write(Buffer.from('fail'));
  const error = errorOf(await first(bad));
  assert.deepEqual([error.code, error.message], ['not_found', `127.0.0.1:${port} returned: é \ufffd no such thing`]);
});

test('further streams and long messages are refused with RESOURCE_EXHAUSTED, and others go on', async (context) => {
  const { port } = await server(context);
  const { stream } = await client(context, port);
  const good = stream(METHOD);
  good.write(Buffer.from('one'));
  assert.equal(await first(good), 'one');
  const long = stream(METHOD);
  long.write(Buffer.alloc(101));
  assert.equal(((await first(long)) as { code: number }).code, 8);
  const second = stream(METHOD);
  second.write(Buffer.from('two'));
  assert.equal(await first(second), 'two');
  const third = stream(METHOD);
  assert.deepEqual(
    await first(third).then((answer) => (typeof answer === 'string' ? answer : [answer.code, answer.details])),
    [8, 'more than 2 streams'],
  );
  const again = new Promise((resolve) => good.once('data', (message: Buffer) => resolve(message.toString())));
  good.write(Buffer.from('three'));
  assert.equal(await again, 'three');
});

for (const [what, headers, answer] of [
  ['another method', { ...GRPC, ':path': '/a.Service/Other' }, /^grpc 12$/],
  ['a path of other characters', { ...GRPC, ':path': '/\u00e9%0a%' }, /^grpc 12$/],
  ['another content type', { 'content-type': 'text/plain' }, /^http 415$/],
  ['a GET', { ':method': 'GET' }, /^http 415$/],
  ['a timeout that is none', { ...GRPC, 'grpc-timeout': 'soon' }, /^grpc 13$/],
  ['metadata without end', { ...GRPC, 'x-big': 'y'.repeat(200_000) }, /^Session closed with error code/],
] as const) {
  test(`${what} is refused, and the server goes on`, async (context) => {
    const { port, streams } = await server(context);
    assert.match(await raw(context, port, headers), answer);
    assert.equal(streams.filter((stream) => !stream.destroyed).length, 0);
    const good = (await client(context, port)).stream(METHOD);
    good.write(Buffer.from('hello'));
    assert.equal(await first(good), 'hello');
  });
}

test('connections beyond the limit, and those that do not speak HTTP/2, are closed', async (context) => {
  const { port } = await server(context);
  const garbage = connectSocket(port, '127.0.0.1');
  garbage.write('GET / HTTP/1.1\r\n\r\n');
  await closed(garbage.resume());
  const open = [1, 2, 3].map(() => connectSocket(port, '127.0.0.1'));
  await Promise.all(open.map((socket) => new Promise((resolve) => socket.on('connect', resolve))));
  const more = connectSocket(port, '127.0.0.1').resume();
  await closed(more);
  for (const socket of open) socket.destroy();
});

test('only a connection whose peer does not answer a PING counts as stale', async (context) => {
  const state = await server(context);
  const { port } = state;
  // The preface of HTTP/2 and empty SETTINGS (RFC 9113 section 3.4), garbage, a GOAWAY, an end, a reset.
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0';
  const broken = connectSocket(port, '127.0.0.1');
  broken.write(preface);
  broken.write(Buffer.alloc(30, 0xff));
  broken.resume();
  await closed(broken);
  const polite = connect(`http://127.0.0.1:${port}`);
  await new Promise((resolve) => polite.on('connect', resolve));
  await new Promise((resolve) => polite.close(() => resolve(undefined)));
  for (const end of ['end', 'resetAndDestroy'] as const) {
    const socket = connectSocket(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(preface);
    await new Promise((resolve) => socket.once('data', resolve));
    socket[end]();
    await closed(socket);
  }
  const silent = connectSocket(port, '127.0.0.1');
  silent.write(preface);
  await closed(silent.resume());
  // All connections before it were closed before it.
  assert.equal(state.stale, 1);
});

test("the owner's socket has mode 0600 and disappears with the server; a port in use is one line", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'grpc-'));
  context.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'own', 'XDS');
  const { close } = await server(context, { address: { path } });
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  const opened = await openGrpcClient({ address: { path }, tls: undefined }, { maxMessageBytes: 100 });
  context.after(() => opened.close());
  const stream = opened.stream(METHOD);
  stream.write(Buffer.from('hello'));
  assert.equal(await first(stream), 'hello');
  await close();
  await assert.rejects(stat(path), { code: 'ENOENT' });

  const { port } = await server(context);
  await assert.rejects(server(context, { address: { host: '127.0.0.1', port } }), {
    message: `cannot listen on 127.0.0.1:${port} (EADDRINUSE)`,
  });
});
