/** Requests to a scripted API server: typed errors, limits, and how connections are shared. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../core/testing/wait-until.ts';
import { ApiError, ConnectionError } from './api-error.ts';
import { KubernetesClient } from './client.ts';
import { Connection } from './connection.ts';
import type { ResourceType } from './objects.ts';
import { fastClock } from './testing/fast-clock.ts';
import { ScriptedApiServer } from './testing/scripted-api-server.ts';

const LEASES: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};
const PATH = '/apis/coordination.k8s.io/v1/namespaces/mesh-system/leases';

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

async function scripted(options: { readonly maxStreams?: number } = {}): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start(options);
  cleanup.push(() => server.stop());
  return server;
}

function clientOf(server: ScriptedApiServer, token?: string, ca?: string) {
  const events: string[] = [];
  const access = server.access(token === undefined ? {} : { token });
  const connection = new Connection({
    access: ca === undefined ? access : { ...access, tls: async () => ({ ca }) },
    clock: fastClock(50),
    random: () => 0,
    userAgent: 'meshd-test',
  });
  connection.observe({ lost: (reason) => events.push(reason), reached: () => events.push('reached') });
  cleanup.push(() => connection.close());
  return { client: new KubernetesClient(connection), connection, events };
}

describe('a client of a scripted API server', () => {
  test('creates, reads, replaces, patches and deletes objects with its token', async () => {
    const server = await scripted();
    server.intercept = (_, stream) => server.json(stream, { metadata: { name: 'leader' } });
    const { client } = clientOf(server, 'secret');
    const inNamespace = { namespace: 'mesh-system' };
    const lease = { metadata: { name: 'leader' }, spec: { holderIdentity: 'a' } };
    await client.create(LEASES, lease, inNamespace);
    await client.get(LEASES, 'leader', inNamespace);
    await client.update(LEASES, 'leader', lease, inNamespace);
    await client.patch(
      LEASES,
      'leader',
      { spec: {} },
      { ...inNamespace, type: 'application/merge-patch+json', subresource: 'status' },
    );
    await client.delete(LEASES, 'leader', inNamespace);
    assert.deepEqual(
      server.requests.map(({ method, path }) => `${method} ${path}`),
      [
        `POST ${PATH}`,
        `GET ${PATH}/leader`,
        `PUT ${PATH}/leader`,
        `PATCH ${PATH}/leader/status`,
        `DELETE ${PATH}/leader`,
      ],
    );
    assert.deepEqual(JSON.parse(server.requests[0]?.body ?? ''), {
      ...lease,
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
    });
    assert.equal(server.requests[3]?.headers['content-type'], 'application/merge-patch+json');
    assert.ok(server.requests.every(({ headers }) => headers.authorization === 'Bearer secret'));
    assert.equal(server.connections, 1);
  });

  test('reports errors with code, reason and message', async () => {
    const server = await scripted();
    const answers = [
      [403, 'Forbidden', 'permission_denied'],
      [404, 'NotFound', 'not_found'],
      [409, 'AlreadyExists', 'already_exists'],
      [409, 'Conflict', 'failed_precondition'],
      [429, 'TooManyRequests', 'resource_exhausted'],
      [500, 'InternalError', 'unavailable'],
    ] as const;
    const { client } = clientOf(server);
    for (const [status, reason, code] of answers) {
      server.intercept = (_, stream) => server.fail(stream, status, reason, { 'retry-after': '7' });
      await assert.rejects(client.get(LEASES, 'x'), (error) => {
        assert.ok(error instanceof ApiError);
        assert.deepEqual([error.status, error.reason, error.code, error.retryAfterMs], [status, reason, code, 7000]);
        assert.equal(error.message, `HTTP ${status} ${reason}: scripted ${reason}`);
        return true;
      });
    }
  });

  test('shows one short line of an error that is no Status', async () => {
    const server = await scripted();
    server.intercept = (_, stream) => {
      stream.respond({ ':status': 502 });
      stream.end(`<html>\n\n${'x'.repeat(5000)}`);
      return true;
    };
    await assert.rejects(clientOf(server).client.get(LEASES, 'x'), (error) => {
      assert.ok(error instanceof ApiError && error.message.length < 600 && !error.message.includes('\n'));
      return true;
    });
  });

  test('refuses an answer that is larger than its limit', async () => {
    const server = await scripted();
    server.intercept = (_, stream) => {
      stream.respond({ ':status': 200 });
      stream.end(Buffer.alloc(20 * 1024 * 1024));
      return true;
    };
    await assert.rejects(clientOf(server).client.get(LEASES, 'x'), { code: 'resource_exhausted' });
  });

  test('gives up a request that is not answered', async () => {
    const server = await scripted();
    server.intercept = () => true;
    await assert.rejects(clientOf(server).client.get(LEASES, 'x'), (error) => {
      assert.ok(error instanceof ConnectionError);
      assert.match(error.message, /no response within 30 s/);
      return true;
    });
  });

  test('opens another connection when the server takes no more streams on the first', async () => {
    const server = await scripted({ maxStreams: 3 });
    server.intercept = () => true;
    const { client } = clientOf(server);
    const ending = new AbortController();
    const requests = Array.from({ length: 7 }, () => client.get(LEASES, 'x', { signal: ending.signal }));
    const outcomes = Promise.allSettled(requests);
    await waitUntil(() => server.requests.length === 7);
    ending.abort();
    await outcomes;
    assert.equal(server.connections, 3);
  });

  test('makes requests on one connection to a server that allows no streams for now', async () => {
    const server = await scripted({ maxStreams: 0 });
    const { client } = clientOf(server);
    await assert.rejects(client.get(LEASES, 'x'), ConnectionError);
    assert.ok(server.connections <= 2, `${server.connections} connections`);
  });

  test('leaves no listener at the signal of a request that found no connection', async () => {
    const server = await scripted();
    const { signal } = new AbortController();
    const { client } = clientOf(server);
    await server.stop();
    await assert.rejects(client.get(LEASES, 'x', { signal }), ConnectionError);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  test('ends a connection that is still being made', async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket.resume()));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    cleanup.push(() => void silent.close());
    const server = await scripted();
    const access = server.access({ port: (silent.address() as AddressInfo).port });
    const connection = new Connection({ access, clock: fastClock(0.01), random: () => 0, userAgent: 'test' });
    const request = new KubernetesClient(connection).get(LEASES, 'x');
    await waitUntil(() => sockets.length === 1);
    const ended = assert.rejects(request, ConnectionError);
    connection.close();
    await waitUntil(() => sockets[0]?.closed === true);
    await ended;
  });

  test('connects again with a renewed client certificate once the server refuses the old one', async () => {
    const server = await scripted();
    const sessions = new Set<unknown>();
    let refusing = false;
    server.intercept = (_, stream) => {
      sessions.add(stream.session);
      if (refusing && sessions.size === 1) return server.fail(stream, 401, 'Unauthorized');
      return server.json(stream, { metadata: { name: 'x' } });
    };
    let certificate = server.clientCertificate();
    let rejections = 0;
    const access = {
      ...server.access(),
      tls: async () => ({ ca: server.ca, ...certificate }),
      rejected: () => void rejections++,
    };
    const connection = new Connection({ access, clock: fastClock(50), random: () => 0, userAgent: 'test' });
    cleanup.push(() => connection.close());
    const client = new KubernetesClient(connection);
    await client.get(LEASES, 'x');
    refusing = true;
    await assert.rejects(client.get(LEASES, 'x'), { status: 401 });
    await assert.rejects(client.get(LEASES, 'x'), { status: 401 });
    assert.deepEqual([sessions.size, rejections], [1, 2]);
    certificate = server.clientCertificate();
    let accepted = false;
    const step = async (): Promise<void> => {
      accepted = await client.get(LEASES, 'x').then(
        () => true,
        () => false,
      );
    };
    await waitUntil(() => accepted, { step });
    assert.equal(sessions.size, 2);
  });

  test('does not talk to a server whose certificate it cannot verify', async () => {
    const [server, other] = [await scripted(), await scripted()];
    const { client, events } = clientOf(server, 'secret', other.ca);
    await assert.rejects(client.get(LEASES, 'x'), ConnectionError);
    assert.equal(server.requests.length, 0);
    assert.match(events[0] ?? '', /certificate/);
  });

  test('says once that the server closes every connection before it answers', async () => {
    const server = await scripted();
    server.intercept = (_, stream) => {
      stream.session?.destroy();
      return true;
    };
    const { client, events } = clientOf(server);
    for (let attempt = 0; attempt < 4; attempt++) await assert.rejects(client.get(LEASES, 'x'), ConnectionError);
    assert.deepEqual(events, ['the server closed the connection']);
    server.intercept = (_, stream) => server.json(stream, { metadata: { name: 'x' } });
    await client.get(LEASES, 'x');
    assert.deepEqual(events.slice(1), ['reached']);
  });

  test('says once that the server cannot be reached, and once that it is again', async () => {
    const server = await scripted();
    server.intercept = (_, stream) => server.json(stream, { metadata: { name: 'x' } });
    const { client, events } = clientOf(server);
    await client.get(LEASES, 'x');
    await server.stop();
    for (let attempt = 0; attempt < 3; attempt++) await assert.rejects(client.get(LEASES, 'x'), ConnectionError);
    assert.equal(events.length, 1);
    assert.match(events[0] ?? '', /ECONNREFUSED/);
  });
});
