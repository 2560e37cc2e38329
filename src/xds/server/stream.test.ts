import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import type { ProxyNode } from '../../core/proxy.ts';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { SendResult } from '../../grpc/index.ts';
import type { ProxySession, PushOutcome } from '../../push/types.ts';
import type { DeltaRequest } from '../protocol/requests.ts';
import { KnownExtensions } from '../request/known-extensions.ts';
import {
  Content,
  type DeltaFields,
  encodeDeltaRequest,
  encodeNode,
  encodeSotwRequest,
  SIDECAR_ID,
  type SotwFields,
} from '../testing/content.ts';
import { FakeEngine, quietObserver } from '../testing/engine.ts';
import { DELTA, DELTA_REQUESTS, SOTW, SOTW_REQUESTS } from '../testing/protocols.ts';
import { QUIET_TRANSPORT } from '../testing/transport.ts';
import { ResponseFrames } from './compression/stream-frames.ts';
import { Admission } from './limits/admission.ts';
import { CallerLimits } from './limits/caller-limits.ts';
import { NameQuota } from './limits/name-quota.ts';
import { UnsentBytes } from './limits/unsent-bytes.ts';
import { AdsStream } from './stream.ts';
import type { Transport } from './transport.ts';

const node = encodeNode(SIDECAR_ID);
const PENDING = { types: new Set<XdsType>(), version: 0, eventTime: 0, reasons: new Set<never>() };

const askDelta = (fields: DeltaFields) => DELTA_REQUESTS.decode(encodeDeltaRequest(fields));
const askSotw = (fields: SotwFields) => SOTW_REQUESTS.decode(encodeSotwRequest(fields));

let content: Content;
let seen: string[];
/** Sends that have not ended. */
let sends: { bytes: number; end: (result: SendResult) => void }[];
/** Called when the stream requests a push. */
let asked: () => void;

