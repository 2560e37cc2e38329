import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CtlError } from '../../core/errors.ts';
import { prefixed, type SendResult } from '../../grpc/index.ts';
import { ReceiveMemoryQuota, type Reservation } from '../request/index.ts';
import { FakeCall } from '../testing/call.ts';
import { encodeSotwRequest } from '../testing/content.ts';
import { asError, SOTW_REQUESTS, watched } from '../testing/protocols.ts';
import { createTransport, type Transport } from './transport.ts';

const MAX_BYTES = 1024 * 1024;
const typeUrl = 'type.googleapis.com/x';
const names = Array.from({ length: 4000 }, (_, index) => `outbound|80||service-${index}.default.svc.cluster.local`);

let call: FakeCall;
let receiveMemoryQuota: ReceiveMemoryQuota;
let transport: Transport;
/** Names and nonce of each request, and lists that were recognized while it arrived. */
let got: (readonly [names: number, nonce: string, known: number])[];

function start(onMessage: () => void = () => {}): void {
  transport = createTransport(call, { maxReceiveBytes: MAX_BYTES, quota: receiveMemoryQuota.of('10.0.0.9') });
  let lists = 0;
  const format = watched(SOTW_REQUESTS, (_bytes, known) => (lists = known));
  transport.read(format, {
    message({ names, responseNonce }) {
      got.push([names.size, responseNonce, lists]);
      onMessage();
    },
    refused: (error) => transport.fail(asError(error)),
    ended: () => transport.end(),
  });
}

function request(nonce: string, wanted: readonly string[] = []): Buffer {
  return prefixed(encodeSotwRequest({ typeUrl, names: wanted, nonce }));
}

const nonces = () => got.map(([, nonce]) => nonce);

beforeEach(() => {
  call = new FakeCall();
  receiveMemoryQuota = new ReceiveMemoryQuota({ maxRequestBytes: MAX_BYTES });
  got = [];
});

