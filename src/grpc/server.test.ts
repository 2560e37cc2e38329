import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Client, credentials, Metadata, status } from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
import { createGrpcServer, prefixed } from './index.ts';
import { RawClient, request } from './testing/raw-client.ts';
import { SILENT, startServer } from './testing/server.ts';
import type { GrpcServerOptions, GrpcService } from './types.ts';

const asIs = (bytes: Buffer): Buffer => bytes;

const OPTIONS: Omit<GrpcServerOptions, 'services'> = {
  listeners: [{ host: '127.0.0.1', port: 0 }],
  observer: { refused: () => {}, endedEarly: () => {}, requestTooLarge: () => {}, internalError: assert.ifError },
  maxStreams: 100,
  maxConnections: 100,
  keepaliveIntervalMs: 10_000,
  keepaliveTimeoutMs: 10_000,
  idleMs: 60_000,
  sendTimeoutMs: 5000,
  requestTimeoutMs: 5000,
  maxIncomplete: 10,
};

async function connected(t: TestContext, service: GrpcService): Promise<Client> {
  const server = createGrpcServer({ ...OPTIONS, services: [service] });
  await server.start();
  t.after(() => server.destroy());
  const client = new Client(`127.0.0.1:${server.ports()[0]}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
  });
  t.after(() => client.close());
  return client;
}

function call(client: Client, path: string, request: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, asIs, asIs, request, new Metadata(), (error, answer) =>
      error === null && answer !== undefined ? resolve(answer) : reject(error),
    );
  });
}

test('a unary method returns a response or an error', async (t) => {
  const client = await connected(t, {
    unary: {
      '/a.B/Echo': { maxReceiveBytes: 1000, handler: async ({ request }) => Buffer.concat([request, request]) },
      '/a.B/Fail': {
        maxReceiveBytes: 1000,
        handler: () => Promise.reject(new CtlError('not_found', 'né 100 % gone')),
      },
    },
  });
  assert.deepEqual(await call(client, '/a.B/Echo', Buffer.from('ab')), Buffer.from('abab'));
  assert.deepEqual(await call(client, '/a.B/Echo', Buffer.alloc(0)), Buffer.alloc(0));
  await assert.rejects(call(client, '/a.B/Fail', Buffer.from('x')), {
    code: status.NOT_FOUND,
    details: 'né 100 % gone',
  });
  await assert.rejects(call(client, '/a.B/Echo', Buffer.alloc(1001)), { code: status.RESOURCE_EXHAUSTED });
  await assert.rejects(call(client, '/a.B/Other', Buffer.alloc(1)), { code: status.UNIMPLEMENTED });
});

test('a stream receives and sends messages of any size, in order', async (t) => {
  const sizes = [0, 1, 16_379, 16_384, 100_000, 3_000_000];
  const client = await connected(t, {
    streams: {
      '/a.B/Stream': (stream) => {
        stream.read({
          data: () => {},
          ended: () => {
            for (const size of sizes) {
              const body = Buffer.alloc(size, size % 251);
              const bytes = prefixed(body);
              stream.write([bytes.subarray(0, 7), bytes.subarray(7)], () => {});
            }
            stream.end();
          },
        });
      },
    },
  });
  const stream = client.makeBidiStreamRequest('/a.B/Stream', asIs, asIs, new Metadata());
  const got: number[] = [];
  stream.on('data', (bytes: Buffer) => {
    assert.ok(bytes.every((byte) => byte === bytes.length % 251));
    got.push(bytes.length);
  });
  stream.write(Buffer.alloc(1_000_000));
  stream.end();
  await new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject));
  assert.deepEqual(got, sizes);
});

test('connections that cannot be accepted are reported, and the others continue', async (t) => {
  let listening: Server | undefined;
  const seen = (message: unknown): void => {
    listening ??= (message as { readonly server: Server }).server;
  };
  subscribe('tracing:net.server.listen:asyncStart', seen);
  t.after(() => unsubscribe('tracing:net.server.listen:asyncStart', seen));
  const { server, port, faults } = await startServer();
  t.after(() => server.destroy());
  const errors = [1, 2, 3].map(() => new Error('accept EMFILE'));
  for (const error of errors) listening?.emit('error', error);
  assert.deepEqual(faults, errors);
  const client = await RawClient.connect(port);
  await client.echo(1);
  client.close();
});

test('a bug in a close listener does not affect other calls of the connection', async (t) => {
  const { server, port, streams } = await startServer();
  t.after(() => server.destroy());
  const client = await RawClient.connect(port);
  client.headers(1, request(SILENT));
  await client.ping();
  streams[0]?.onClose(() => {
    throw new Error('a fault');
  });
  assert.throws(() => streams[0]?.end(), /a fault/);
  await client.echo(3);
  client.close();
});
