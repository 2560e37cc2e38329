/** What a stream sends to a proxy that neither answers nor requests clusters, as Envoy while one of them warms. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { ProxySession } from '../../push/types.ts';
import type { DeltaRequest } from '../protocol/requests.ts';
import { KnownExtensions } from '../request/known-extensions.ts';
import { Content, type DeltaFields, encodeDeltaRequest, encodeNode, SIDECAR_ID } from '../testing/content.ts';
import { FakeEngine, quietObserver } from '../testing/engine.ts';
import { DELTA, DELTA_REQUESTS } from '../testing/protocols.ts';
import { QUIET_TRANSPORT } from '../testing/transport.ts';
import { ResponseFrames } from './compression/stream-frames.ts';
import { Admission } from './limits/admission.ts';
import { CallerLimits } from './limits/caller-limits.ts';
import { AdsStream } from './stream.ts';

const node = encodeNode(SIDECAR_ID);
let content: Content;
let engine: FakeEngine;
let pushed: XdsType[];

beforeEach(() => {
  content = new Content();
  engine = new FakeEngine(content);
  pushed = [];
  content.set('cds', 'web', '1');
  content.set('rds', '80', '1');
  mock.timers.enable({ apis: ['setTimeout'] });
});

afterEach(() => mock.timers.reset());

function connect(onDemand: ProxySession['onDemand']): AdsStream<DeltaRequest> {
  const stream: AdsStream<DeltaRequest> = new AdsStream({
    caller: undefined,
    frames: new ResponseFrames().plain,
    callerKey: 'caller',
    limits: new CallerLimits(),
    observer: { ...quietObserver, pushed: ({ type }) => pushed.push(type) },
    clock: { wall: () => 0, monotonic: () => 0 },
    closed: () => {},
    transport: QUIET_TRANSPORT,
    protocol: DELTA,
    extensions: new KnownExtensions(true),
    engine: { connect: (proxy, sink) => ({ ...engine.connect(proxy, sink), onDemand }) },
    admission: new Admission().of('10.0.0.9', 'caller'),
  });
  return stream;
}

async function ask(stream: AdsStream<DeltaRequest>, type: XdsType, fields: Omit<DeltaFields, 'typeUrl'> = {}) {
  stream.receive(DELTA_REQUESTS.decode(encodeDeltaRequest({ typeUrl: XDS[type].url, node, ...fields })));
  await settled();
}

async function settled(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
}

/** What was pushed since the last call. */
const news = () => pushed.splice(0);

/** Longer than a stream waits for a proxy. */
async function later(): Promise<void> {
  for (let half = 0; half < 2; half++) {
    mock.timers.tick(500);
    await settled();
  }
}

test('routes follow clusters without endpoints that a proxy does not answer', async () => {
  const stream = connect('on-demand');
  await ask(stream, 'cds');
  const nonce = stream.status()?.types.get('cds')?.nonceSent ?? '';
  await ask(stream, 'cds', { nonce });
  await ask(stream, 'rds', { subscribe: ['80'], initial: content.versions('rds') });
  content.set('cds', 'unresolved', '1');
  engine.publish();
  await settled();
  await later();
  assert.deepEqual(news(), ['cds', 'cds']);
  content.set('cds', 'resolved', '1');
  content.set('rds', '80', '2');
  engine.publish();
  await settled();
  assert.deepEqual(news(), ['cds', 'rds']);
});

test('a proxy that reconnects without its clusters gets them before routes, once it had time to request them', async () => {
  const initial = content.versions('rds');
  content.set('rds', '80', '2');
  const stream = connect('on-demand');
  await ask(stream, 'rds', { subscribe: ['80'], initial });
  assert.deepEqual(news(), []);
  await later();
  assert.deepEqual(news(), ['cds', 'rds']);
  // It answers those, and says what it has, when it can.
  const nonce = stream.status()?.types.get('cds')?.nonceSent ?? '';
  await ask(stream, 'cds', { nonce, initial: content.versions('cds') });
  const routes = stream.status()?.types.get('rds')?.nonceSent ?? '';
  await ask(stream, 'rds', { nonce: routes });
  assert.deepEqual([news(), engine.synced.length > 0], [[], true]);
});

test('a proxy that gets everything does not wait', async () => {
  const initial = content.versions('rds');
  content.set('rds', '80', '2');
  await ask(connect(undefined), 'rds', { subscribe: ['80'], initial });
  assert.deepEqual(news(), ['rds']);
});