describe('requests', () => {
  for (const size of [1, 7, 16_384, 10_000_000])
    it(`are delivered whole and in order from pieces of ${size} bytes, then the half-close`, () => {
      start();
      const bytes = Buffer.concat(['a', 'b', 'c'].map((nonce) => request(nonce, size === 1 ? [] : names)));
      for (let at = 0; at < bytes.length; at += size) call.feed(bytes.subarray(at, at + size));
      call.halfClose();
      assert.deepEqual(nonces(), ['a', 'b', 'c']);
      for (const [count] of got) assert.equal(count, size === 1 ? 0 : 4000);
      assert.deepEqual(call.done, ['open', 'end']);
    });

  it('are not assembled where their lists are known', () => {
    start();
    for (const nonce of ['a', 'b', 'c']) {
      const bytes = request(nonce, names);
      for (let at = 0; at < bytes.length; at += 16_384) call.feed(bytes.subarray(at, at + 16_384));
    }
    // The first list has to be learned, once for all tests here.
    assert.deepEqual(got.slice(1), [
      [4000, 'b', 1],
      [4000, 'c', 1],
    ]);
  });

  it('wait while reading is paused, and so does the half-close', () => {
    start(() => transport.pause());
    call.feed(Buffer.concat(['a', 'b', 'c'].map((nonce) => request(nonce))));
    call.feed(request('d'));
    call.halfClose();
    for (const expected of [['a'], ['a', 'b'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd']]) {
      assert.deepEqual(nonces(), expected);
      assert.deepEqual(call.done, ['open']);
      transport.resume();
    }
    assert.deepEqual(call.done, ['open', 'end']);
  });

  it('are assembled while reading is paused as long as little is kept of them; then the client waits', () => {
    start();
    for (let at = 0, bytes = request('a', names); at < bytes.length; at += 16_384)
      call.feed(bytes.subarray(at, at + 16_384));
    transport.pause();
    const known = request('b', names);
    for (let at = 0; at < known.length; at += 16_384) call.feed(known.subarray(at, at + 16_384));
    assert.equal(call.paused, false);
    const strange = prefixed(encodeSotwRequest({ typeUrl, nonce: 'c', node: Buffer.alloc(100_000) }));
    call.feed(strange.subarray(0, 60_000));
    assert.equal(call.paused, false);
    call.feed(strange.subarray(60_000, 70_000));
    assert.equal(call.paused, true);
    call.feed(strange.subarray(70_000));
    call.feed(request('d'));
    assert.deepEqual(nonces(), ['a']);
    transport.resume();
    assert.equal(call.paused, false);
    assert.deepEqual(
      got.map(([count, nonce]) => [count, nonce]),
      [
        [4000, 'a'],
        [4000, 'b'],
        [0, 'c'],
        [0, 'd'],
      ],
    );
  });

  describe('when the quota is used up', () => {
    /** Has a quota of 128 KiB, of which 60,000 bytes are reserved. */
    function useQuota(): Reservation {
      receiveMemoryQuota = new ReceiveMemoryQuota({ maxRequestBytes: 8192 });
      return receiveMemoryQuota.of('10.0.0.9').reserve(60_000, { granted: () => {}, timedOut: () => {} });
    }
    function feed(bytes: Buffer): void {
      for (let at = 0; at < bytes.length; at += 16_384) call.feed(bytes.subarray(at, at + 16_384));
    }
    const large = (nonce: string): Buffer =>
      prefixed(encodeSotwRequest({ typeUrl, nonce, node: Buffer.alloc(100_000) }));

    it('wait for the quota, and are then read', async () => {
      const other = useQuota();
      start();
      feed(large('a'));
      feed(request('b'));
      assert.deepEqual([call.paused, nonces()], [true, []]);
      other.end();
      await turn();
      assert.deepEqual([call.paused, nonces()], [false, ['a', 'b']]);
      // They have released their reservations.
      feed(large('c'));
      assert.deepEqual(nonces(), ['a', 'b', 'c']);
    });

    it('are read without waiting when they are small, or their lists are known', () => {
      start();
      feed(request('a', names));
      useQuota();
      start();
      feed(request('b', names));
      feed(prefixed(encodeSotwRequest({ typeUrl, nonce: 'c', node: Buffer.alloc(50_000) })));
      assert.deepEqual([call.paused, nonces()], [false, ['a', 'b', 'c']]);
    });

    it('wait when they have a list that is not known', () => {
      useQuota();
      start();
      feed(
        request(
          'a',
          names.map((name) => `new.${name}`),
        ),
      );
      assert.deepEqual([call.paused, nonces()], [true, []]);
    });

    it('are refused when a list differs after a large known part', () => {
      const many = Array.from({ length: 14_000 }, (_, index) => `outbound|80||service-${index}.many.svc.cluster.local`);
      start();
      for (const nonce of ['a', 'b']) feed(request(nonce, many));
      useQuota();
      call = new FakeCall();
      start();
      const changed = request('c', [...many.slice(0, -1), 'zzz', 'zzz']);
      feed(changed.subarray(0, -10));
      assert.deepEqual(call.done, ['open', 'end unavailable: too many large requests, try again later']);
    });

    it('release their quota when the call is over', async () => {
      start();
      receiveMemoryQuota = new ReceiveMemoryQuota({ maxRequestBytes: 8192 });
      start();
      feed(large('a').subarray(0, -1));
      const other = receiveMemoryQuota.of('10.0.0.9').reserve(60_000, { granted: () => {}, timedOut: () => {} });
      assert.equal(other.granted, false);
      call.close();
      await turn();
      assert.equal(other.granted, true);
    });

    it('are refused when they are incomplete for too long while others wait', () => {
      let timeOut: (() => void) | undefined;
      receiveMemoryQuota = new ReceiveMemoryQuota({
        maxRequestBytes: 8192,
        later: (_ms, run) => {
          timeOut = run;
          return () => {};
        },
      });
      start();
      feed(large('a').subarray(0, -1));
      receiveMemoryQuota.of('10.0.0.9').reserve(60_000, { granted: () => {}, timedOut: () => {} });
      timeOut?.();
      const message = 'the request was not completed in time, and other requests wait for its memory';
      assert.deepEqual(call.done, ['open', `end deadline_exceeded: ${message}`]);
    });
  });

  it('are read ahead by only a few bytes when the quota is used up', () => {
    const quota = receiveMemoryQuota.of('10.0.0.9');
    while (quota.reserveAhead() !== undefined);
    start();
    transport.pause();
    const one = prefixed(encodeSotwRequest({ typeUrl, nonce: 'a', node: Buffer.alloc(3000) }));
    call.feed(one);
    assert.equal(call.paused, false);
    call.feed(one);
    assert.equal(call.paused, true);
    transport.resume();
    assert.deepEqual([call.paused, nonces()], [false, ['a', 'a']]);
  });

  it('read at most one new list ahead, of which the rest waits', () => {
    start();
    transport.pause();
    const strange = (from: string): Buffer =>
      request(
        from,
        names.map((name) => `${from}.${name}`),
      );
    const bytes = strange('ahead-1');
    let fed = 0;
    for (; fed < bytes.length && !call.paused; fed += 16_384) call.feed(bytes.subarray(fed, fed + 16_384));
    assert.equal(fed, 5 * 16_384);
    call.feed(Buffer.concat([bytes.subarray(fed), strange('ahead-2')]));
    transport.resume();
    assert.deepEqual([call.paused, nonces()], [false, ['ahead-1', 'ahead-2']]);
  });

  it('end the call when they are larger than allowed', () => {
    start();
    call.feed(request('a'));
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(MAX_BYTES + 1, 1);
    call.feed(prefix);
    call.feed(request('b'));
    assert.deepEqual(nonces(), ['a']);
    const details = `received message larger than max (${MAX_BYTES + 1} vs ${MAX_BYTES})`;
    assert.deepEqual(call.done, ['open', `end resource_exhausted: ${details}`]);
  });

  it('are ignored when the call is over', () => {
    start();
    call.close();
    call.feed(request('a'));
    assert.deepEqual(got, []);
  });
});

describe('frames', () => {
  it('are written as their chunks, in one write', () => {
    start();
    const [a, b, c] = [Buffer.from('a'), Buffer.from('b'), Buffer.from('c')];
    const results: SendResult[] = [];
    transport.send([a, b, c], (result) => results.push(result));
    transport.send([a], (result) => results.push(result));
    assert.deepEqual(
      call.writes.map(({ chunks }) => chunks),
      [[a, b, c], [a]],
    );
    assert.equal(call.writes[0]?.chunks[0], a);
    call.writes[0]?.end('drained');
    call.writes[1]?.end('timeout');
    assert.deepEqual(results, ['drained', 'timeout']);
  });

  it('without bytes count as written at once', () => {
    start();
    const results: SendResult[] = [];
    transport.send([], (result) => results.push(result));
    assert.deepEqual([results, call.writes], [['drained'], []]);
  });

  it('of a call that is over are dropped', () => {
    start();
    call.close();
    const results: SendResult[] = [];
    transport.send([Buffer.alloc(5)], (result) => results.push(result));
    assert.deepEqual(results, ['closed']);
  });
});

it('the transport forwards its calls to the stream', () => {
  start();
  transport.retireConnection();
  transport.fail(new CtlError('unavailable', 'moved'));
  transport.abort();
  assert.equal(transport.peer, '10.0.0.9:1234');
  assert.deepEqual(call.done, ['open', 'retire', 'end unavailable: moved', 'abort']);
});
