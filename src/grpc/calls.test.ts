/**
 * The gRPC protocol: which requests are accepted, and what the responses contain.
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { ERROR, FLAG_END_STREAM, FRAME } from './frames/frames.ts';
import { type Fields, message, number, RawClient, request } from './testing/raw-client.ts';
import {
  CRASH,
  ECHO,
  FAIL,
  MAX_ECHO_BYTES,
  MIRROR,
  SILENT,
  STUMBLE,
  startServer,
  type TestServer,
  WAIT,
} from './testing/server.ts';

let server: TestServer;

before(async () => {
  server = await startServer();
});

after(() => server.server.destroy());

const OK = 0;
const DEADLINE_EXCEEDED = 4;
const NOT_FOUND = 5;
const RESOURCE_EXHAUSTED = 8;
const UNIMPLEMENTED = 12;
const INTERNAL = 13;

const END = FLAG_END_STREAM;

/** Headers of the response to a request without data. */
async function answerTo(fields: Fields): Promise<Record<string, string>> {
  const client = await RawClient.connect(server.port);
  client.headers(1, fields, END);
  const answer = await client.headersOf(1);
  client.close();
  return answer;
}

test('a response has headers, the message, and trailers', async () => {
  const client = await RawClient.connect(server.port);
  client.call(1, ECHO, 'hello');
  assert.deepEqual(await client.headersOf(1), { ':status': '200', 'content-type': 'application/grpc' });
  assert.deepEqual(await client.headersOf(1), { 'grpc-status': '0' });
  assert.deepEqual(client.dataOf(1), message('hello'));
  const last = client.frames.at(-1);
  assert.equal(last?.type, FRAME.headers);
  assert.equal((last?.flags ?? 0) & END, END);
  client.close();
});

test('a request that is not gRPC gets an HTTP status', async () => {
  const { 'content-type': _type, ...without } = request(ECHO);
  assert.deepEqual(await answerTo(without), { ':status': '415' });
  assert.deepEqual(await answerTo(request(ECHO, { 'content-type': 'application/json' })), { ':status': '415' });
  assert.deepEqual(await answerTo(request(ECHO, { 'content-type': 'application/grpc-web' })), { ':status': '415' });
  assert.deepEqual(await answerTo(request(ECHO, { ':method': 'GET' })), { ':status': '405' });
});

for (const type of ['application/grpc', 'application/grpc+proto', 'application/grpc;charset=utf-8'])
  test(`content type ${type} is accepted`, async () => {
    const client = await RawClient.connect(server.port);
    client.headers(1, request(ECHO, { 'content-type': type }));
    client.frame(FRAME.data, END, 1, message('a'));
    assert.equal(await client.statusOf(1), OK);
    client.close();
  });

test('the headers te and :authority are optional', async () => {
  const { te: _te, ':authority': _authority, ...fields } = request(ECHO);
  const client = await RawClient.connect(server.port);
  client.headers(1, fields);
  client.frame(FRAME.data, END, 1, message('a'));
  assert.equal(await client.statusOf(1), OK);
  client.close();
});

for (const path of ['/no.Such/Method', '/', ECHO.slice(1), `${ECHO}/`, `${ECHO}?a=b`, '/__proto__', 'constructor'])
  test(`there is no method ${path}`, async () => {
    const answer = await answerTo(request(path));
    assert.equal(answer[':status'], '200');
    assert.equal(answer['grpc-status'], String(UNIMPLEMENTED));
  });

test('a compressed call is refused with the accepted encodings', async () => {
  const answer = await answerTo(request(ECHO, { 'grpc-encoding': 'gzip' }));
  assert.equal(answer['grpc-status'], String(UNIMPLEMENTED));
  assert.equal(answer['grpc-accept-encoding'], 'identity');
  const client = await RawClient.connect(server.port);
  client.headers(1, request(ECHO, { 'grpc-encoding': 'identity', 'grpc-accept-encoding': 'gzip' }));
  client.frame(FRAME.data, END, 1, message('a'));
  assert.equal(await client.statusOf(1), OK);
  client.close();
});

