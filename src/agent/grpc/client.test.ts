/** The agent's gRPC client: each failure is one line for operators. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect as connectSocket, createServer, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { testRoot } from '../identity/testing/certificates.ts';
import { startTestCa, TEST_SERVER_NAME } from '../identity/testing/test-ca.ts';
import { type GrpcTarget, openGrpcClient } from './index.ts';

const PATH = '/a.Service/Call';

async function call(target: GrpcTarget, timeoutMs = 5_000): Promise<string> {
  const client = await openGrpcClient(target, { maxMessageBytes: 100 });
  try {
    return (await client.unary({ path: PATH, request: Buffer.from('x'), timeoutMs })).toString();
  } finally {
    client.close();
  }
}

async function listening(context: TestContext, server: Server): Promise<GrpcTarget> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  context.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port }, tls: undefined };
}

function http2(context: TestContext, answer: (stream: ServerHttp2Stream) => void): Promise<GrpcTarget> {
  const server = createHttp2Server();
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    answer(stream);
  });
  return listening(context, server);
}

/** Compressed, each shorter than the limit of the test. */
const ZEROS = gzipSync(Buffer.alloc(50_000));

const GRPC = { ':status': 200, 'content-type': 'application/grpc' };

for (const [what, answer, code, line] of [
  [
    'its status',
    { ...GRPC, 'grpc-status': '7', 'grpc-message': 'not%20you%0A' },
    'permission_denied',
    /returned: not you $/,
  ],
  [
    'a token and a long text',
    {
      ...GRPC,
      'grpc-status': '16',
      'grpc-message': `eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.s3cret is bad ${'x'.repeat(5_000)}`,
    },
    'unauthenticated',
    /returned: <token> is bad x{900,950}$/,
  ],
  ['a status without words', { ...GRPC, 'grpc-status': '5' }, 'not_found', /returned: gRPC status 5$/],
  ['an unknown status', { ...GRPC, 'grpc-status': '99' }, 'unavailable', /returned: gRPC status 99$/],
  ['an HTTP status', { ':status': 503 }, 'unavailable', /returned HTTP 503$/],
  ['no status', GRPC, 'unavailable', /cannot be reached: the connection was closed before the response was complete$/],
] as const) {
  test(`a server that answers with ${what} is named with it`, async (context) => {
    const target = await http2(context, (stream) => stream.respond(answer, { endStream: true }));
    await assert.rejects(call(target), { name: 'CtlError', code, message: line });
  });
}

test('a server that cannot be reached is named with the reason', async (context) => {
  const reason = async (target: GrpcTarget, timeoutMs?: number): Promise<string> =>
    call(target, timeoutMs).then(
      () => 'reached',
      (error: Error) => error.message,
    );
  const free = await listening(context, createServer());
  const closing = createServer();
  const { address } = await listening(context, closing);
  assert.ok('port' in address);
  await new Promise((resolve) => closing.close(resolve));
  assert.equal(
    await reason({ address, tls: undefined }),
    `127.0.0.1:${address.port} cannot be reached: connection refused`,
  );
  assert.equal(
    await reason({ address: { host: '::1', port: address.port }, tls: undefined }),
    `[::1]:${address.port} cannot be reached: connection refused`,
  );
  assert.equal(
    await reason({ address: { host: 'name.invalid', port: 1 }, tls: undefined }),
    'name.invalid:1 cannot be reached: its name cannot be resolved',
  );
  assert.match(
    await reason({ address: { path: '/nowhere/at-all' }, tls: undefined }),
    /^\/nowhere\/at-all cannot .*ENOENT/,
  );
  assert.match(await reason(free, 300), /^127\.0\.0\.1:\d+ did not respond within 300 ms$/);
  const dropped = await listening(
    context,
    createServer((socket) => socket.destroy()),
  );
  assert.match(await reason(dropped), /cannot be reached: the connection was closed$/);
  const web = await listening(context, createHttpServer());
  const tls = { serverName: 'localhost', roots: testRoot('any').pem, client: undefined };
  assert.match(await reason({ ...web, tls }), /cannot be reached: wrong version number$/);
  await assert.rejects(call({ ...web, tls: { ...tls, client: { chain: 'no', key: 'no' } } }), {
    code: 'failed_precondition',
    message: /^the roots or the certificate for TLS are not usable: /,
  });
});

test('a server is refused that the roots do not verify, or that has another name', async (context) => {
  const ca = await startTestCa();
  context.after(() => ca.close());
  const address = { host: '127.0.0.1', port: ca.port };
  const tls = { serverName: TEST_SERVER_NAME, roots: ca.root.pem, client: undefined };
  // Without advice on the roots of Node.
  const unverified = { name: 'CtlError', message: /^127\.0\.0\.1:\d+ cannot be reached: .*certificate[^;]*$/ };
  await assert.rejects(call({ address, tls: { ...tls, roots: testRoot('another').pem } }), unverified);
  await assert.rejects(call({ address, tls: { ...tls, serverName: 'other.example' } }), {
    message: /cannot be reached: Hostname\/IP does not match certificate's altnames: .*other\.example/,
  });
  await assert.rejects(call({ address, tls }), { code: 'unimplemented' });
});

