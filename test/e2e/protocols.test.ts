/**
 * Protocols that Envoy reads, with real Envoys over State of the World and Delta: commands of Redis are divided among
 * real Redis servers by their keys, and calls of Thrift go to the service's server one by one, within the limits of a
 * rate limit service. The Thrift server here reads the message header of Thrift's binary protocol, which is all that a
 * proxy reads. The MongoDB server here knows the first message of drivers alone.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js';
import { stringify } from 'yaml';
import { eventually, tempDir } from '../harness/index.ts';
import { endpoints, service } from './support/config.ts';
import { type MeshProxy, MODES, planMesh, sidecar, startMesh } from './support/mesh.ts';
import { redis, redisUnavailable, startRedis } from './support/redis.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { eventuallyAll } from './support/traffic.ts';

const REDIS_PORT = 6379;
const THRIFT_PORT = 9090;
const MONGO_PORT = 27017;
const LIMITS_PORT = 8088;
/** envoy/service/ratelimit/v3/rls.proto */
const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
/** `RateLimitResponse.overall_code` */
const [OK, OVER_LIMIT] = [1, 2];

const owner = suiteOwner();
const clients = lazy<readonly MeshProxy[]>();
const address = planMesh();
const SERVERS = [address(21), address(22)];

/** A message of Thrift's binary protocol in a frame: a call (1) or a reply (2) without arguments. */
function thriftMessage(method: string, type: 1 | 2, sequence: number): Buffer {
  const message = Buffer.alloc(4 + 4 + 4 + method.length + 4 + 1);
  message.writeUInt32BE(message.length - 4, 0);
  message.writeUInt32BE(0x8001_0000 + type, 4);
  message.writeUInt32BE(method.length, 8);
  message.write(method, 12, 'latin1');
  message.writeUInt32BE(sequence, 12 + method.length);
  return message;
}

/** Sends a call, and resolves with a reply of at least so many bytes: by default as many as the call has. */
function call(host: string, message: Buffer, port = THRIFT_PORT, expected = message.length): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port }, () => socket.write(message));
    let received = Buffer.alloc(0);
    socket.setTimeout(20_000, () => socket.destroy(new Error('no reply within 20 s')));
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < expected) return;
      resolve(received);
      socket.destroy();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed without a reply')));
  });
}

/** Replies to each call; returns the methods that were called. */
async function startThrift(at: string): Promise<readonly string[]> {
  const called: string[] = [];
  const answer = (socket: Socket): void => {
    let received = Buffer.alloc(0);
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readUInt32BE(0)) {
        const length = 4 + received.readUInt32BE(0);
        const end = 12 + received.readUInt32BE(8);
        const method = received.toString('latin1', 12, end);
        called.push(method);
        socket.write(thriftMessage(method, 2, received.readUInt32BE(end)));
        received = received.subarray(length);
      }
    });
  };
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(THRIFT_PORT, at, resolve));
  owner.after(() => void server.close());
  return called;
}

const thriftCalls = lazy<readonly string[]>();
/** The rate limit service: its answer, and the requests that it received. */
const limits = { code: OK, asked: [] as Buffer[] };