test("errors of handlers become the call's status, and bugs disclose nothing", async () => {
  const client = await RawClient.connect(server.port);
  client.call(1, FAIL);
  const failed = await client.headersOf(1);
  assert.equal(failed['grpc-status'], String(NOT_FOUND));
  assert.equal(decodeURIComponent(failed['grpc-message'] ?? ''), 'nothing like that: 100 % sure, größer');
  client.call(3, CRASH);
  const crashed = await client.headersOf(3);
  assert.equal(crashed['grpc-status'], String(INTERNAL));
  assert.equal(crashed['grpc-message'], 'internal error');
  assert.equal(server.faults.length, 1);
  await client.echo(5);
  client.close();
});

for (const when of ['beginning', 'data', 'end'])
  test(`a bug in a stream's handler at its ${when} ends its call, and no other`, async () => {
    const client = await RawClient.connect(server.port);
    const faults = server.faults.length;
    client.headers(1, request(WAIT));
    client.headers(3, request(STUMBLE, { 'x-when': when }));
    client.frame(FRAME.data, 0, 3, message('a'));
    client.frame(FRAME.data, END, 3);
    assert.equal(await client.statusOf(3), INTERNAL);
    assert.equal(server.faults.length - faults, 1);
    await client.echo(5);
    client.close();
  });

const compressed = Buffer.concat([Buffer.from([1]), message('a').subarray(1)]);

for (const [what, content, status] of [
  ['no message', Buffer.alloc(0), INTERNAL],
  ['a part of a prefix', message('a').subarray(0, 3), INTERNAL],
  ['a part of a message', message('abc').subarray(0, -1), INTERNAL],
  ['two messages', Buffer.concat([message('a'), message('b')]), INTERNAL],
  ['a message and one byte', Buffer.concat([message('a'), Buffer.alloc(1)]), INTERNAL],
  ['a message with the compressed flag', compressed, INTERNAL],
  ['a message of four gigabytes', Buffer.from([0, 255, 255, 255, 255]), RESOURCE_EXHAUSTED],
  ['an empty message', message(''), OK],
] as const)
  test(`a unary call with ${what}: status ${status}`, async () => {
    const before = server.unary.length;
    const client = await RawClient.connect(server.port);
    client.headers(1, request(ECHO));
    client.frame(FRAME.data, END, 1, content);
    assert.equal(await client.statusOf(1), status);
    assert.equal(server.unary.length - before, status === OK ? 1 : 0);
    await client.echo(3);
    client.close();
  });

test('a message of exactly the limit is accepted, a larger one is refused before it arrives', async () => {
  const client = await RawClient.connect(server.port);
  const content = message(Buffer.alloc(MAX_ECHO_BYTES));
  client.headers(1, request(ECHO));
  for (let at = 0; at < content.length; at += 16_384)
    client.frame(FRAME.data, at + 16_384 < content.length ? 0 : END, 1, content.subarray(at, at + 16_384));
  client.frame(FRAME.windowUpdate, 0, 1, number(2 ** 20));
  client.frame(FRAME.windowUpdate, 0, 0, number(2 ** 20));
  assert.equal(await client.statusOf(1), OK);
  const refusedBefore = server.tooLarge.length;
  client.headers(3, request(ECHO));
  client.frame(FRAME.data, 0, 3, message(Buffer.alloc(MAX_ECHO_BYTES + 1)).subarray(0, 5));
  assert.equal(await client.statusOf(3), RESOURCE_EXHAUSTED);
  assert.equal(await client.resetCode(3), ERROR.none);
  assert.equal(server.tooLarge.length - refusedBefore, 1);
  client.close();
});

test('a prefix and its message may arrive byte by byte', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(ECHO));
  for (const byte of message('in pieces')) client.frame(FRAME.data, 0, 1, Buffer.from([byte]));
  client.frame(FRAME.data, END, 1);
  assert.equal(await client.statusOf(1), OK);
  assert.deepEqual(client.dataOf(1), message('in pieces'));
  client.close();
});

test('the deadline of a client ends its call', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(WAIT, { 'grpc-timeout': '20m' }));
  client.frame(FRAME.data, END, 1, message('a'));
  assert.equal(await client.statusOf(1), DEADLINE_EXCEEDED);
  client.headers(3, request(SILENT, { 'grpc-timeout': '1000u' }));
  assert.equal(await client.statusOf(3), DEADLINE_EXCEEDED);
  assert.equal(server.streams.at(-1)?.closed, true);
  client.close();
});

