/** Requests to servers on real sockets: the token and the authorities from files, several servers, redirects, pools. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createRawServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { type ClientSettings, ConsulClient } from './client.ts';
import { SETTINGS } from './testing/followed-registry.ts';

let folder = '';
const servers: Server[] = [];
/** Values of X-Consul-Token. */
const tokens: (string | undefined)[] = [];
const sockets = new Set<Socket>();

const answering: RequestListener = (request, response) => {
  tokens.push(request.headers['x-consul-token'] as string | undefined);
  response.setHeader('x-consul-index', '7');
  response.end('[]');
};

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.on('connection', (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function clientOf(urls: readonly string[], more: Partial<ClientSettings> = {}) {
  const clock = fakeClock();
  const client = new ConsulClient({ ...SETTINGS, ...more, servers: urls.map((url) => new URL(url)) }, clock);
  const get = () =>
    client.get({
      path: '/v1/catalog/services',
      query: {},
      timeoutMs: 10_000,
      maxBytes: 1000,
      consistency: 'default',
      signal: new AbortController().signal,
    });
  return { client, clock, get };
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'meshd-consul-'));
});
after(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
  await rm(folder, { recursive: true });
});

/** A key and a certificate for 127.0.0.1, which is its own authority. */
async function certificate(name: string) {
  const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.pem`)];
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1'];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  await promisify(execFile)('openssl', ['req', '-x509', ...kind, '-keyout', key, '-out', cert, ...subject]);
  return { cert, pem: { key: await readFile(key), cert: await readFile(cert) } };
}

describe('requests to servers that speak as Consul', () => {
  test('the token is read again when its file changes, and a file that cannot be used fails the request', async () => {
    const port = await listen(createServer(answering));
    const tokenFile = join(folder, 'token');
    await writeFile(tokenFile, 'first\n');
    const { client, clock, get } = clientOf([`http://127.0.0.1:${port}`], { tokenFile });
    tokens.length = 0;
    assert.deepEqual([(await get()).index, tokens], [7, ['first']]);
    await writeFile(tokenFile, 'second\n');
    await clock.advance(2000);
    await get();
    assert.deepEqual(tokens, ['first', 'second']);
    await writeFile(tokenFile, 'two words\r\nx-evil: 1');
    await clock.advance(2000);
    await assert.rejects(get(), /expected a token of printable characters/);
    await rm(tokenFile);
    await clock.advance(2000);
    await assert.rejects(get(), /expected a readable file: ENOENT/);
    assert.equal(tokens.length, 2);
    client.close();
  });

  test('https servers are verified by the certificates of the file, which may change', async () => {
    const [right, wrong] = await Promise.all([certificate('right'), certificate('wrong')]);
    const port = await listen(createTlsServer(right.pem, answering));
    const caFile = join(folder, 'ca.pem');
    await writeFile(caFile, await readFile(wrong.cert));
    const { client, clock, get } = clientOf([`https://127.0.0.1:${port}`], { caFile });
    await assert.rejects(get(), /self-signed certificate/);
    await writeFile(caFile, await readFile(right.cert));
    await clock.advance(2000);
    assert.equal((await get()).index, 7);
    await writeFile(caFile, 'no certificate');
    await clock.advance(2000);
    await assert.rejects(get(), /expected certificates in PEM/);
    client.close();
  });

  test('another server is asked after a failure, and redirects are not followed', async () => {
    const [lost, found] = await Promise.all([
      listen(createServer((_request, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end())),
      listen(createServer(answering)),
    ]);
    const { client, get } = clientOf([`http://127.0.0.1:${lost}`, `http://127.0.0.1:${found}/`]);
    await assert.rejects(get(), /returned HTTP 302/);
    assert.equal((await get()).index, 7);
    assert.match(client.server, new RegExp(`:${found}/`));
    client.close();
  });

  test('a connection that the server resets when the next request is sent on it does not fail that request', async () => {
    let connections = 0;
    const server = createRawServer((socket) => {
      connections++;
      let requests = 0;
      socket.on('error', () => undefined);
      socket.on('data', () => {
        requests++;
        if (requests > 1) socket.resetAndDestroy();
        else socket.write('HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nContent-Length: 2\r\n\r\n[]');
      });
    });
    const { client, get } = clientOf([`http://127.0.0.1:${await listen(server)}`]);
    for (let n = 0; n < 3; n++) assert.equal((await get()).index, 7);
    assert.equal(connections, 3);
    client.close();
  });
});