async function startLimits(at: string): Promise<void> {
  const server = new Server();
  const raw = (bytes: Buffer) => bytes;
  const method = { path: SHOULD_RATE_LIMIT, requestStream: false, responseStream: false } as const;
  const codec = { requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };
  server.addService(
    { ask: { ...method, ...codec } },
    {
      ask: ({ request }: { readonly request: Buffer }, respond: sendUnaryData<Buffer>) => {
        limits.asked.push(request);
        respond(null, Buffer.from([8, limits.code]));
      },
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`${at}:${LIMITS_PORT}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  owner.after(() => server.forceShutdown());
}

const bson = (...fields: readonly Buffer[]): Buffer => {
  const content = Buffer.concat([...fields, Buffer.from([0])]);
  const size = Buffer.alloc(4);
  size.writeInt32LE(content.length + 4);
  return Buffer.concat([size, content]);
};
/** A field with a 32-bit integer. */
const integer = (name: string, value: number): Buffer =>
  Buffer.concat([Buffer.from(`\x10${name}\0`, 'latin1'), Buffer.from([value, 0, 0, 0])]);

/** A message of MongoDB's wire protocol: an opcode, and what is behind the header. */
function mongoMessage(opcode: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const header = Buffer.alloc(16);
  header.writeInt32LE(16 + content.length, 0);
  header.writeInt32LE(7, 4);
  header.writeInt32LE(opcode, 12);
  return Buffer.concat([header, content]);
}

/** OP_QUERY `{isMaster: 1}`, as drivers begin; and OP_REPLY with the document `{ok: 1}`. */
const ASKED = mongoMessage(
  2004,
  Buffer.from('\0\0\0\0admin.$cmd\0\0\0\0\0\x01\0\0\0', 'latin1'),
  bson(integer('isMaster', 1)),
);
const REPLIED = mongoMessage(1, Buffer.alloc(16), Buffer.from([1, 0, 0, 0]), bson(integer('ok', 1)));

async function startMongo(at: string): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', () => socket.write(REPLIED));
  });
  await new Promise<void>((resolve) => server.listen(MONGO_PORT, at, resolve));
  owner.after(() => void server.close());
}

before(async () => {
  thriftCalls.set(await startThrift(address(23)));
  await Promise.all([startLimits(address(24)), startMongo(address(25))]);
  if (redisUnavailable === false) await Promise.all(SERVERS.map((at) => startRedis(owner, at, REDIS_PORT)));
  const egress = [
    { number: REDIS_PORT, protocol: 'REDIS', hosts: ['./cache.default.svc.cluster.local'] },
    { number: THRIFT_PORT, protocol: 'THRIFT', hosts: ['./calls.default.svc.cluster.local'] },
    { number: MONGO_PORT, protocol: 'MONGO', hosts: ['./documents.default.svc.cluster.local'] },
    { number: LIMITS_PORT, protocol: 'GRPC', hosts: ['./limits.default.svc.cluster.local'] },
  ];
  const planned = MODES.map((mode, index) => ({ name: `client-${mode}`, mode, address: address(10 + index) }));
  const [redisPorts, thriftPorts] = [[{ name: 'redis', port: REDIS_PORT }], [{ name: 'thrift', port: THRIFT_PORT }]];
  const [mongoPorts, limitPorts] = [[{ name: 'mongo', port: MONGO_PORT }], [{ name: 'grpc', port: LIMITS_PORT }]];
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const rateLimitUrl = `limits.default.svc.cluster.local:${LIMITS_PORT}`;
  // Long enough for a busy machine: calls without an answer in time are allowed.
  await writeFile(meshConfig, stringify({ thriftConfig: { rateLimitUrl, rateLimitTimeout: '5s' } }));
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    env: { CTL_ENABLE_KVSTORE_FILTER: 'true', CTL_ENABLE_THRIFT_FILTER: 'true' },
    files: {
      clients: planned.map((client) => sidecar(client.name, { address: client.address, egress })),
      cache: [service('cache', { ports: redisPorts }), endpoints('cache', SERVERS, redisPorts)],
      limits: [service('limits', { ports: limitPorts }), endpoints('limits', [address(24)], limitPorts)],
      documents: [service('documents', { ports: mongoPorts }), endpoints('documents', [address(25)], mongoPorts)],
      calls: [service('calls', { ports: thriftPorts }), endpoints('calls', [address(23)], thriftPorts)],
    },
  });
  clients.set(await Promise.all(planned.map((client) => mesh.startProxy(client))));
});

test('commands of Redis go to a server by their key, the same one from every proxy', {
  skip: redisUnavailable,
}, async () => {
  const keys = Array.from({ length: 40 }, (_, index) => `key-${index}`);
  const [first, second] = clients.get();
  assert.ok(first !== undefined && second !== undefined);
  await eventuallyAll(clients.get(), async (client) => {
    assert.equal(await redis(client.address, REDIS_PORT, 'SET ready 1', '\r\n'), '+OK\r\n');
  });
  for (const key of keys)
    assert.equal(await redis(first.address, REDIS_PORT, `SET ${key} of-${key}`, '\r\n'), '+OK\r\n');
  for (const key of keys) {
    const value = `of-${key}`;
    assert.equal(
      await redis(second.address, REDIS_PORT, `GET ${key}`, `${value}\r\n`),
      `$${value.length}\r\n${value}\r\n`,
    );
  }
  const sizes = await Promise.all(
    SERVERS.map(async (at) => Number((await redis(at, REDIS_PORT, 'DBSIZE', '\r\n')).slice(1))),
  );
  assert.equal(
    sizes.reduce((sum, size) => sum + size, 0),
    keys.length + 1,
  );
  assert.ok(
    sizes.every((size) => size > 0),
    `all keys on one server: ${sizes.join(', ')}`,
  );
});

test('each call of Thrift reaches the server, and Envoy counts it', async () => {
  for (const [index, client] of clients.get().entries()) {
    const method = `echo${index}`;
    await eventually(async () => {
      assert.deepEqual(await call(client.address, thriftMessage(method, 1, 7)), thriftMessage(method, 2, 7));
    });
    assert.ok(thriftCalls.get().includes(method));
    const counts = Object.values(await client.stats('thrift\\..*\\.request_call$'));
    assert.ok(
      counts.some((count) => count > 0),
      JSON.stringify(counts),
    );
  }
});

test('calls of Thrift over the limit are refused, and the service is told the host and the caller', async () => {
  for (const client of clients.get()) {
    limits.code = OK;
    limits.asked.length = 0;
    const called = thriftMessage('limited', 1, 8);
    await eventually(async () => {
      assert.deepEqual(await call(client.address, called), thriftMessage('limited', 2, 8));
      assert.ok(limits.asked.length > 0);
    });
    const [asked] = limits.asked;
    assert.match(String(asked), /calls\.default\.svc\.cluster\.local.*source_cluster/s);
    limits.code = OVER_LIMIT;
    const before = thriftCalls.get().length;
    // The type of the message is EXCEPTION.
    assert.equal((await call(client.address, called)).readUInt8(7), 3);
    assert.equal(thriftCalls.get().length, before);
  }
});

test('messages of MongoDB are forwarded, and Envoy counts them', async () => {
  for (const client of clients.get()) {
    await eventually(async () => {
      assert.deepEqual(await call(client.address, ASKED, MONGO_PORT, REPLIED.length), REPLIED);
    });
    const counts = await client.stats('mongo\\..*\\.(op_query|op_reply|decoding_error)$');
    const sum = (name: string): number =>
      Object.entries(counts).reduce((total, [key, count]) => total + (key.endsWith(name) ? count : 0), 0);
    assert.ok(sum('op_query') > 0 && sum('op_reply') > 0, JSON.stringify(counts));
    assert.equal(sum('decoding_error'), 0);
  }
});