test('deadlines are read in all units, and a malformed one ends the stream', async () => {
  const client = await RawClient.connect(server.port);
  let stream = 1;
  for (const timeout of ['1H', '99999999H', '1M', '10S', '10000m', '99999999u', '99999999n']) {
    client.headers(stream, request(ECHO, { 'grpc-timeout': timeout }));
    client.frame(FRAME.data, END, stream, message('a'));
    assert.equal(await client.statusOf(stream), OK, timeout);
    stream += 2;
  }
  for (const timeout of ['', '1', 'S', '-1S', '1s', '999999999S', '1.5S']) {
    client.headers(stream, request(ECHO, { 'grpc-timeout': timeout }));
    assert.equal(await client.resetCode(stream), ERROR.protocol, timeout);
    stream += 2;
  }
  client.close();
});

test('a cancelled call ends for its handler, and its connection stays open', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  await client.ping();
  const call = server.streams.at(-1);
  assert.ok(call !== undefined && !call.closed);
  const closed = new Promise<void>((resolve) => call.onClose(resolve));
  client.frame(FRAME.rstStream, 0, 1, number(ERROR.cancel));
  await closed;
  assert.equal(call.closed, true);
  let result: string | undefined;
  call.write([Buffer.from('late')], (sent) => {
    result = sent;
  });
  assert.equal(result, 'closed');
  call.end();
  await client.echo(3);
  client.close();
});

test('a cancelled unary call is not answered', async () => {
  const client = await RawClient.connect(server.port);
  client.call(1, WAIT);
  await client.ping();
  client.frame(FRAME.rstStream, 0, 1, number(ERROR.cancel));
  await client.ping();
  server.release();
  await client.echo(3);
  assert.ok(client.frames.every(({ stream }) => stream !== 1));
  client.close();
});

test('calls end with their connection', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  client.headers(3, request(MIRROR));
  await client.ping();
  const [one, other] = server.streams.slice(-2);
  assert.ok(one !== undefined && other !== undefined);
  const closed = Promise.all([one, other].map((call) => new Promise<void>((resolve) => call.onClose(resolve))));
  client.close();
  await closed;
});

test('a response before the end of the request is sent, and the rest of the request is not needed', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  await client.ping();
  const call = server.streams.at(-1);
  call?.write([message('early')], () => {});
  call?.end();
  assert.equal(await client.statusOf(1), OK);
  assert.deepEqual(client.dataOf(1), message('early'));
  assert.equal(await client.resetCode(1), ERROR.none);
  client.close();
});

test('an aborted call is reset', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  await client.ping();
  server.streams.at(-1)?.abort();
  assert.equal(await client.resetCode(1), ERROR.cancel);
  await client.echo(3);
  client.close();
});

test('a retired connection takes no new calls, completes the open ones, and closes', async () => {
  const client = await RawClient.connect(server.port);
  client.headers(1, request(SILENT));
  await client.ping();
  const call = server.streams.at(-1);
  call?.retireConnection();
  call?.retireConnection();
  const { payload } = await client.next('goaway');
  assert.deepEqual([payload.readUInt32BE(0), payload.readUInt32BE(4)], [1, ERROR.none]);
  client.headers(3, request(ECHO));
  assert.equal(await client.resetCode(3), ERROR.refusedStream);
  call?.write([message('still')], () => {});
  call?.end();
  assert.equal(await client.statusOf(1), OK);
  assert.deepEqual(client.dataOf(1), message('still'));
  await client.untilEnded();
});

test('a draining server completes calls, and accepts no connections', async () => {
  const draining = await startServer();
  const [busy, idle] = [await RawClient.connect(draining.port), await RawClient.connect(draining.port)];
  busy.call(1, WAIT, 'a');
  await busy.ping();
  const drained = draining.server.drain();
  assert.equal(await idle.goawayCode(), ERROR.none);
  await idle.untilEnded();
  draining.release();
  assert.equal(await busy.statusOf(1), OK);
  await busy.untilEnded();
  for (const client of [busy, idle]) client.close();
  await drained;
  await assert.rejects(RawClient.open(draining.port), { code: 'ECONNREFUSED' });
  draining.server.destroy();
});

test('a server that is destroyed closes everything', async () => {
  const destroyed = await startServer();
  const client = await RawClient.connect(destroyed.port);
  client.headers(1, request(SILENT));
  await client.ping();
  const half = await RawClient.open(destroyed.port);
  const closed = once(half.socket, 'close');
  destroyed.server.destroy();
  await client.untilEnded();
  await closed;
  assert.equal(destroyed.streams[0]?.closed, true);
});
