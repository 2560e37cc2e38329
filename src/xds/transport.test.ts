/** Reading a call's requests, on the stream underneath grpc-js and the public way: both must hand on the same. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Client, type ClientDuplexStream, credentials, Server, ServerCredentials } from '@grpc/grpc-js';
import { statusOf } from '../core/grpc-status.ts';
import { decodeSotwRequest, SOTW_LISTS } from './codec.ts';
import type { KnownRun } from './message-assembly.ts';
import { ADS_METHODS } from './services.ts';
import { encodeSotwRequest } from './testing.ts';
import { type AdsCall, createTransport, type Transport } from './transport.ts';

const MAX_BYTES = 1024 * 1024;
const typeUrl = 'type.googleapis.com/x';

/** More than a few frames and more than the first window. */
const names = Array.from({ length: 4000 }, (_, index) => `outbound|80||service-${index}.default.svc.cluster.local`);

interface Got {
  readonly names: number;
  readonly nonce: string;
  /** Lists that were recognised while they arrived. */
  readonly known: number;
}

let server: Server;
let client: Client;
let call: ClientDuplexStream<Buffer, Buffer>;
let transport: Transport;
let got: Got[];
let events: string[];
let waiting: (() => void)[] = [];

/** Resolves when `done()` holds, looked at whenever something has come. */
async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise<void>((resolve) => waiting.push(resolve));
}

function tell(): void {
  for (const wake of waiting.splice(0)) wake();
}

interface Way {
  readonly direct: boolean;
  /** What is found when the call comes in. */
  readonly before?: (call: AdsCall) => void;
  readonly gzip?: boolean;
  /** Whether the public way is expected. */
  readonly copied: boolean;
}

const WAYS: Readonly<Record<string, Way>> = {
  'on the stream underneath': { direct: true, copied: false },
  'through grpc-js': { direct: false, copied: true },
  'where grpc-js is built differently': {
    direct: true,
    copied: true,
    before: (incoming) => void Reflect.set(Reflect.get(incoming, 'call'), 'isReadPending', undefined),
  },
  'when they are compressed': { direct: true, gzip: true, copied: true },
};

async function open({ direct, before, gzip }: Way, onMessage: () => void = () => {}): Promise<void> {
  server = new Server({ 'grpc.max_receive_message_length': MAX_BYTES });
  server.addService(ADS_METHODS, {
    StreamAggregatedResources: (incoming: AdsCall) => {
      before?.(incoming);
      incoming.once('cancelled', () => {
        events.push('cancelled');
        tell();
      });
      transport = createTransport(incoming, { sendTimeoutMs: 1000, maxReceiveBytes: MAX_BYTES, direct });
      transport.read(SOTW_LISTS, {
        message(bytes: Buffer, known: readonly KnownRun[]) {
          const request = decodeSotwRequest(bytes, known);
          got.push({ names: request.names.size, nonce: request.responseNonce, known: known.length });
          onMessage();
          tell();
        },
        refused: (error) => incoming.emit('error', statusOf(error)),
        ended() {
          events.push('ended');
          transport.end();
          tell();
        },
      });
    },
    DeltaAggregatedResources: () => assert.fail(),
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.default_compression_algorithm': gzip === true ? 2 : 0,
  });
  const { path, requestSerialize, responseDeserialize } = ADS_METHODS.StreamAggregatedResources;
  call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
  call.on('data', () => {});
  call.on('error', () => {});
  call.on('status', ({ code, details }) => {
    events.push(`status ${code} ${details}`);
    tell();
  });
}

beforeEach(() => {
  [got, events, waiting] = [[], [], []];
});

afterEach(async () => {
  call.cancel();
  // Or it would be taken for an event of the next test.
  await until(() => events.some((event) => event.startsWith('status')));
  client.close();
  server.forceShutdown();
});

for (const [title, way] of Object.entries(WAYS))
  describe(`requests read ${title}`, { timeout: 20_000 }, () => {
    it('come whole and in order; then the half-close', async () => {
      await open(way);
      for (const nonce of ['a', 'b', 'c']) call.write(encodeSotwRequest({ typeUrl, names, nonce }));
      call.end();
      await until(() => events.includes('ended') && events.includes('status 0 OK'));
      assert.deepEqual(
        got.map(({ names: count, nonce }) => [count, nonce]),
        ['a', 'b', 'c'].map((nonce) => [4000, nonce]),
      );
      // The first of all ways has to be learned.
      const recognised = got.slice(1).map(({ known }) => known);
      assert.deepEqual(recognised, way.copied ? [0, 0] : [1, 1]);
      assert.deepEqual(
        events.filter((event) => event !== 'cancelled'),
        ['ended', 'status 0 OK'],
      );
    });

    it('wait while reading is paused', async () => {
      await open(way, () => transport.pause());
      for (const nonce of ['a', 'b', 'c']) call.write(encodeSotwRequest({ typeUrl, nonce }));
      for (const nonce of ['a', 'b', 'c']) {
        await until(() => got.at(-1)?.nonce === nonce);
        // Anything that is there would come meanwhile.
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
        assert.equal(got.at(-1)?.nonce, nonce);
        transport.resume();
      }
    });

    it('end the call when they are larger than allowed', async () => {
      await open(way);
      call.write(encodeSotwRequest({ typeUrl, nonce: 'a' }));
      // Also compressed.
      call.write(
        Buffer.from(Array.from({ length: MAX_BYTES + 1 }, (_, index) => (Math.imul(index, 0x9e3779b1) >>> 13) & 0xff)),
      );
      await until(() => events.some((event) => event.startsWith('status')));
      assert.match(events.join(), /status 8 .*larger than/);
      assert.equal(got.length, 1);
    });

    it('are over when the client cancels', async () => {
      await open(way);
      call.write(encodeSotwRequest({ typeUrl, names, nonce: 'a' }));
      await until(() => got.length === 1);
      call.write(encodeSotwRequest({ typeUrl, names, nonce: 'b' }));
      call.cancel();
      await until(() => events.includes('cancelled'));
      assert.equal(await transport.send([[Buffer.alloc(5)]]), 'closed');
    });
  });
