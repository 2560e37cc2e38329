import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { parseAppProbes } from './app-probes.ts';
import { probe } from './probes.ts';

const READY = '/app-health/web/readyz';
const parse = (spec: unknown) => parseAppProbes(JSON.stringify({ [READY]: spec }), '127.0.0.1').get(READY);

/** Timeouts in seconds: of probes that get no response, and of those that do, also on a busy machine. */
const [SHORT, LONG] = [0.3, 30];

describe('reading the probes', () => {
  test('an HTTP probe with all fields, and one with only its port', () => {
    const httpHeaders = [
      { name: 'X-A', value: '1' },
      { name: 'Host', value: 'own' },
    ];
    assert.deepEqual(
      parse({ httpGet: { path: 'a b?x=%20', port: 80, host: 'h', scheme: 'HTTPS', httpHeaders }, timeoutSeconds: 3 }),
      {
        kind: 'http',
        host: 'h',
        port: 80,
        path: '/a%20b?x=%20',
        tls: true,
        headers: [
          ['X-A', '1'],
          ['Host', 'own'],
        ],
        timeoutMs: 3000,
      },
    );
    assert.deepEqual(parse({ httpGet: { port: 8080 } }), {
      kind: 'http',
      host: '127.0.0.1',
      port: 8080,
      path: '/',
      tls: false,
      headers: [],
      timeoutMs: 1000,
    });
  });

  test('a TCP probe; no probes at all', () => {
    assert.deepEqual(parse({ tcpSocket: { port: 5432 } }), {
      kind: 'tcp',
      host: '127.0.0.1',
      port: 5432,
      timeoutMs: 1000,
    });
    assert.equal(parseAppProbes('', '127.0.0.1').size, 0);
  });

  test('a timeout of months is a day, which timers can wait', () => {
    assert.equal(parse({ tcpSocket: { port: 80 }, timeoutSeconds: 2_147_483_647 })?.timeoutMs, 86_400_000);
  });

  test('an invalid probe is refused with its path', () => {
    const wrong: readonly unknown[] = [
      {},
      { exec: {} },
      { httpGet: { port: 'http' } },
      { httpGet: { port: 0 } },
      { httpGet: { port: 80, scheme: 'ftp' } },
      { httpGet: { port: 80, httpHeaders: [{ value: 'x' }] } },
      { tcpSocket: {} },
      { grpc: { port: 80, service: 1 } },
      { grpc: {} },
      { tcpSocket: { port: 80 }, timeoutSeconds: 'x' },
    ];
    for (const spec of wrong) assert.throws(() => parse(spec), /MESH_ORCH_APP_PROBERS: \/app-health\/web\/readyz: /);
    assert.throws(() => parseAppProbes('{"/healthz": {}}', 'h'), /"\/healthz" is not \/app-health/);
    assert.throws(() => parseAppProbes('{', 'h'), /not JSON/);
  });
});

describe('probing', () => {
  const seen: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    if (request.url === '/slow') return;
    const location = { '/there': '/ok', '/round': '/round', '/away': 'http://192.0.2.1/' }[request.url ?? ''];
    if (location !== undefined) return void response.writeHead(302, { location }).end();
    response.writeHead(request.url === '/ok' ? 204 : 503).end('words');
  });
  let port = 0;
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  });
  after(() => server.close().closeAllConnections());
  const get = (path: string, more: object = {}, headers: Record<string, string> = {}) => {
    const parsed = parse({ httpGet: { path, port, ...more }, timeoutSeconds: path === '/slow' ? SHORT : LONG });
    assert.ok(parsed !== undefined);
    return probe(parsed, headers);
  };

  test('returns the status of the application', async () => {
    assert.equal(await get('/ok'), 204);
    assert.equal(await get('/other'), 503);
  });

  test('follows a limited number of redirects within the application only', async () => {
    assert.equal(await get('/there'), 204);
    assert.equal(await get('/away'), 302);
    assert.equal(await get('/round'), 302);
  });

  test("sends the probe's headers, and none of the prober's that could identify a user", async () => {
    const foreign = {
      authorization: 'Bearer stolen',
      cookie: 'session=1',
      'x-forwarded-client-cert': 'By=spiffe://cluster.local/ns/a/sa/admin',
      'x-forwarded-for': '127.0.0.1',
      'x-user': 'admin',
      host: 'pod:15021',
      connection: 'keep-alive',
    };
    await get(
      '/ok',
      {
        httpHeaders: [
          { name: 'X-A', value: 'probe' },
          { name: 'Accept', value: 'text/plain' },
        ],
      },
      { 'x-a': 'prober', accept: '*/*', 'user-agent': 'kube-probe/1.30', ...foreign },
    );
    const { headers } = seen.at(-1) as IncomingMessage;
    const expected = { 'x-a': 'probe', accept: 'text/plain', 'user-agent': 'kube-probe/1.30' };
    assert.deepEqual(headers, { ...expected, host: `127.0.0.1:${port}`, connection: 'close' });
    await get('/ok', { httpHeaders: [{ name: 'Host', value: 'own.example' }] });
    assert.equal(seen.at(-1)?.headers.host, 'own.example');
  });

  test('a gRPC service is healthy when it answers that it serves', async () => {
    const asked: string[] = [];
    const grpc = createHttp2Server();
    grpc.on('stream', (stream, headers) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.once('end', () => {
        const service = Buffer.concat(chunks).subarray(7).toString();
        asked.push(`${headers[':path']} ${service}`);
        if (service === 'silent') return;
        const status = service === 'unknown' ? 5 : 0;
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': String(status) }));
        stream.end(status === 0 ? Buffer.from([0, 0, 0, 0, 2, 8, service === 'sick' ? 2 : 1]) : undefined);
      });
    });
    grpc.listen(0, '127.0.0.1');
    await once(grpc, 'listening');
    const { port: grpcPort } = grpc.address() as AddressInfo;
    const check = async (service?: string) => {
      const parsed = parse({
        grpc: { port: grpcPort, ...(service === undefined ? {} : { service }) },
        timeoutSeconds: service === 'silent' ? SHORT : LONG,
      });
      assert.ok(parsed !== undefined);
      return probe(parsed, {});
    };
    assert.equal(await check(), 200);
    assert.equal(await check('shop.Orders'), 200);
    assert.equal(await check('sick'), 503);
    assert.equal(await check('unknown'), 503);
    assert.equal(await check('silent'), 500);
    assert.deepEqual(asked.slice(0, 2), ['/grpc.health.v1.Health/Check ', '/grpc.health.v1.Health/Check shop.Orders']);
    grpc.close();
    await once(grpc, 'close');
    assert.equal(await check(), 500);
  });

  test('no response, no connection and a timeout are status 500, and leave no connection open', async () => {
    assert.equal(await get('/slow'), 500);
    const tcp = createTcpServer().listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    const open = {
      kind: 'tcp',
      host: '127.0.0.1',
      port: (tcp.address() as AddressInfo).port,
      timeoutMs: LONG * 1000,
    } as const;
    assert.equal(await probe(open, {}), 200);
    tcp.close();
    await once(tcp, 'close');
    assert.equal(await probe(open, {}), 500);
    const connections = await new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    assert.equal(connections, 0);
  });
});
