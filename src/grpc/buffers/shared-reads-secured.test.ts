/** Encrypted sockets read into one buffer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { connect, createServer, type SecureVersion, type Server, TLSSocket } from 'node:tls';
import { DAY_MS, ecKey, makeCa, makeLeaf, pemOf } from '../../security/testing/credentials.ts';
import { readSharedSecured } from './shared-reads.ts';

const validity = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
const keys = ecKey('P-256');
const key = keys.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
const cert = pemOf(makeLeaf({ issuer: makeCa({ name: 'ca', ...validity }), keys, ...validity }));

interface Taken {
  readonly socket: TLSSocket;
  readonly pieces: Buffer[];
  /** The bytes of each read. */
  readonly memory: ArrayBufferLike[];
}

async function listen(onTaken: (taken: Taken) => void): Promise<{ server: Server; port: number }> {
  const server = createServer({ key, cert }, (accepted) => {
    const { socket, onBytes } = readSharedSecured(accepted);
    assert.equal(socket, accepted);
    assert.ok(onBytes !== undefined, 'the socket is as expected');
    const taken: Taken = { socket: accepted, pieces: [], memory: [] };
    onBytes((bytes) => {
      taken.pieces.push(Buffer.from(bytes));
      taken.memory.push(bytes.buffer);
      accepted.write(`${bytes.length};`);
    });
    onTaken(taken);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

/** Sends its first bytes in the packets that end its handshake, where the TLS version allows it. */
function client(port: number, first: string | Buffer, maxVersion: SecureVersion): TLSSocket {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, maxVersion });
  socket.on('error', () => {});
  socket.write(first);
  return socket;
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`encrypted sockets receive their own bytes through the shared buffer, and answer (${version})`, async () => {
    const all: Taken[] = [];
    const { server, port } = await listen((taken) => all.push(taken));
    const clients: TLSSocket[] = [];
    for (const name of ['a', 'b']) {
      const socket = client(port, `${name}0 `, version);
      assert.equal(String((await once(socket, 'data'))[0]), '3;');
      clients.push(socket);
    }
    for (const round of ['1 ', '2 ']) {
      for (const [index, socket] of clients.entries()) {
        const answer = once(socket, 'data');
        socket.write(`${'ab'[index]}${round}`);
        assert.equal(String((await answer)[0]), '3;');
      }
    }
    assert.deepEqual(
      all.map(({ pieces }) => String(Buffer.concat(pieces))),
      ['a0 a1 a2 ', 'b0 b1 b2 '],
    );
    assert.equal(new Set(all.flatMap(({ memory }) => memory)).size, 1);
    for (const socket of clients) socket.destroy();
    server.close();
    await once(server, 'close');
  });

  test(`much data arrives complete and in order from two concurrent clients (${version})`, async () => {
    const all: Taken[] = [];
    const { server, port } = await listen((taken) => all.push(taken));
    const sent = [1, 2].map((seed) => Buffer.from(Uint32Array.from({ length: 250_000 }, (_, n) => n * seed).buffer));
    await Promise.all(
      sent.map(async (bytes) => {
        const socket = client(port, bytes, version);
        socket.resume();
        socket.end();
        await once(socket, 'close');
      }),
    );
    const came = all.map(({ pieces }) => Buffer.concat(pieces));
    assert.equal(came.length, 2);
    for (const bytes of sent) assert.ok(came.some((other) => other.equals(bytes)));
    server.close();
    await once(server, 'close');
  });
}

for (const [who, end] of [
  ['the client half-closes it', (_ours: TLSSocket, theirs: TLSSocket) => void theirs.end()],
  ['the client is gone', (_ours: TLSSocket, theirs: TLSSocket) => void theirs.destroy()],
  ['the server ends it', (ours: TLSSocket) => void ours.end()],
  ['the server destroys it', (ours: TLSSocket) => void ours.destroy()],
] as const)
  test(`an encrypted socket closes, and the server does not wait for it: ${who}`, async () => {
    const taken: Taken[] = [];
    const { server, port } = await listen((one) => {
      one.socket.on('error', () => {});
      taken.push(one);
    });
    const theirs = client(port, 'hello', 'TLSv1.2');
    await once(theirs, 'data');
    const [ours] = taken;
    assert.ok(ours !== undefined);
    const closed = once(ours.socket, 'close');
    end(ours.socket, theirs);
    theirs.resume();
    await closed;
    server.close();
    await once(server, 'close');
    theirs.destroy();
  });

test('an encrypted socket with unexpected properties is read in the usual way', () => {
  const socket = new TLSSocket(undefined as never);
  Reflect.set(socket, '_handle', null);
  assert.deepEqual(readSharedSecured(socket), { socket });
  socket.destroy();
});
