import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { createXdsServer } from './server.ts';
import { Content } from './testing.ts';
import { FakeEngine, quietObserver } from './testing-engine.ts';

test('a server closes the connections that it cannot take, says so, and takes others when some have ended', async (context) => {
  const refused: string[] = [];
  const server = createXdsServer({
    engine: new FakeEngine(new Content()),
    observer: { ...quietObserver, refused: (peer, error) => refused.push(`${peer} ${error.code}`) },
    listeners: [{ host: '127.0.0.1', port: 0 }],
    maxReceiveBytes: 1024,
    maxStreams: 10,
    maxConnections: 5,
    keepaliveIntervalMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
  });
  await server.start();
  const sockets: Socket[] = [];
  context.after(async () => {
    for (const socket of sockets) socket.destroy();
    await server.close({ drainMs: 0 });
  });
  /** What comes of a connection: the server's settings, or its end. */
  const dial = async (): Promise<'taken' | 'closed'> => {
    const socket = connect(server.ports()[0] ?? 0, '127.0.0.1');
    sockets.push(socket);
    const outcome = Promise.withResolvers<'taken' | 'closed'>();
    socket.once('data', () => outcome.resolve('taken'));
    socket.once('close', () => outcome.resolve('closed'));
    socket.on('error', () => {});
    return outcome.promise;
  };
  for (let index = 0; index < 4; index++) assert.equal(await dial(), 'taken');
  assert.equal(await dial(), 'closed');
  assert.equal(refused.length, 1);
  assert.match(refused[0] ?? '', /^127\.0\.0\.1:\d+ resource_exhausted$/);
  sockets[0]?.destroy();
  for (let round = 0; round < 500 && (await dial()) === 'closed'; round++);
  assert.equal(await dial(), 'closed');
});
