import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { prefixed } from '../../grpc/index.ts';
import { FakeCall } from '../testing/call.ts';
import { oneRequest } from './one-request.ts';

const LIMITS = { maxBytes: 16, timeoutMs: 60_000 };

let call: FakeCall;

beforeEach(() => {
  call = new FakeCall();
});

describe('the request of a call that is answered by a stream', () => {
  it('is complete when the client half-closes', async () => {
    const request = oneRequest(call, LIMITS);
    const bytes = prefixed(Buffer.from('hello'));
    call.feed(bytes.subarray(0, 3));
    call.feed(bytes.subarray(3));
    assert.equal(await Promise.race([request, Promise.resolve('waiting')]), 'waiting');
    call.halfClose();
    assert.equal(String(await request), 'hello');
  });

  const WRONG: Readonly<Record<string, { readonly send: (to: FakeCall) => void; readonly code: string }>> = {
    'it is missing': { send: (to) => to.halfClose(), code: 'invalid_argument' },
    'another one follows it': {
      send: (to) => to.feed(Buffer.concat([prefixed(Buffer.from('a')), prefixed(Buffer.from('b'))])),
      code: 'invalid_argument',
    },
    'it announces more than the limit': {
      send: (to) => to.feed(Buffer.from([0, 0, 0, 0, 17])),
      code: 'resource_exhausted',
    },
    'the client is gone': { send: (to) => to.close(), code: 'unavailable' },
  };
  for (const [which, { send, code }] of Object.entries(WRONG))
    it(`is refused when ${which}`, async () => {
      const request = oneRequest(call, LIMITS);
      send(call);
      await assert.rejects(request, { code });
    });

  it('is refused when it takes too long', async () => {
    const request = oneRequest(call, { ...LIMITS, timeoutMs: 1 });
    call.feed(prefixed(Buffer.from('a')));
    // The timer of the request does not keep the process alive.
    const alive = setInterval(() => {}, 1000);
    await assert.rejects(request, { code: 'deadline_exceeded' });
    clearInterval(alive);
  });
});