/** Sends end when the test ends them. */
function heldTransport(): Transport {
  return {
    ...QUIET_TRANSPORT,
    send: (chunks, end) => sends.push({ bytes: Buffer.concat(chunks).length, end }),
    fail: ({ code }) => seen.push(`failed ${code}`),
    abort: () => seen.push('aborted'),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

const common = {
  caller: undefined,
  frames: new ResponseFrames().plain,
  callerKey: 'caller',
  limits: new CallerLimits(),
  observer: {
    ...quietObserver,
    pushed: ({ type }: { type: XdsType }) => seen.push(`pushed ${type}`),
    writeTimeout: () => seen.push('timeout'),
  },
  clock: { wall: () => 0, monotonic: () => 0 },
  closed: () => seen.push('closed'),
};

/** A stream that has subscribed to clusters and is about to be sent them. */
async function deltaStream(transport = heldTransport(), limits = common.limits): Promise<AdsStream<DeltaRequest>> {
  const engine = new FakeEngine(content);
  const stream = new AdsStream({
    ...common,
    transport,
    limits,
    protocol: DELTA,
    extensions: new KnownExtensions(true),
    engine: { connect: (proxy) => sessionThatTells(engine.connect(proxy, { push: () => 'nothing' })) },
    admission: new Admission().of('10.0.0.9', 'caller'),
  });
  stream.receive(askDelta({ typeUrl: XDS.cds.url, node }));
  await turn();
  await turn();
  return stream;
}

/** A transport whose sends end at once. */
function takingTransport(): Transport {
  return { ...heldTransport(), send: (_frames, done) => done('drained') };
}

/** The session, with its requests for pushes reported. */
function sessionThatTells(session: ProxySession): ProxySession {
  return { ...session, request: () => asked() };
}

/** The outcome of a push so far. */
async function now(push: PushOutcome | Promise<PushOutcome>): Promise<PushOutcome | 'under way'> {
  await turn();
  return Promise.race([push, Promise.resolve('under way' as const)]);
}

beforeEach(() => {
  content = new Content();
  seen = [];
  sends = [];
  asked = () => {};
  content.set('cds', 'web', '1');
});

describe('a push of a stream', () => {
  it('that is small ends before its bytes have left, and is reported when they have', async () => {
    const stream = await deltaStream();
    assert.equal(await now(stream.push(PENDING)), 'sent');
    assert.deepEqual([sends.length, seen], [1, []]);
    sends[0]?.end('drained');
    await turn();
    assert.deepEqual(seen, ['pushed cds']);
  });

  it('is deferred while the one before has not left, and requested when it has', async () => {
    const stream = await deltaStream();
    await stream.push(PENDING);
    stream.receive(askDelta({ typeUrl: XDS.sds.url, subscribe: ['*'] }));
    content.set('sds', 'default', '1');
    await turn();
    assert.equal(stream.push(PENDING), 'deferred');
    let requests = 0;
    asked = () => requests++;
    assert.equal(stream.push(PENDING), 'deferred');
    assert.deepEqual([sends.length, requests], [1, 0]);
    sends[0]?.end('drained');
    await turn();
    assert.equal(requests, 1);
    assert.equal(stream.push(PENDING), 'sent');
    sends[1]?.end('drained');
    await turn();
    assert.deepEqual([requests, seen], [1, ['pushed cds', 'pushed sds']]);
  });

  it('whose bytes the socket takes at once ends at once, in either variant', async () => {
    const stream = await deltaStream(takingTransport());
    assert.equal(stream.push(PENDING), 'sent');
    assert.equal(stream.push(PENDING), 'deferred');
    assert.deepEqual(seen, ['pushed cds']);
  });

  it('that requests cause answers all of those that arrived together', async () => {
    const stream = await deltaStream();
    const pushes: (PushOutcome | Promise<PushOutcome>)[] = [];
    asked = () => pushes.push(stream.push(PENDING));
    content.set('eds', 'web', '1');
    for (const type of ['eds', 'sds'] as const)
      stream.receive(askDelta({ typeUrl: XDS[type].url, subscribe: ['web'] }));
    assert.equal(sends.length, 0);
    await turn();
    assert.deepEqual(await Promise.all(pushes), ['sent']);
    assert.equal(sends.length, 1);
    const { types } = stream.status() ?? {};
    for (const type of ['cds', 'eds'] as const) assert.notEqual(types?.get(type)?.nonceSent, '', type);
  });

  it('that is large ends when its bytes have left', async () => {
    content.set('cds', 'large', 'x'.repeat(3000));
    const stream = await deltaStream();
    const push = stream.push(PENDING);
    assert.notEqual(typeof push, 'string');
    sends[0]?.end('closed');
    assert.equal(await push, 'closed');
  });

  it('that is large ends before its bytes have left, when the client does not read them', async () => {
    content.set('cds', 'large', 'x'.repeat(3000));
    const stream = await deltaStream();
    const push = stream.push(PENDING);
    assert.notEqual(typeof push, 'string');
    assert.equal(await push, 'sent');
    assert.deepEqual(seen, []);
  });

  it('is deferred while the clients of its caller leave too much unread, and requested when they have read', async () => {
    const limits = new CallerLimits(new UnsentBytes({ capacityBytes: 1000 }));
    const streams = [await deltaStream(heldTransport(), limits), await deltaStream(heldTransport(), limits)];
    let requests = 0;
    asked = () => requests++;
    assert.equal(streams[0]?.push(PENDING), 'sent');
    assert.equal(streams[1]?.push(PENDING), 'deferred');
    await turn();
    assert.equal(requests, 0);
    sends[0]?.end('drained');
    await turn();
    assert.equal(requests, 1);
    assert.equal(streams[1]?.push(PENDING), 'sent');
  });

  it('of the state of the world variant ends at once when it is small', async () => {
    const engine = new FakeEngine(content);
    const stream = new AdsStream({
      ...common,
      transport: heldTransport(),
      protocol: SOTW,
      extensions: new KnownExtensions(true),
      engine: { connect: (proxy) => engine.connect(proxy, { push: () => Promise.resolve('nothing') }) },
      admission: new Admission().of('10.0.0.9', 'caller'),
    });
    stream.receive(askSotw({ typeUrl: XDS.cds.url, node }));
    await turn();
    await turn();
    const push = stream.push(PENDING);
    assert.equal(await now(push), 'sent');
  });

  it('whose bytes do not leave in time ends the stream, even after the push has ended', async () => {
    const stream = await deltaStream();
    await stream.push(PENDING);
    sends[0]?.end('timeout');
    await turn();
    assert.deepEqual(seen, ['timeout', 'aborted', 'closed']);
  });

  it('is written before the stream ends because its connection retires', async () => {
    const stream = await deltaStream();
    await stream.push(PENDING);
    const drained = stream.drain(new CtlError('unavailable', 'moved'));
    await turn();
    assert.deepEqual(seen, []);
    sends[0]?.end('drained');
    await drained;
    assert.deepEqual(seen, ['pushed cds', 'failed unavailable', 'closed']);
  });
});

describe('the node of a proxy', () => {
  it('has short endpoint names over state of the world, where it repeats them in every request, and one name table', async () => {
    const connected: unknown[] = [];
    const engine = new FakeEngine(content);
    const deps = {
      ...common,
      transport: heldTransport(),
      engine: {
        connect: (proxy: ProxyNode) => {
          connected.push([proxy.shortEndpointNames, proxy.mergesNames]);
          return engine.connect(proxy, { push: () => 'nothing' });
        },
      },
      admission: new Admission().of('10.0.0.9', 'caller'),
    };
    const node = encodeNode(SIDECAR_ID, { NAME_TABLE_PIECES: 'true' });
    const sotw = new AdsStream({ ...deps, protocol: SOTW, extensions: new KnownExtensions(true) });
    sotw.receive(askSotw({ typeUrl: XDS.cds.url, node }));
    const delta = new AdsStream({ ...deps, protocol: DELTA, extensions: new KnownExtensions(true) });
    delta.receive(askDelta({ typeUrl: XDS.cds.url, node }));
    // Streams are admitted one after the other.
    for (let turns = 0; turns < 2; turns++) await turn();
    assert.deepEqual(connected, [
      [true, undefined],
      [false, true],
    ]);
  });
});

describe('requests', () => {
  it('wait until what they subscribe to is generated, and later ones wait behind them', async () => {
    const engine = new FakeEngine(content);
    const first: (readonly XdsType[] | undefined)[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    let generated = false;
    const stream = new AdsStream({
      ...common,
      transport: takingTransport(),
      protocol: DELTA,
      extensions: new KnownExtensions(true),
      engine: {
        connect: (proxy, _sink, _caller, types) => {
          first.push(types);
          const session = engine.connect(proxy, { push: () => 'nothing' });
          return { ...session, need: (type) => (type === 'lds' && !generated ? promise : undefined) };
        },
      },
      admission: new Admission().of('10.0.0.9', 'caller'),
    });
    const state = (type: XdsType) => stream.status()?.types.get(type)?.subscribed;
    for (const type of ['cds', 'lds', 'rds'] as const)
      stream.receive(askDelta({ typeUrl: XDS[type].url, subscribe: ['*'], node }));
    await turn();
    await turn();
    assert.deepEqual(first, [['cds']]);
    assert.deepEqual([state('cds'), state('lds'), state('rds')], ['wildcard', 'none', 'none']);
    generated = true;
    resolve();
    await turn();
    assert.deepEqual([state('lds'), state('rds')], ['wildcard', 'wildcard']);
  });

  it('for more names than its caller may have end the stream, and what it held is free again', async () => {
    const names = new NameQuota(10, 0);
    const limits = new CallerLimits(new UnsentBytes(), names);
    const ask = (stream: AdsStream<DeltaRequest>, prefix: string, count: number): void =>
      stream.receive(
        askDelta({ typeUrl: XDS.eds.url, subscribe: Array.from({ length: count }, (_, index) => `${prefix}${index}`) }),
      );
    const [first, second] = [await deltaStream(heldTransport(), limits), await deltaStream(heldTransport(), limits)];
    ask(first, 'a', 4);
    ask(second, 'a', 4);
    assert.equal(names.names, 4);
    ask(second, 'b', 2);
    assert.deepEqual([seen, names.names], [['failed resource_exhausted', 'closed'], 4]);
    first.close();
    assert.equal(names.names, 0);
  });
});

describe('a rejected secret', () => {
  it('is reported without its content, which Envoy may quote', async () => {
    const engine = new FakeEngine(content);
    const messages: string[] = [];
    content.set('sds', 'kubernetes://c', '1');
    const stream = new AdsStream({
      ...common,
      observer: { ...quietObserver, rejected: ({ message }) => messages.push(message) },
      transport: { ...heldTransport(), send: (_frames, done) => done('drained') },
      protocol: DELTA,
      extensions: new KnownExtensions(true),
      engine: { connect: (proxy) => engine.connect(proxy, { push: () => Promise.resolve('nothing') }) },
      admission: new Admission().of('10.0.0.9', 'caller'),
    });
    stream.receive(askDelta({ typeUrl: XDS.sds.url, subscribe: ['kubernetes://c'], node }));
    await turn();
    await turn();
    await stream.push(PENDING);
    const quoted =
      'Proto constraint validation failed: name: "kubernetes://c"\n' +
      'tls_certificate {\n  private_key {\n    inline_bytes: "hidden"';
    const nonce = stream.status()?.types.get('sds')?.nonceSent ?? '';
    stream.receive(askDelta({ typeUrl: XDS.sds.url, nonce, error: quoted }));
    const expected = `${quoted.slice(0, quoted.indexOf('private_key'))}…`;
    assert.deepEqual(messages, [expected]);
    const { lastNack, quarantined } = stream.status()?.types.get('sds') ?? {};
    assert.equal(lastNack?.message, expected);
    assert.deepEqual([...(quarantined?.keys() ?? [])], ['kubernetes://c']);
  });
});

describe('rejected endpoints', () => {
  it('are reported with the cluster that refers to them by another name', async () => {
    const engine = new FakeEngine(content);
    const kept: (readonly string[])[] = [];
    const stream = new AdsStream({
      ...common,
      observer: { ...quietObserver, rejected: ({ named }) => kept.push(named) },
      transport: { ...heldTransport(), send: (_frames, done) => done('drained') },
      protocol: SOTW,
      extensions: new KnownExtensions(true),
      engine: { connect: (proxy) => engine.connect(proxy, { push: () => Promise.resolve('nothing') }) },
      admission: new Admission().of('10.0.0.9', 'caller'),
    });
    content.set('cds', 'outbound|80||web', '1', ['short']);
    content.set('cds', 'same', '1', ['same']);
    content.setAll('eds', [
      ['short', '1'],
      ['same', '1'],
      ['dangling', '1'],
    ]);
    const names = ['short', 'same', 'dangling'];
    stream.receive(askSotw({ typeUrl: XDS.eds.url, names, node }));
    await turn();
    await turn();
    await stream.push(PENDING);
    const nonce = stream.status()?.types.get('eds')?.nonceSent ?? '';
    const error = names.map((name) => `cluster_name: "${name}"`).join('\n');
    stream.receive(askSotw({ typeUrl: XDS.eds.url, names, nonce, error }));
    assert.deepEqual(
      kept.map((each) => [...each].sort()),
      [['dangling', 'same', 'short (outbound|80||web)']],
    );
  });
});
