import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { buildInfo } from '../core/build-info.ts';
import { CtlError } from '../core/errors.ts';
import { closeLogging, scopeSettings, setLevel } from '../logging/index.ts';
import { type IntrospectionServer, startIntrospection } from './server.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-pages-'));
for (const name of ['index.html', 'app.js', 'app.css']) writeFileSync(join(folder, name), `content of ${name}`);
after(() => rmSync(folder, { recursive: true, force: true }));
const PAGES = pathToFileURL(`${folder}/`);

const OPTIONS = {
  program: 'ctl-discovery' as const,
  address: '127.0.0.1',
  port: 0,
  build: buildInfo(),
  environment: { CTL_HTTP10: 'true' },
  args: ['ctl-discovery', 'discovery'],
  flags: { httpAddr: ':8080' },
  pages: PAGES,
  debug: (_request: IncomingMessage, response: ServerResponse) => Promise.resolve(void response.end('debug')),
  access: {
    allOrRefuse: (request: IncomingMessage, what: string) =>
      request.headers.authorization === 'Bearer tenant'
        ? Promise.reject(new CtlError('permission_denied', `${what} need a token`))
        : Promise.resolve(),
  },
  metrics: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4', text: 'ctl_xds 1\n' }),
};

let server: IntrospectionServer;
before(async () => {
  server = await startIntrospection(OPTIONS);
});
after(() => server.close());
afterEach(() => {
  setLevel('ads', 'warn');
  closeLogging();
});

