/** Clients that keep connections open, over real sockets: requests of others are answered. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type BoundedServerOptions, createBoundedServer } from './index.ts';

const MANY = 512;

interface Started {
  readonly port: number;
  readonly lines: string[];
}

async function start(
  t: TestContext,
  options: Partial<BoundedServerOptions> = {},
  listener: RequestListener = (_request, response) => void response.end('ready'),
): Promise<Started> {
  const lines: string[] = [];
  const server = createBoundedServer(
    { name: '--httpAddr', warn: (line) => void lines.push(line), maxConnections: MANY, ...options },
    listener,
  );
  server.listen({ port: 0, host: '127.0.0.1', backlog: 1024 });
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { port: (server.address() as AddressInfo).port, lines };
}

async function hold(t: TestContext, port: number, localAddress: string, first = ''): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => {});
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  if (first !== '') socket.write(first);
  return socket;
}

/** The status of a request on a new connection; 0 when that closes without a response. */
function ask(port: number, localAddress: string, path = '/'): Promise<number> {
  return new Promise((resolve) => {
    const asked = request({ port, host: '127.0.0.1', localAddress, path, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.on('error', () => resolve(0));
    asked.end();
  });
}

const CROWDS: Readonly<Record<string, readonly [address: (index: number) => string, first: string]>> = {
  'of one address that send nothing': [() => '127.0.0.1', ''],
  'of one address that never complete their headers': [() => '127.0.0.1', 'GET / HTTP/1.1\r\nhost: a\r\nx'],
  'of many addresses that send nothing': [(index) => `127.0.${1 + (index >> 7)}.${1 + (index & 127)}`, ''],
  'of many addresses that have been answered': [
    (index) => `127.0.${1 + (index >> 7)}.${1 + (index & 127)}`,
    'GET / HTTP/1.1\r\nhost: a\r\n\r\n',
  ],
};

for (const [what, [address, first]] of Object.entries(CROWDS))
  test(`${MANY} connections ${what} do not block requests of any address`, { timeout: 120_000 }, async (t) => {
    const { port, lines } = await start(t, { headersTimeoutMs: 60_000 });
    const crowd = Array.from({ length: MANY }, (_, index) => hold(t, port, address(index), first));
    await Promise.all(crowd);
    for (const from of ['127.0.0.1', '127.0.0.9', '127.0.1.1'])
      for (let times = 0; times < 5; times++) assert.equal(await ask(port, from), 200);
    assert.ok(lines.length <= 1, lines.join('\n'));
    for (const line of lines) assert.match(line, /^--httpAddr: too many connections .*: closed the oldest /);
  });

test('a client that sends nothing, or a part of a request, is disconnected after a timeout', async (t) => {
  const { port } = await start(t, { headersTimeoutMs: 100 });
  const silent = await hold(t, port, '127.0.0.1');
  const half = await hold(t, port, '127.0.0.1', 'GET / HTTP/1.1\r\nhost: a\r\nx');
  for (const socket of [silent, half]) {
    socket.resume();
    if (!socket.destroyed) await once(socket, 'close');
  }
});

test('a connection whose request is being answered is kept, however many others connect', async (t) => {
  const answer = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const { port } = await start(t, { maxConnections: 8 }, (request, response) => {
    if (request.url === '/slow') {
      begun.resolve();
      void answer.promise.then(() => response.end('slow'));
    } else response.end('fast');
  });
  const slow = await hold(t, port, '127.0.0.1', 'GET /slow HTTP/1.1\r\nhost: a\r\n\r\n');
  await begun.promise;
  for (let times = 0; times < 20; times++) await hold(t, port, `127.0.0.${1 + times}`);
  assert.equal(await ask(port, '127.0.0.1'), 200);
  const text = once(slow, 'data');
  answer.resolve();
  assert.match(String((await text)[0]), /^HTTP\/1\.1 200 /);
});

test('probes are answered however many responses are outstanding, and other requests are refused', async (t) => {
  const answer = Promise.withResolvers<void>();
  t.after(() => answer.resolve());
  let asked = 0;
  const { port, lines } = await start(t, { maxConnections: 8 }, (request, response) => {
    asked++;
    if (request.url === '/slow') void answer.promise.then(() => response.end('slow'));
    else response.end('fast');
  });
  for (let count = 0; count < 4; count++) await hold(t, port, '127.0.0.1', 'GET /slow HTTP/1.1\r\nhost: a\r\n\r\n');
  while (asked < 4) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await ask(port, '127.0.0.1', '/slow'), 503);
  assert.match(lines.join(), /: refused a request from 127\.0\.0\.1$/);
  for (let count = 0; count < 8; count++) await hold(t, port, `127.0.0.${1 + count}`);
  for (const from of ['127.0.0.1', '127.0.0.2']) assert.equal(await ask(port, from, '/ready?now'), 200);
  answer.resolve();
});

test('a client that does not read its responses does not block those of others', async (t) => {
  const page = Buffer.alloc(20_000_000);
  let asked = 0;
  const { port } = await start(t, { maxConnections: 8 }, (request, response) => {
    asked++;
    response.end(request.url === '/large' ? page : 'small');
  });
  const deaf = await Promise.all(
    Array.from({ length: 4 }, () => hold(t, port, '127.0.0.1', 'GET /large HTTP/1.1\r\nhost: a\r\n\r\n')),
  );
  while (asked < 4) await new Promise((resolve) => setImmediate(resolve));
  for (const from of ['127.0.0.1', '127.0.0.2']) assert.equal(await ask(port, from), 200);
  assert.ok(deaf.every((socket) => socket.bytesRead < page.length));
});
