import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import { freePort } from '../../../test/harness/index.ts';
import { startStatusServers } from './server.ts';

const deps = {
  readiness: { check: async () => undefined },
  probes: new Map(),
  serveMetrics: async () => undefined,
  quit: () => undefined,
};

test('a port that is in use is an error of one line, and the other port is released', async () => {
  const taken = await freePort();
  const other = createServer().listen(taken);
  await once(other, 'listening');
  const status = await freePort();
  await assert.rejects(startStatusServers({ status, readiness: taken }, deps), {
    code: 'unavailable',
    message: `cannot listen on :${taken} (EADDRINUSE)`,
  });
  other.close();
  const servers = await startStatusServers({ status, readiness: taken }, deps);
  const answer = async (port: number, path: string, method = 'GET') =>
    (await fetch(`http://127.0.0.1:${port}${path}`, { method })).status;
  assert.equal(await answer(status, '/healthz/ready'), 200);
  assert.equal(await answer(taken, '/healthz/ready'), 200);
  assert.equal(await answer(taken, '/healthz/ready', 'DELETE'), 405);
  assert.equal(await answer(taken, '/stats/prometheus'), 404);
  await servers.close();
  await assert.rejects(answer(status, '/healthz/ready'));
});

test('/quitquitquit is accepted from programs of this machine only, and not from web pages', async () => {
  const quits: boolean[] = [];
  const port = await freePort();
  const servers = await startStatusServers(
    { status: port, readiness: port },
    { ...deps, quit: (now) => void quits.push(now) },
  );
  const post = (headers: Record<string, string>, { path = '/quitquitquit', method = 'POST' } = {}) =>
    new Promise<number>((resolve, reject) => {
      request({ port, host: '127.0.0.1', path, method, headers, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      })
        .once('error', reject)
        .end();
    });
  for (const headers of [
    { host: `rebound.example:${port}` },
    { host: '127.0.0.1.example' },
    { host: 'localhost', 'x-forwarded-for': '10.0.0.1' },
    { host: '[::2]' },
    { host: `localhost:${port}`, origin: 'https://evil.example' },
    { host: `localhost:${port}`, origin: 'null' },
  ])
    assert.equal(await post(headers), 403, JSON.stringify(headers));
  assert.equal(await post({ host: 'localhost' }, { method: 'GET' }), 405);
  assert.deepEqual(quits, []);
  for (const host of [`localhost:${port}`, '127.0.0.1', '[::1]:15020']) assert.equal(await post({ host }), 200, host);
  assert.equal(await post({ host: 'localhost' }, { path: '/quitquitquit?now' }), 200);
  assert.deepEqual(quits, [false, false, false, true]);
  await servers.close();
});

test('readiness is answered while silent connections occupy its port', async (t) => {
  const port = await freePort();
  const servers = await startStatusServers({ status: port, readiness: port }, deps);
  t.after(() => servers.close());
  const crowd = Array.from({ length: 600 }, async (_, index) => {
    const socket = connect({
      port,
      host: '127.0.0.1',
      localAddress: index % 2 === 0 ? '127.0.0.1' : `127.0.1.${index % 250}`,
    });
    socket.on('error', () => {});
    t.after(() => socket.destroy());
    await once(socket, 'connect');
  });
  await Promise.all(crowd);
  for (let times = 0; times < 15; times++)
    assert.equal(
      (await fetch(`http://127.0.0.1:${port}/healthz/ready`, { headers: { connection: 'close' } })).status,
      200,
    );
});
