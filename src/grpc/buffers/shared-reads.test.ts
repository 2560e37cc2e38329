import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, Socket } from 'node:net';
import { test } from 'node:test';
import { readShared } from './shared-reads.ts';

interface Taken {
  readonly socket: Socket;
  readonly accepted: Socket;
  text: string;
  /** The bytes of each read. */
  readonly memory: ArrayBufferLike[];
}

async function listen(onTaken: (taken: Taken) => void): Promise<{ server: Server; port: number }> {
  const server = createServer({ pauseOnConnect: true }, (accepted) => {
    const { socket, onBytes } = readShared(accepted);
    const taken: Taken = { socket, accepted, text: '', memory: [] };
    assert.ok(onBytes !== undefined, 'the handle is as expected');
    onBytes((bytes) => {
      taken.text += bytes.toString();
      taken.memory.push(bytes.buffer);
      socket.write(`${bytes.length};`);
    });
    onTaken(taken);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

async function client(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

async function closed(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
}

test('sockets receive their own bytes through the shared buffer, and answer', async () => {
  const all: Taken[] = [];
  const { server, port } = await listen((taken) => all.push(taken));
  const clients = [await client(port), await client(port)];
  for (const round of [1, 2, 3]) {
    for (const [index, socket] of clients.entries()) {
      const answer = once(socket, 'data');
      socket.write(`${index}-${round} `);
      assert.equal(String((await answer)[0]), '4;');
    }
  }
  assert.deepEqual(all.map(({ text }) => text).toSorted(), ['0-1 0-2 0-3 ', '1-1 1-2 1-3 ']);
  assert.equal(new Set(all.flatMap(({ memory }) => memory)).size, 1);
  for (const socket of clients) socket.destroy();
  await closed(server);
});

for (const [who, end] of [
  ['the client half-closes it', (_ours: Socket, theirs: Socket) => void theirs.end()],
  ['the client resets', (_ours: Socket, theirs: Socket) => void theirs.resetAndDestroy()],
  ['the server ends it', (ours: Socket) => void ours.destroy()],
] as const) {
  test(`the accepted socket closes with its replacement, and the server does not wait for it: ${who}`, async () => {
    const taken: Taken[] = [];
    const { server, port } = await listen((one) => {
      one.socket.on('error', () => {});
      taken.push(one);
    });
    const theirs = await client(port);
    theirs.on('error', () => {});
    const answer = once(theirs, 'data');
    theirs.write('hello');
    await answer;
    const [ours] = taken;
    assert.ok(ours !== undefined);
    const accepted = once(ours.accepted, 'close');
    end(ours.socket, theirs);
    theirs.resume();
    await accepted;
    await closed(server);
    theirs.destroy();
  });
}

test('a socket with an unexpected handle is read in the usual way', async () => {
  const accepted = new Socket();
  Reflect.set(accepted, '_handle', { reading: false, readStart: () => 0, readStop: () => 0 });
  const { socket, onBytes } = readShared(accepted.pause());
  assert.equal(socket, accepted);
  assert.equal(onBytes, undefined);
  assert.equal(socket.isPaused(), false);
  Reflect.set(accepted, '_handle', null);
  accepted.destroy();
});
