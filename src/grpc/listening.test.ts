import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { portOf } from '../core/network/listen.ts';
import { LISTENING_SOCKETS, listenTogether } from './listening.ts';

/** Connects so many times, reports when all connections exist, and ends on request. */
const CLIENTS = `
  const { connect } = require('node:net');
  const { parentPort, workerData: { port, count, done } } = require('node:worker_threads');
  let connected = 0;
  for (let i = 0; i < count; i++) {
    const socket = connect(port, '127.0.0.1', () => {
      if (++connected < count) return;
      Atomics.store(done, 0, 1);
      Atomics.notify(done, 0);
    });
    socket.on('error', () => {});
  }
`;

const CLIENT_COUNT = 400;

test('several of the connections that wait are accepted in each turn of the event loop', async (t) => {
  const turns = new Map<number, number>();
  let turn = 0;
  let accepted = 0;
  const { promise: all, resolve } = Promise.withResolvers<void>();
  const make = () =>
    createServer((socket) => {
      socket.on('error', () => {});
      turns.set(turn, (turns.get(turn) ?? 0) + 1);
      if (++accepted === CLIENT_COUNT) resolve();
    });
  const servers = await listenTogether(make, { host: '127.0.0.1', port: 0 });
  t.after(() => {
    for (const server of servers) server.close();
  });
  assert.equal(servers.length, LISTENING_SOCKETS);
  assert.equal(new Set(servers.map(portOf)).size, 1);
  const done = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { port: portOf(servers[0]), count: CLIENT_COUNT, done };
  const worker = new Worker(CLIENTS, { eval: true, workerData });
  t.after(() => worker.terminate());
  await once(worker, 'online');
  // The event loop stands still until all of them wait.
  Atomics.wait(done, 0, 0);
  const count = (): void => {
    turn++;
    if (accepted < CLIENT_COUNT) setImmediate(count);
  };
  count();
  await all;
  assert.ok(turns.size < CLIENT_COUNT / 2, `${CLIENT_COUNT} connections were accepted in ${turns.size} turns`);
});

test('an address that another server has is refused, also one that it shares between its sockets', async (t) => {
  const servers = await listenTogether(() => createServer(), { host: '127.0.0.1', port: 0 });
  const port = portOf(servers[0]);
  const made: ReturnType<typeof createServer>[] = [];
  const make = () => {
    const server = createServer();
    made.push(server);
    return server;
  };
  await assert.rejects(listenTogether(make, { host: '127.0.0.1', port }), { code: 'EADDRINUSE' });
  assert.ok(made.every(({ listening }) => !listening));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  const again = await listenTogether(make, { host: '127.0.0.1', port });
  t.after(() => {
    for (const server of again) server.close();
  });
  assert.equal(portOf(again[0]), port);
});
