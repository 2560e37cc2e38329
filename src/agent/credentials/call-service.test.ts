import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { certificateSet, testRoot } from '../identity/testing/certificates.ts';
import { callService } from './call-service.ts';
import { startService } from './testing/service.ts';

test('a server that accepts a request and never answers, or never ends its answer, fails at the deadline', async (t) => {
  const { signal } = new AbortController();
  const silent = await startService(t, () => undefined);
  const endless = await startService(t, (response) => void response.writeHead(200).write('a'));
  for (const { url } of [silent, endless]) {
    const call = { to: new URL('/token?key=s3cret', url), timeoutMs: 30, signal };
    await assert.rejects(callService(call), {
      code: 'deadline_exceeded',
      message: `http://${url.host}/token: no response within 30 ms`,
    });
  }
});

test('a server that switches protocols fails the call at once', async (t) => {
  const { url } = await startService(t, (response) => {
    response.socket?.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n');
  });
  const { signal } = new AbortController();
  await assert.rejects(callService({ to: url, timeoutMs: 60_000, signal }), {
    code: 'unavailable',
    message: `http://${url.host}/: the connection was closed without a response`,
  });
});

/** An https server on loopback whose certificate nobody trusts. */
async function untrusted(t: TestContext): Promise<{ readonly url: URL; readonly requests: () => number }> {
  const { key, leaf } = certificateSet(testRoot('unknown'), 'localhost');
  let requests = 0;
  const server = createServer({ key, cert: leaf }, (_request, response) => {
    requests++;
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: new URL(`https://localhost:${port}/`), requests: () => requests };
}

test('a server is verified even when a variable of Node turns verification off', async (t) => {
  const { url, requests } = await untrusted(t);
  const { signal } = new AbortController();
  const variable = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const before = process.env[variable];
  t.after(() => {
    if (before === undefined) delete process.env[variable];
    else process.env[variable] = before;
  });
  process.env[variable] = '0';
  const call = { to: url, method: 'POST', body: 'token', timeoutMs: 10_000, signal };
  await assert.rejects(callService(call), { code: 'unavailable' });
  assert.equal(requests(), 0);
});
