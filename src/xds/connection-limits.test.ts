import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { ConnectionLimits } from './connection-limits.ts';
import { createXdsServer } from './server.ts';
import { Content } from './testing.ts';
import { FakeEngine, quietObserver } from './testing-engine.ts';

function fill(limits: ConnectionLimits, addressOf: (index: number) => string): (() => void)[] {
  return Array.from({ length: 1000 }, (_, index) => limits.enter(addressOf(index))).filter(
    (leave) => leave !== undefined,
  );
}

test('one address gets most of the room, the next one still finds some, and all together get no more than there is', () => {
  const limits = new ConnectionLimits(100);
  const first = fill(limits, () => '10.0.0.1');
  assert.equal(first.length, 80);
  assert.equal(fill(limits, () => '10.0.0.2').length, 16);
  assert.equal(fill(limits, (index) => `10.1.${index >> 8}.${index & 255}`).length, 4);
  for (const leave of first) leave();
  assert.equal(fill(limits, () => '10.0.0.3').length, 64);
});

test('an address is the same however it is written, and a network of IPv6 counts as one', () => {
  const rows: readonly [one: string, other: string, same: boolean][] = [
    ['10.0.0.1', '::ffff:10.0.0.1', true],
    ['10.0.0.1', '10.0.0.2', false],
    ['fd00:1:2:3::1', 'fd00:1:2:3:4:5:6:7', true],
    ['fd00:1:2:3::1', 'fd00:1:2:4::1', false],
    ['fd00::1', 'fd00::ffff:1', true],
    ['::1', 'fd00::1', false],
  ];
  for (const [one, other, same] of rows) {
    const limits = new ConnectionLimits(10);
    assert.equal(fill(limits, () => one).length, 8);
    assert.equal(fill(limits, () => other).length, same ? 0 : 2, `${one} ${other}`);
  }
});

test('without a limit all are taken', () => {
  assert.equal(fill(new ConnectionLimits(Number.POSITIVE_INFINITY), () => '10.0.0.1').length, 1000);
});

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
