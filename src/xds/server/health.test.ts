/** The health service over a socket. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Client, type ServiceError, status } from '@grpc/grpc-js';
import { FakeCall } from '../testing/call.ts';
import { Content } from '../testing/content.ts';
import { FakeEngine } from '../testing/engine.ts';
import { asIs } from '../testing/peer.ts';
import { clientOf, testServer } from '../testing/server.ts';
import { encodeHealthRequest, Health } from './health.ts';
import type { XdsServer } from './server.ts';
import { ADS_SERVICE, HEALTH_PATHS } from './services.ts';

let server: XdsServer;
let client: Client;

beforeEach(async () => {
  server = testServer({
    engine: new FakeEngine(new Content()),
    maxReceiveBytes: 1024,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
  });
  await server.start();
  client = clientOf(server);
});

afterEach(async () => {
  client.close();
  await server.close({ drainMs: 0 });
});

describe('health service', { timeout: 120_000 }, () => {
  function check(service: string): Promise<number> {
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(HEALTH_PATHS.check, asIs, asIs, encodeHealthRequest(service), (error, reply) =>
        error === null ? resolve(reply?.[1] ?? 0) : reject(error),
      );
    });
  }

  it('reports whether the server is serving', async () => {
    assert.equal(await check(''), 2);
    server.setServing(true);
    assert.equal(await check(''), 1);
    assert.equal(await check(ADS_SERVICE), 1);
    await assert.rejects(check('other'), { code: status.NOT_FOUND });
  });

  it('reports changes to watchers', async () => {
    const call = client.makeServerStreamRequest(HEALTH_PATHS.watch, asIs, asIs, encodeHealthRequest(''));
    const states: number[] = [];
    const arrived = new EventEmitter();
    call.on('data', (bytes: Buffer) => {
      states.push(bytes[1] ?? 0);
      arrived.emit('state');
    });
    call.on('error', () => {});
    await once(arrived, 'state');
    server.setServing(true);
    await once(arrived, 'state');
    await Promise.all([once(arrived, 'state'), server.close({ drainMs: 1000 })]);
    assert.deepEqual(states, [2, 1, 2]);
  });

  it('reports an unknown service to its watchers, and a request that cannot be read', async () => {
    const first = (request: Buffer): Promise<number | string> =>
      new Promise((resolve) => {
        const call = client.makeServerStreamRequest(HEALTH_PATHS.watch, asIs, asIs, request);
        call.once('data', (bytes: Buffer) => {
          resolve(bytes[1] ?? 0);
          call.cancel();
        });
        call.on('error', ({ code }: ServiceError) => resolve(status[code] ?? ''));
      });
    assert.equal(await first(encodeHealthRequest('other')), 3);
    assert.equal(await first(encodeHealthRequest(ADS_SERVICE)), 2);
    assert.equal(await first(Buffer.from([0xff])), 'INVALID_ARGUMENT');
  });
});

describe('health watches', () => {
  let health: Health;
  let refused: string[];

  beforeEach(() => {
    refused = [];
    health = new Health({
      services: [],
      requestTimeoutMs: 10_000,
      refused: (peer, { code }) => refused.push(`${peer} ${code}`),
    });
  });
  afterEach(() => health.close());

  /** Begins watches, each on a connection of its own unless one is given. */
  function watch(address: string, connection?: FakeCall['connection']): FakeCall {
    const call = new FakeCall(address);
    const handler = health.service().streams?.[HEALTH_PATHS.watch];
    assert.ok(handler !== undefined);
    handler(connection === undefined ? call : Object.assign(call, { connection }));
    return call;
  }
  const taken = (call: FakeCall): boolean => call.done.length === 0;

  it('are not all for one address, and a refused one is reported', () => {
    const greedy = Array.from({ length: 1000 }, () => watch('10.0.0.1'));
    assert.equal(greedy.filter(taken).length, 800);
    assert.match(greedy.at(-1)?.done[0] ?? '', /^end resource_exhausted/);
    assert.deepEqual([refused.length, refused[0]], [200, '10.0.0.1:1234 resource_exhausted']);
    assert.equal(taken(watch('10.0.0.2')), true);
    assert.equal(taken(watch('10.0.0.1')), false);
    for (const call of greedy.slice(0, 100)) call.close();
    assert.equal(taken(watch('10.0.0.1')), true);
  });

  it('are limited for each connection, and free for others of the same address', () => {
    const { connection } = new FakeCall('10.0.0.1');
    const calls = Array.from({ length: 17 }, () => watch('10.0.0.1', connection));
    assert.equal(calls.filter(taken).length, 16);
    assert.equal(taken(watch('10.0.0.1')), true);
    calls[0]?.close();
    assert.equal(taken(watch('10.0.0.1', connection)), true);
  });
});
