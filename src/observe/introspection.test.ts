import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { buildInfo } from '../core/build-info.ts';
import { closeLogging, scopeSettings, setLevel } from '../logging/index.ts';
import { type IntrospectionServer, startIntrospection } from './introspection.ts';

const OPTIONS = {
  program: 'ctl-discovery' as const,
  address: '127.0.0.1',
  port: 0,
  build: buildInfo(),
  environment: { CTL_HTTP10: 'true' },
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
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const { body, ...rest } = options;
    const outgoing = request({ host: '127.0.0.1', port: server.port, path, agent: false, ...rest }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode, body: Buffer.concat(chunks).toString() }));
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
      { name: 'ads', output_level: 'error', stack_trace_level: 'none', log_callers: false },
    );
  });

  test('can be changed at run time', async () => {
    const { status, body } = await put('/scopej/ads', '{"output_level":"debug"}');
    assert.equal(status, 200);
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
  assert.match((await call('/')).body, /<h1>ctl-discovery<\/h1>/);
  assert.equal((await call('/nosuch')).status, 404);
  assert.equal((await call('/procj/', { method: 'DELETE' })).status, 405);
});

test('a request from loopback for another host name is refused', async () => {
  assert.equal((await call('/envj/', { headers: { host: 'evil.example:9876' } })).status, 403);
  for (const host of ['localhost:9876', '[::1]:9876', '127.0.0.1']) {
    assert.equal((await call('/envj/', { headers: { host } })).status, 200, host);
  }
});

test('an address in use is an error of one line', async () => {
  await assert.rejects(startIntrospection({ ...OPTIONS, port: server.port }), {
    code: 'unavailable',
    message: `cannot listen on 127.0.0.1:${server.port} (EADDRINUSE)`,
  });
});
