import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { runDiscoveryCommand } from '../testing/fake-pages.ts';

test('dashboard prints the address of pages that respond, and fails for others in one line', async (t) => {
  let status = 200;
  const server = createServer((_request, response) => void response.writeHead(status).end('page'));
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const run = (at: number) =>
    runDiscoveryCommand(['dashboard', '--introspect_address', '127.0.0.1', '--introspect_port', String(at)]);
  assert.deepEqual(await run(port), { code: 0, stdout: `http://127.0.0.1:${port}/\n`, stderr: '' });
  status = 500;
  assert.match((await run(port)).stderr, /^ctl-discovery: http:\/\/127\.0\.0\.1:\d+\/ returned HTTP 500\n$/);
  const none = await run(1);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /^ctl-discovery: no introspection pages at http:\/\/127\.0\.0\.1:1\/: [^\n]+\n$/);
});
