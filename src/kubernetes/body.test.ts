/** Compressed bodies of an API server, and statuses in protobuf: what is read of them, and what is too much. */
import assert from 'node:assert/strict';
import type { ServerHttp2Stream } from 'node:http2';
import { afterEach, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { waitUntil } from '../core/testing/wait-until.ts';
import { closeAll, follow, gateway, scripted } from './testing/followed-reflector.ts';

afterEach(closeAll);

const MIB = 1024 * 1024;

const compressed = (stream: ServerHttp2Stream, type = 'application/json'): void =>
  stream.respond({ ':status': 200, 'content-type': type, 'content-encoding': 'gzip' });
const line = (type: string, object: unknown): string => `${JSON.stringify({ type, object })}\n`;
const versioned = (name: string, resourceVersion: string) => ({
  metadata: { ...gateway(name).metadata, resourceVersion },
});
const END = { metadata: { resourceVersion: '9', annotations: { 'k8s.io/initial-events-end': 'true' } } };

test('a streaming list is read compressed, and each event of the watch after it as its own part', async () => {
  const server = await scripted();
  let watch: ServerHttp2Stream | undefined;
  server.intercept = ({ headers, query }, stream) => {
    assert.equal(headers['accept-encoding'], query.has('sendInitialEvents') ? 'gzip' : undefined);
    compressed(stream);
    stream.write(gzipSync(line('ADDED', gateway('a')) + line('ADDED', gateway('b')) + line('BOOKMARK', END)));
    watch = stream;
    return true;
  };
  const { calls, names } = await follow(server, { speed: 1 });
  await waitUntil(() => names() === 'a,b');
  const event = gzipSync(line('ADDED', versioned('c', '10')));
  watch?.write(event.subarray(0, 5));
  watch?.write(event.subarray(5));
  await waitUntil(() => names() === 'a,b,c');
  watch?.write(gzipSync(line('DELETED', versioned('a', '11'))));
  await waitUntil(() => names() === 'b,c');
  assert.deepEqual(calls, ['list a,b', 'set c', 'delete a']);
});

test('a page is read compressed', async () => {
  const server = await scripted();
  server.streamingLists = false;
  server.intercept = ({ headers, query }, stream) => {
    if (!query.has('limit')) return false;
    assert.equal(headers['accept-encoding'], 'gzip');
    compressed(stream);
    stream.end(gzipSync(JSON.stringify({ metadata: { resourceVersion: '9' }, items: [gateway('a')] })));
    return true;
  };
  const { names } = await follow(server);
  await waitUntil(() => names() === 'a');
});

test('a list whose compressed body is cut short is read again', async () => {
  const server = await scripted();
  server.streamingLists = false;
  let isCut = true;
  server.intercept = ({ query }, stream) => {
    if (!query.has('limit')) return false;
    const body = gzipSync(JSON.stringify({ metadata: { resourceVersion: '9' }, items: [gateway('a')] }));
    compressed(stream);
    stream.end(isCut ? body.subarray(0, -10) : body);
    isCut = false;
    return true;
  };
  const { names, calls } = await follow(server);
  await waitUntil(() => names() === 'a');
  assert.deepEqual(calls, ['list failed', 'list a', 'recovered']);
});

test('a compressed page counts with the bytes that it is decompressed to', async () => {
  const server = await scripted();
  server.streamingLists = false;
  // 200 MiB that are sent as 200 KiB.
  const bomb = gzipSync(Buffer.alloc(200 * MIB, ' '));
  const limits: (string | null)[] = [];
  server.intercept = ({ query }, stream) => {
    if (!query.has('limit')) return false;
    limits.push(query.get('limit'));
    compressed(stream);
    stream.end(limits.length < 3 ? bomb : gzipSync(JSON.stringify({ metadata: { resourceVersion: '9' }, items: [] })));
    return true;
  };
  const { calls } = await follow(server, { speed: 1 });
  await waitUntil(() => calls.includes('list '));
  // Smaller pages are asked for, as for any page that is too large.
  assert.deepEqual(limits, ['500', '62', '7']);
});

test('a compressed watch whose event is too large is ended', async () => {
  const server = await scripted();
  let watches = 0;
  server.intercept = ({ query }, stream) => {
    if (!query.has('sendInitialEvents')) return false;
    if (++watches > 1) return false;
    compressed(stream);
    stream.write(gzipSync(Buffer.alloc(17 * MIB, 'x')));
    return true;
  };
  const { calls } = await follow(server);
  await waitUntil(() => calls.includes('list failed'));
});

test('a refusal in protobuf is reported as text', async () => {
  const server = await scripted();
  const text = (field: number, value: string) => Buffer.from([field * 8 + 2, value.length, ...Buffer.from(value)]);
  const status = Buffer.concat([
    text(2, 'Failure'),
    text(3, 'gateways is forbidden: User "x" cannot list'),
    text(4, 'Forbidden'),
    Buffer.from([6 * 8, 0x93, 3]),
  ]);
  const body = Buffer.concat([Buffer.from('k8s\0'), Buffer.from([2 * 8 + 2, status.length]), status]);
  server.intercept = (_, stream) => {
    stream.respond({ ':status': 403, 'content-type': 'application/vnd.kubernetes.protobuf' });
    stream.end(body);
    return true;
  };
  const { failures } = await follow(server);
  await waitUntil(() => failures.length > 0);
  assert.equal(failures[0]?.message, 'HTTP 403 Forbidden: gateways is forbidden: User "x" cannot list');
});
