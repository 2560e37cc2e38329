import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, describe, it, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Counter, Registry } from 'prom-client';
import { type DebugSource, PageMaker } from '../../debug/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { defaultMeshConfig } from '../../resources/index.ts';
import { guardedFetch } from '../../security/index.ts';
import { DebugAccess } from './debug-access.ts';
import { type HttpRoutes, httpListener, metricsText, monitoringListener } from './http-routes.ts';
import { type HttpServer, startHttpServer } from './http-servers.ts';

const ANY = { host: '127.0.0.1', port: 0 };
const servers: HttpServer[] = [];
after(() => Promise.all(servers.map((server) => server.close())));

async function serve(listener: Parameters<typeof startHttpServer>[2]): Promise<HttpServer> {
  const server = await startHttpServer('--httpAddr', ANY, listener);
  servers.push(server);
  return server;
}

async function get({ port }: HttpServer, path: string, method = 'GET'): Promise<[status: number, body: string]> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return [response.status, await response.text()];
}

/** The status line of a raw request, because `fetch` would normalize its target. */
function raw({ port }: HttpServer, target: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`),
    );
    socket.on('data', (chunk) => {
      text += chunk.toString();
    });
    socket.on('end', () => resolve(text.slice(0, text.indexOf('\r\n'))));
    socket.on('error', reject);
  });
}

/** Routes of a ready program, with changes of a test. */
function routes(changes: Partial<HttpRoutes> = {}): HttpRoutes {
  return {
    state: () => 'ready',
    debug: () => BROKEN,
    sources: () => [],
    policyPage: async () => '',
    profiler: undefined,
    access: new DebugAccess({ callers: () => undefined, home: () => undefined, open: false }),
    maker: new PageMaker({ now: () => performance.now(), nextTurn: () => nextTurn() }),
    version: { version: '1.2.3', revision: 'abc', nodeVersion: 'v24', status: 'Clean', tag: '' },
    ...changes,
  };
}

const BROKEN: DebugSource = {
  snapshot: () => {
    throw new Error('broken');
  },
  connections: () => [],
  sources: () => [],
  leadership: () => [],
  documents: () => [],
  warningsOf: () => [],
  reasonsFor: () => [],
  readersOf: () => new Map(),
  sharedKeys: () => [],
  parts: () => [],
  problems: () => [],
  findings: () => [],
  refusedPolicies: () => [],
  engine: () => ({}),
  withheld: () => [],
  failing: () => [],
  replica: 'one',
  mesh: () => defaultMeshConfig(),
  injection: () => ({}),
  analysisInput: () => assert.fail('not analyzed'),
  showConfigInAdsz: false,
};

test('/ready?verbose has a line for each source, with how stale it is', async () => {
  const sources = [
    { id: 'directory', cluster: 'here', synced: true, health: { ok: true } },
    { id: 'kubernetes', cluster: 'here', synced: true, health: { ok: false, reason: 'x', since: performance.now() } },
    { id: 'kubernetes/other', cluster: 'other', synced: false, health: { ok: false, reason: 'y' } },
  ] as const;
  const server = await serve(httpListener(routes({ sources: () => sources, debug: () => undefined })));
  const [status, body] = await get(server, '/ready?verbose');
  assert.equal(status, 200);
  const lines = [
    'ready',
    '[+] directory: current',
    '[-] kubernetes: stale for N s',
    '[-] kubernetes/other: not read yet',
  ];
  assert.equal(body.replace(/stale for \d+ s/, 'stale for N s'), `${lines.join('\n')}\n`);
  assert.equal((await get(server, '/ready'))[1], 'ready\n');
});

test('a program that ends is not ready, and still answers', async () => {
  const server = await serve(httpListener(routes({ state: () => 'stopping' })));
  assert.deepEqual(await get(server, '/ready'), [503, 'not ready: stopping\n']);
  assert.deepEqual(await get(server, '/healthz'), [200, 'ok\n']);
});

test('requests of the program itself get neither pages nor profiles', async () => {
  const profiler = { handles: () => true, answer: async () => assert.fail('a profile was begun') };
  const server = await serve(httpListener(routes({ profiler })));
  const fetched = guardedFetch();
  for (const path of ['/debug/pprof/heap', '/debug/configz', '/ready']) {
    const response = await fetched(`http://127.0.0.1:${server.port}${path}`, {});
    assert.deepEqual(
      [response.status, await response.text()],
      [403, 'key sets cannot be fetched from this address\n'],
      path,
    );
  }
});