function call(path: string, options: { method?: string; headers?: Record<string, string>; body?: string } = {}) {
  type Answer = { status: number | undefined; body: string; raw: Buffer; headers: IncomingHttpHeaders };
  return new Promise<Answer>((resolve, reject) => {
    const { body, ...rest } = options;
    const outgoing = request({ host: '127.0.0.1', port: server.port, path, agent: false, ...rest }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const raw = Buffer.concat(chunks);
        resolve({ status: response.statusCode, body: raw.toString(), raw, headers: response.headers });
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

const put = (path: string, body: string, type = 'application/json') =>
  call(path, { method: 'PUT', headers: { 'content-type': type }, body });

describe('log scopes', () => {
  test('are listed with their settings', async () => {
    setLevel('ads', 'error');
    const scopes: { name: string }[] = JSON.parse((await call('/scopej/')).body);
    assert.ok(scopes.some((scope) => scope.name === 'pkica'));
    assert.ok(!scopes.some((scope) => scope.name === 'all' || scope.name === 'sds'));
    assert.deepEqual(
      scopes.find((scope) => scope.name === 'ads'),
      {
        name: 'ads',
        output_level: 'error',
        stack_trace_level: 'none',
        log_callers: false,
        default: { output_level: 'warn', stack_trace_level: 'none', log_callers: false },
      },
    );
  });

  test('can be changed at run time', async () => {
    // As `istioctl admin log` does: with the name, and without a content type.
    const sent = { method: 'PUT', body: '{"name":"ads","output_level":"debug"}' };
    const { status, body } = await call('/scopej/ads', sent);
    assert.equal(status, 202);
    assert.equal(JSON.parse(body).output_level, 'debug');
    assert.equal(scopeSettings('ads').outputLevel, 'debug');
    assert.equal(JSON.parse((await call('/scopej/ads')).body).output_level, 'debug');
  });

  for (const [what, path, body, status] of [
    ['an unknown scope', '/scopej/nosuch', '{"output_level":"debug"}', 404],
    ['an unknown level', '/scopej/ads', '{"output_level":"loud"}', 400],
    ['half a change', '/scopej/ads', '{"output_level":"debug","log_callers":"yes"}', 400],
    ['no JSON', '/scopej/ads', 'debug', 400],
    ['no object', '/scopej/ads', 'null', 400],
    ['a body without end', '/scopej/ads', `{"output_level":"debug"${' '.repeat(5000)}}`, 400],
    ['all scopes at once', '/scopej/', '{"output_level":"debug"}', 405],
  ] as const) {
    test(`${what} changes nothing`, async () => {
      assert.equal((await put(path, body)).status, status);
      assert.equal(scopeSettings('ads').outputLevel, 'warn');
    });
  }

  test('cannot be changed by a form of another site', async () => {
    assert.equal((await put('/scopej/ads', '{"output_level":"debug"}', 'text/plain')).status, 415);
    assert.equal((await call('/scopej/ads', { method: 'POST', body: '{}' })).status, 405);
  });
});

test('process, memory, build, metrics and the given variables are shown', async () => {
  assert.equal(JSON.parse((await call('/procj/')).body).pid, process.pid);
  assert.ok(JSON.parse((await call('/memj')).body).heap.heap_size_limit > 0);
  assert.equal(JSON.parse((await call('/versionj/')).body).version, OPTIONS.build.version);
  assert.deepEqual(JSON.parse((await call('/envj/')).body), [{ name: 'CTL_HTTP10', value: 'true' }]);
  assert.equal((await call('/metrics')).body, 'ctl_xds 1\n');
  assert.deepEqual(JSON.parse((await call('/argj')).body), ['ctl-discovery', 'discovery']);
  assert.deepEqual(JSON.parse((await call('/flagj/')).body), [{ name: 'httpAddr', value: ':8080' }]);
  assert.ok(JSON.parse((await call('/homej')).body).HeapSize > 0);
  assert.equal(JSON.parse((await call('/signalj')).body)[0].name, 'SIGTERM');
  assert.equal((await call('/debug/syncz')).body, 'debug');
  assert.equal((await call('/nosuch')).status, 404);
  assert.equal((await call('/procj/', { method: 'DELETE' })).status, 405);
});

test('a request from loopback for another host name is refused', async () => {
  assert.equal((await call('/envj/', { headers: { host: 'evil.example:9876' } })).status, 403);
  for (const host of ['localhost:9876', '[::1]:9876', '127.0.0.1']) {
    assert.equal((await call('/envj/', { headers: { host } })).status, 200, host);
  }
});

test('a request of the program itself for a key set gets nothing', async () => {
  for (const path of ['/debug/pprof/heap', '/debug/configz', '/metrics', '/envj/', '/versionj', '/']) {
    const { status, body } = await call(path, { headers: { 'x-meshd-fetch': 'keys' } });
    assert.deepEqual([status, body], [403, 'key sets cannot be fetched from this address\n'], path);
  }
});

test('an address in use is an error of one line', async () => {
  await assert.rejects(startIntrospection({ ...OPTIONS, port: server.port }), {
    code: 'unavailable',
    message: `cannot listen on 127.0.0.1:${server.port} (EADDRINUSE)`,
  });
});

describe('pages', () => {
  test('every page is the shell of the application, under a policy that lets only its own scripts run', async () => {
    for (const path of [
      '/',
      '/proxies',
      '/pushes?search=x',
      '/scopez/',
      '/argz',
      '/signalz',
      '/envz',
      '/memz',
      '/procz',
    ]) {
      const { status, body, headers } = await call(path);
      assert.deepEqual([status, body], [200, 'content of index.html'], path);
      assert.match(String(headers['content-security-policy']), /^default-src 'none'; script-src 'self';/);
    }
    assert.equal((await call('/pages/app.js')).headers['content-type'], 'text/javascript; charset=utf-8');
    for (const path of ['/pages/', '/pages/../server.ts', '/pages/__proto__']) {
      assert.equal((await call(path)).status, 404, path);
    }
  });

  test('files are sent compressed, and not again while they are the same', async () => {
    const { raw, headers } = await call('/pages/app.css', { headers: { 'accept-encoding': 'gzip, br' } });
    assert.equal(gunzipSync(raw).toString(), 'content of app.css');
    const again = await call('/pages/app.css', { headers: { 'if-none-match': String(headers.etag) } });
    assert.deepEqual([again.status, again.body], [304, '']);
  });

  test('without the build, they say how to make it', async () => {
    const bare = await startIntrospection({ ...OPTIONS, pages: new URL('none/', PAGES) });
    try {
      const response = await fetch(`http://127.0.0.1:${bare.port}/`);
      assert.deepEqual([response.status, /npm run build/.test(await response.text())], [503, true]);
    } finally {
      await bare.close();
    }
  });
});

describe('what changes the program', () => {
  test('is refused from a page of another site', async () => {
    for (const headers of [
      { origin: 'http://evil.example' },
      { origin: `http://localhost:${server.port + 1}` },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site' },
    ]) {
      const sent = { method: 'PUT', headers: { 'content-type': 'application/json', ...headers }, body: '{}' };
      assert.equal((await call('/scopej/ads', sent)).status, 403, JSON.stringify(headers));
      assert.equal((await call('/memj/forcecollection', sent)).status, 403, JSON.stringify(headers));
    }
    const own = { origin: `http://127.0.0.1:${server.port}`, 'sec-fetch-site': 'same-origin' };
    const sent = { method: 'PUT', headers: { 'content-type': 'application/json', ...own }, body: '{}' };
    assert.equal((await call('/scopej/ads', sent)).status, 202);
  });

  test('needs a caller who may see everything', async () => {
    const headers = { authorization: 'Bearer tenant', 'content-type': 'application/json' };
    for (const path of ['/scopej/ads', '/memj/forcecollection', '/signalj/SIGTERM', '/homej/exit']) {
      assert.equal((await call(path, { method: 'PUT', headers, body: '{}' })).status, 403, path);
    }
    for (const path of ['/scopej', '/envj', '/argj', '/flagj', '/procj', '/memj', '/signalj']) {
      assert.equal((await call(path, { headers })).status, 403, path);
    }
    assert.equal((await call('/versionj', { headers })).status, 200);
  });

  test('is a PUT or a POST', async () => {
    assert.equal((await call('/memj/forcecollection')).status, 405);
    assert.equal((await call('/homej/exit')).status, 405);
  });

  test('a collection of garbage is once in 10 s', async () => {
    assert.equal((await call('/memj/forcecollection', { method: 'PUT' })).status, 202);
    assert.equal((await call('/memj/forcecollection', { method: 'POST' })).status, 429);
  });

  test('SIGUSR1, which would open the debugger of Node.js, is not sent', async () => {
    const { status, body } = await call('/signalj/SIGUSR1', { method: 'PUT' });
    assert.deepEqual([status, /debugger/.test(body)], [501, true]);
  });
});
