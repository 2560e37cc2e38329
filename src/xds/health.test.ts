/** The health service over a socket. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { encodeHealthRequest } from './health.ts';
import { createXdsServer, type XdsServer } from './server.ts';
import { ADS_SERVICE, HEALTH_PATHS } from './services.ts';
import { Content } from './testing.ts';
import { FakeEngine, quietObserver } from './testing-engine.ts';
import { asIs } from './testing-peer.ts';

let server: XdsServer;
let client: Client;

beforeEach(async () => {
  server = createXdsServer({
    engine: new FakeEngine(new Content()),
    observer: quietObserver,
    listeners: [{ host: '127.0.0.1', port: 0 }],
    maxReceiveBytes: 1024,
    maxStreams: 100,
    keepaliveIntervalMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
  });
  await server.start();
  client = new Client(`127.0.0.1:${server.ports()[0]}`, credentials.createInsecure());
});

afterEach(async () => {
  client.close();
  await server.close({ drainMs: 0 });
});

describe('health service', { timeout: 20_000 }, () => {
  function check(service: string): Promise<number> {
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(HEALTH_PATHS.check, asIs, asIs, encodeHealthRequest(service), (error, reply) =>
        error === null ? resolve(reply?.[1] ?? 0) : reject(error),
      );
    });
  }

  it('says whether the server serves', async () => {
    assert.equal(await check(''), 2);
    server.setServing(true);
    assert.equal(await check(''), 1);
    assert.equal(await check(ADS_SERVICE), 1);
    await assert.rejects(check('other'), { code: status.NOT_FOUND });
  });

  it('tells watchers of changes', async () => {
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

  it('tells watchers of a service that is not here so, and who asks for nothing readable that', async () => {
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
