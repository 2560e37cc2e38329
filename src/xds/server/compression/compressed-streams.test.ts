/** Streams of clients that accept compressed responses, and of others, over gRPC. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Client, credentials } from '@grpc/grpc-js';
import { waitUntil } from '../../../core/testing/wait-until.ts';
import { XDS, type XdsType } from '../../../core/xds-types.ts';
import { FRAME } from '../../../grpc/frames/frames.ts';
import { message, RawClient, request } from '../../../grpc/testing/raw-client.ts';
import {
  Content,
  encodeDeltaRequest,
  encodeNode,
  encodeSotwRequest,
  type ParsedResponse,
  parseDelta,
  SIDECAR_ID,
} from '../../testing/content.ts';
import { FakeEngine, quietObserver } from '../../testing/engine.ts';
import { openPeer } from '../../testing/peer.ts';
import { portOf, testServer } from '../../testing/server.ts';
import type { PushedResponse } from '../observer.ts';
import { ADS_PATHS } from '../services.ts';

const NODE = encodeNode(SIDECAR_ID);
const NAMES = Array.from({ length: 300 }, (_, index) => `outbound|80||service-${index}.default.svc.cluster.local`);
/** Streams that share a body which is not compressed. */
const SEVERAL = 5;
const ACCEPTS = { 'grpc-accept-encoding': 'identity, deflate,gzip' };

async function serve(context: TestContext, compression: boolean) {
  const content = new Content();
  const pushed: PushedResponse[] = [];
  for (const type of ['cds', 'sds'] as const)
    content.setAll(
      type,
      [...NAMES, 'in-1'].map((name) => [name, 'text']),
    );
  const server = testServer({
    engine: new FakeEngine(content),
    observer: { ...quietObserver, pushed: (response) => pushed.push(response) },
    compression,
  });
  await server.start();
  context.after(() => server.close({ drainMs: 0 }));
  return { port: portOf(server), pushed };
}

function ask(mode: 'sotw' | 'delta', type: XdsType): Buffer {
  const fields = { typeUrl: XDS[type].url, node: NODE };
  const names = type === 'sds' ? NAMES : [];
  return mode === 'sotw'
    ? encodeSotwRequest({ ...fields, names })
    : encodeDeltaRequest({ ...fields, subscribe: names });
}

/** Streams of grpc-js, which accept gzip. */
function streams(context: TestContext, port: number, mode: 'sotw' | 'delta', type: XdsType) {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  context.after(() => client.close());
  /** The response to another stream. */
  return async (): Promise<ParsedResponse> => {
    const peer = openPeer(client, mode, ADS_PATHS);
    peer.send(ask(mode, type));
    const response = await peer.next();
    peer.call.cancel();
    return response;
  };
}

/** The headers of the response to a stream that is written by hand, and its first message. */
async function byHand(context: TestContext, port: number, headers: Readonly<Record<string, string>>) {
  const client = await RawClient.connect(port);
  context.after(() => client.close());
  client.headers(1, request(ADS_PATHS.delta, headers));
  client.frame(FRAME.data, 0, 1, message(ask('delta', 'cds')));
  const answer = await client.headersOf(1);
  const prefix = await client.dataBytes(1, 5);
  const length = prefix.readUInt32BE(1);
  const bytes = (await client.dataBytes(1, 5 + length)).subarray(5, 5 + length);
  return { encoding: answer['grpc-encoding'], flag: prefix[0], bytes };
}

for (const mode of ['sotw', 'delta'] as const)
  test(`clients that accept gzip receive the same, compressed from some stream on, over ${mode}`, async (context) => {
    const { port, pushed } = await serve(context, true);
    const next = streams(context, port, mode, 'cds');
    const first = await next();
    assert.equal(first.resources.length, NAMES.length + 1);
    await waitUntil(() => pushed.at(-1)?.compressed !== undefined, {
      step: async () => assert.deepEqual((await next()).resources, first.resources),
    });
    const [plain, { bytes, compressed = 0 } = assert.fail()] = [pushed[0], pushed.at(-1)];
    assert.deepEqual([plain?.bytes, plain?.compressed], [bytes, undefined]);
    assert.ok(compressed < bytes / 5, `${compressed} of ${bytes}`);
  });

test('a client that does not accept gzip receives responses as they are, beside others', async (context) => {
  const { port, pushed } = await serve(context, true);
  const next = streams(context, port, 'delta', 'cds');
  await waitUntil(() => pushed.at(-1)?.compressed !== undefined, { step: next });
  const compressed = await byHand(context, port, ACCEPTS);
  assert.deepEqual([compressed.encoding, compressed.flag], ['gzip', 1]);
  const { resources } = parseDelta(gunzipSync(compressed.bytes));
  assert.equal(resources.length, NAMES.length + 1);
  for (const headers of [{}, { 'grpc-accept-encoding': 'identity,gzip-2' }]) {
    const { encoding, flag, bytes } = await byHand(context, port, headers);
    assert.deepEqual([encoding, flag], [undefined, 0]);
    assert.deepEqual(parseDelta(bytes).resources, resources);
    assert.equal(pushed.at(-1)?.compressed, undefined);
  }
});

for (const [what, compression, type] of [
  ['secrets are not', true, 'sds'],
  ['nothing is', false, 'cds'],
] as const)
  test(`${what} compressed ${compression ? 'although it is on' : 'where it is off'}`, async (context) => {
    const { port, pushed } = await serve(context, compression);
    const next = streams(context, port, 'delta', type);
    for (let stream = 0; stream < SEVERAL; stream++) assert.ok((await next()).resources.length >= NAMES.length);
    assert.ok(pushed.every(({ bytes, compressed }) => bytes > 10_000 && compressed === undefined));
    assert.equal((await byHand(context, port, ACCEPTS)).encoding, compression ? 'gzip' : undefined);
  });
