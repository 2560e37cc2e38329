/** The server with other clients: grpc-js, and the HTTP/2 client of Node (nghttp2). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from 'node:http2';
import { after, before, type TestContext, test } from 'node:test';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { message, request } from './testing/raw-client.ts';
import {
  DOWNLOAD,
  downloadContent,
  ECHO,
  FAIL,
  MAX_ECHO_BYTES,
  MIRROR,
  SILENT,
  startServer,
  type TestServer,
  UPLOAD,
  WAIT,
} from './testing/server.ts';

let server: TestServer;

before(async () => {
  server = await startServer();
});

after(() => server.server.destroy());

const asIs = (bytes: Buffer): Buffer => bytes;

function grpcClient(t: TestContext, port = server.port): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
    'grpc.use_local_subchannel_pool': 1,
  });
  t.after(() => client.close());
  return client;
}

function unary(
  client: Client,
  path: string,
  content: Buffer,
  metadata = new Metadata(),
  deadline?: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = deadline === undefined ? {} : { deadline };
    client.makeUnaryRequest(path, asIs, asIs, content, metadata, options, (error, answer) =>
      error === null && answer !== undefined ? resolve(answer) : reject(error),
    );
  });
}

test('grpc-js: more concurrent unary calls than streams are allowed', async (t) => {
  const client = grpcClient(t);
  const contents = Array.from({ length: 500 }, (_, index) => Buffer.from(`call ${index}`));
  const answers = await Promise.all(contents.map((content) => unary(client, ECHO, content)));
  assert.deepEqual(answers, contents);
});

test('grpc-js: messages of every size up to the limit, and one beyond', async (t) => {
  const client = grpcClient(t);
  for (const size of [0, 1, 100, 16_379, 16_384, 65_535, MAX_ECHO_BYTES])
    assert.ok((await unary(client, ECHO, downloadContent(size))).equals(downloadContent(size)));
  await assert.rejects(unary(client, ECHO, Buffer.alloc(MAX_ECHO_BYTES + 1)), { code: status.RESOURCE_EXHAUSTED });
  await assert.rejects(unary(client, ECHO, Buffer.alloc(10 * MAX_ECHO_BYTES)), { code: status.RESOURCE_EXHAUSTED });
  assert.equal((await unary(client, ECHO, Buffer.from('a'))).toString(), 'a');
});

test('grpc-js: statuses with their messages', async (t) => {
  const client = grpcClient(t);
  const details = 'nothing like that: 100 % sure, größer';
  await assert.rejects(unary(client, FAIL, Buffer.from('a')), { code: status.NOT_FOUND, details });
  await assert.rejects(unary(client, '/no.Such/Method', Buffer.from('a')), { code: status.UNIMPLEMENTED });
  await assert.rejects(unary(client, WAIT, Buffer.from('a'), new Metadata(), Date.now() + 50), {
    code: status.DEADLINE_EXCEEDED,
  });
});

test('grpc-js: metadata, also of bytes and with several values', async (t) => {
  const client = grpcClient(t);
  const metadata = new Metadata();
  const bytes = Buffer.from([0, 1, 254, 255]);
  metadata.set('x-text', 'plain text');
  metadata.set('x-data-bin', bytes);
  metadata.add('x-many', 'one');
  metadata.add('x-many', 'two');
  const stream = client.makeBidiStreamRequest(SILENT, asIs, asIs, metadata);
  stream.on('error', () => {});
  while (server.streams.at(-1)?.path !== SILENT) await new Promise((resolve) => setImmediate(resolve));
  const call = server.streams.at(-1);
  assert.deepEqual(call?.metadata.get('x-text'), ['plain text']);
  assert.deepEqual(Buffer.from(call?.metadata.get('x-data-bin')[0] ?? '', 'base64'), bytes);
  assert.deepEqual(call?.metadata.get('x-many').join(', ').split(', '), ['one', 'two']);
  assert.deepEqual(call?.metadata.get('x-none'), []);
  assert.match(call?.metadata.get('user-agent')[0] ?? '', /grpc-node/);
  const closed = new Promise<void>((resolve) => call?.onClose(resolve));
  stream.cancel();
  await closed;
});

test('grpc-js: large streams in both directions at once', async (t) => {
  const client = grpcClient(t);
  const content = downloadContent(1_000_000);
  const streams = Array.from({ length: 4 }, async () => {
    const stream = client.makeBidiStreamRequest(MIRROR, asIs, asIs, new Metadata());
    let messages = 0;
    stream.on('data', (got: Buffer) => {
      assert.ok(got.equals(content));
      messages++;
    });
    for (let round = 0; round < 3; round++) stream.write(content);
    stream.end();
    const [{ code }] = (await once(stream, 'status')) as [{ code: number }];
    assert.equal(code, status.OK);
    assert.equal(messages, 3);
  });
  await Promise.all(streams);
});

test('grpc-js: a draining server completes calls and sends GOAWAY', async (t) => {
  const draining = await startServer();
  const client = grpcClient(t, draining.port);
  const waiting = unary(client, WAIT, Buffer.from('last'));
  while (draining.unary.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const drained = draining.server.drain();
  await assert.rejects(
    unary(client, ECHO, Buffer.from('a')),
    (error: ServiceError) => error.code === status.UNAVAILABLE,
  );
  draining.release();
  assert.equal((await waiting).toString(), 'last');
  await drained;
  draining.server.destroy();
});

async function session(t: TestContext): Promise<ClientHttp2Session> {
  // Megabytes that this client may keep.
  const client = connect(`http://127.0.0.1:${server.port}`, { maxSessionMemory: 100 });
  t.after(() => client.destroy());
  await once(client, 'remoteSettings');
  return client;
}

interface Answer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
}

async function call(client: ClientHttp2Session, path: string, content: Buffer, more = {}): Promise<Answer> {
  const stream = client.request(request(path, more));
  stream.end(content);
  const parts: Buffer[] = [];
  let headers: IncomingHttpHeaders = {};
  let trailers: IncomingHttpHeaders = {};
  stream.on('response', (got: IncomingHttpHeaders) => {
    headers = got;
  });
  stream.on('trailers', (got: IncomingHttpHeaders) => {
    trailers = got;
  });
  stream.on('data', (bytes: Buffer) => parts.push(bytes));
  await once(stream, 'end');
  return { headers, trailers, body: Buffer.concat(parts) };
}

test("Node's client: calls with large contents in both directions", async (t) => {
  const client = await session(t);
  const content = downloadContent(3_000_000);
  const answers = await Promise.all(Array.from({ length: 4 }, () => call(client, MIRROR, content)));
  for (const { headers, trailers, body } of answers) {
    assert.equal(headers[':status'], 200);
    assert.equal(trailers['grpc-status'], '0');
    assert.ok(body.equals(content));
  }
  assert.equal((await call(client, UPLOAD, content)).body.toString(), '3000000');
  const downloaded = await call(client, DOWNLOAD, Buffer.alloc(0), { 'x-bytes': '3000000', 'x-chunk': '999' });
  assert.ok(downloaded.body.equals(content));
});

test("Node's client: windows that change during responses", async (t) => {
  const client = await session(t);
  const fields = { 'x-bytes': '2000000', 'x-chunk': '30000' };
  const answers = [1, 2, 3].map(() => call(client, DOWNLOAD, Buffer.alloc(0), fields));
  for (const size of [1, 500_000, 20_000, 100_000]) {
    client.settings({ initialWindowSize: size });
    await once(client, 'localSettings');
  }
  for (const { body } of await Promise.all(answers)) assert.ok(body.equals(downloadContent(2_000_000)));
});

test("Node's client: pings, trailers of its own, and padding", async (t) => {
  const client = connect(`http://127.0.0.1:${server.port}`, { paddingStrategy: constants.PADDING_STRATEGY_MAX });
  t.after(() => client.destroy());
  await once(client, 'connect');
  await new Promise<void>((resolve, reject) => client.ping((error) => (error === null ? resolve() : reject(error))));
  const stream = client.request(request(ECHO), { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'x-trailer': 'a' }));
  stream.end(message('padded'));
  const parts: Buffer[] = [];
  stream.on('data', (bytes: Buffer) => parts.push(bytes));
  await once(stream, 'end');
  assert.deepEqual(Buffer.concat(parts), message('padded'));
});

test('none of this was an internal error', () => assert.deepEqual(server.faults, []));