describe('HTTP address', () => {
  it('is ready and has debug pages when configuration is read', async () => {
    let ready = false;
    const state = () => (ready ? 'ready' : 'starting');
    const server = await serve(httpListener(routes({ state, debug: () => (ready ? BROKEN : undefined) })));
    assert.equal((await get(server, '/ready'))[0], 503);
    assert.equal((await get(server, '/debug/syncz'))[0], 503);
    ready = true;
    assert.deepEqual(await get(server, '/ready'), [200, 'ready\n']);
    assert.deepEqual(await get(server, '/debug/syncz'), [200, '[]\n']);
    assert.equal((await get(server, '/elsewhere'))[0], 404);
  });

  it('is not ready while a source is not read, and names it', async () => {
    const health = { ok: false, reason: 'config directory /secret does not exist' } as const;
    const sources: HttpRoutes['sources'] = () => [
      { id: 'mock', cluster: 'c', synced: true, health: { ok: true } },
      { id: 'directory', cluster: 'c', synced: false, health },
    ];
    const server = await serve(httpListener(routes({ state: () => 'starting', debug: () => undefined, sources })));
    assert.deepEqual(await get(server, '/ready'), [
      503,
      'not ready: configuration is being read, waiting for directory\n',
    ]);
  });

  it('survives invalid targets and pages that throw', async () => {
    const server = await serve(httpListener(routes()));
    for (const target of ['//', 'http://[', '/debug/%ff%', '*']) {
      assert.match(await raw(server, target), /^HTTP\/1\.1 40[04] /, target);
    }
    assert.deepEqual(await get(server, '/debug/registryz'), [500, 'broken\n']);
    assert.deepEqual(await get(server, '/ready'), [200, 'ready\n']);
  });
});

describe('monitoring address', () => {
  it('samples the gauges at each scrape', async () => {
    const registry = new Registry();
    const counter = new Counter({ name: 'sampled', help: 'times sampled', registers: [registry] });
    const metrics = createMetrics(registry);
    let broken = false;
    const sample = (): void => {
      if (broken) throw new Error('broken');
      counter.inc();
    };
    const server = await serve(monitoringListener(routes(), () => metricsText(registry, sample, metrics)));
    assert.match((await get(server, '/metrics'))[1], /^sampled 1$/m);
    assert.match((await metricsText(registry, sample, metrics)).text, /^scrapes_total 2$/m);
    broken = true;
    assert.equal((await get(server, '/metrics'))[0], 500);
    broken = false;
    const { text } = await metricsText(registry, sample, metrics);
    assert.match(text, /^scrapes_total 4$/m);
    assert.match(text, /^scrape_failures_total 1$/m);
    assert.equal((await get(server, '/ready'))[0], 200);
    assert.deepEqual(await get(server, '/version'), [200, '1.2.3-abc-Clean\n']);
    assert.deepEqual(await get(server, '/debug/syncz'), [200, '[]\n']);
    assert.equal((await get(server, '/elsewhere'))[0], 404);
    assert.match(await raw(server, '//'), /^HTTP\/1\.1 400 /);
  });

  it('returns HTTP 500 when sampling fails', async () => {
    const fail = () => {
      throw new Error('no sample');
    };
    const server = await serve(monitoringListener(routes({ state: () => 'starting' }), fail));
    assert.deepEqual(await get(server, '/metrics'), [500, 'no sample\n']);
    assert.equal((await get(server, '/ready'))[0], 503);
  });
});

describe('startHttpServer', () => {
  it('rejects with the flag and the address that is in use', async () => {
    const server = await serve(() => {});
    await assert.rejects(
      startHttpServer('--httpAddr', { host: '127.0.0.1', port: server.port }, () => {}),
      {
        code: 'unavailable',
        message: `cannot listen on 127.0.0.1:${server.port} (EADDRINUSE)`,
      },
    );
  });
});