test('a server that only accepts connections has longer than one that does not', async (context) => {
  const silent = await listening(context, createServer());
  const connect = async (target: GrpcTarget, connectMs: number, handshakeMs: number) => {
    const client = await openGrpcClient(target, { maxMessageBytes: 100 });
    context.after(() => client.close());
    return client.ready({ connectMs, handshakeMs });
  };
  assert.equal(await connect(silent, 100, 500), 'no handshake');
  // The other way around: the second limit would never be reached.
  assert.equal(await connect(await unaccepting(context), 100, 1_000_000), 'no connection');
  const target = await http2(context, () => {});
  assert.equal(await connect(target, 5_000, 5_000), 'ready');
});

/** A server that is stopped with its queue of connections full: the kernel drops further ones. */
async function unaccepting(context: TestContext): Promise<GrpcTarget> {
  const code = `
    const server = require('node:net').createServer();
    server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      console.log(server.address().port);
      process.kill(process.pid, 'SIGSTOP');
    });`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(() => void child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const address = { host: '127.0.0.1', port: Number(line.toString()) };
  // They are reset when the server ends.
  const waiting = Array.from({ length: 8 }, () => connectSocket(address).on('error', () => {}));
  context.after(() => {
    for (const socket of waiting) socket.destroy();
  });
  await once(waiting[0] ?? assert.fail(), 'connect');
  await waitUntil(() => waiting.filter(({ connecting }) => !connecting).length >= 2);
  return { address, tls: undefined };
}

test('proxies of the environment are not used', async (context) => {
  const connections: string[] = [];
  const proxy = await listening(
    context,
    createServer((socket) => {
      connections.push('proxy');
      socket.destroy();
    }),
  );
  assert.ok('port' in proxy.address);
  const target = await http2(context, (stream) => stream.respond({ ...GRPC, 'grpc-status': '5' }, { endStream: true }));
  const names = ['grpc_proxy', 'http_proxy', 'https_proxy'];
  for (const name of names) process.env[name] = `http://127.0.0.1:${proxy.address.port}`;
  try {
    await assert.rejects(call(target), { code: 'not_found' });
  } finally {
    for (const name of names) delete process.env[name];
  }
  assert.deepEqual(connections, []);
});

for (const [what, compressed, expected] of [
  ['is decompressed', gzipSync('configuration'), 'configuration'],
  [
    'that is longer than the limit when decompressed is refused',
    gzipSync(Buffer.alloc(64 * 1024 * 1024)),
    'resource_exhausted',
  ],
  [
    'that is longer than the limit in several members is refused',
    Buffer.concat([ZEROS, ZEROS, ZEROS]),
    'resource_exhausted',
  ],
  ['that is damaged is refused', gzipSync('configuration').fill(0, 12), 'internal'],
  ['that is cut off is refused', gzipSync('configuration').subarray(0, 20), 'internal'],
] as const)
  test(`a compressed message ${what}`, async (context) => {
    const target = await http2(context, (stream) => {
      stream.respond({ ...GRPC, 'grpc-encoding': 'gzip' });
      const prefix = Buffer.from([1, 0, 0, 0, 0]);
      prefix.writeUInt32BE(compressed.length, 1);
      stream.write(Buffer.concat([prefix, compressed]));
    });
    const client = await openGrpcClient(target, { maxMessageBytes: 100_000 });
    context.after(() => client.close());
    const stream = client.stream(PATH);
    const outcome = await new Promise<string>((resolve) => {
      stream.on('data', (bytes: Buffer) => resolve(bytes.toString()));
      stream.on('error', (error) => resolve(client.errorOf(error).code));
    });
    assert.equal(outcome, expected);
  });

test('closing a client ends its calls', async (context) => {
  const target = await http2(context, (stream) => stream.respond(GRPC));
  const client = await openGrpcClient(target, { maxMessageBytes: 100 });
  const stream = client.stream(PATH);
  const failed = new Promise((resolve) => stream.on('error', resolve));
  const unary = client.unary({ path: PATH, request: Buffer.alloc(0), timeoutMs: 60_000 });
  stream.once('metadata', () => client.close());
  await assert.rejects(unary, { code: 'unavailable' });
  assert.equal(client.errorOf(await failed).code, 'unavailable');
});

for (const [how, tls] of [
  ['in plain text', undefined],
  ['with TLS', { serverName: 'localhost', roots: testRoot('any').pem, client: undefined }],
] as const)
  test(`closing a client ends a connection ${how} that a silent server has accepted`, async (context) => {
    const closed = Promise.withResolvers<void>();
    const server = createServer((socket) => {
      socket.on('error', () => undefined).on('close', () => closed.resolve());
      socket.resume();
    });
    const { address } = await listening(context, server);
    await assert.rejects(call({ address, tls }, 50), { message: /did not respond within 50 ms$/ });
    await closed.promise;
  });
