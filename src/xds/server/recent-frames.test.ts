import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ResponseMessage } from '../protocol/responses.ts';
import { encodeResponse } from './encode-response.ts';
import { RecentFrames } from './recent-frames.ts';

const [FIRST, SECOND] = [Buffer.from('first'), Buffer.from('second')];
const MESSAGE: ResponseMessage = {
  typeUrl: 'type',
  version: '7',
  nonce: '7-1',
  removed: ['gone'],
  body: [FIRST, SECOND],
};

function bytes(chunks: readonly Uint8Array[]): Buffer {
  return Buffer.concat(chunks);
}

describe('recent frames', () => {
  it('are one chunk from the second equal message on, the same for all streams', () => {
    const recent = new RecentFrames();
    const equal = () => recent.encode({ ...MESSAGE, removed: ['gone'], body: [FIRST, SECOND] });
    assert.deepEqual(bytes(equal()), bytes(encodeResponse(MESSAGE)));
    const frame = equal();
    assert.equal(frame.length, 1);
    assert.deepEqual(bytes(frame), bytes(encodeResponse(MESSAGE)));
    assert.equal(equal(), frame);
  });

  it('are not those of a message that differs in anything', () => {
    const recent = new RecentFrames();
    recent.encode(MESSAGE);
    const others: Partial<ResponseMessage>[] = [
      { typeUrl: 'other' },
      { version: '8' },
      { nonce: '7-2' },
      { removed: [] },
      { removed: ['other'] },
      { body: [FIRST] },
      { body: [SECOND, FIRST] },
      { body: [FIRST, Buffer.from('other')] },
    ];
    for (const other of others) {
      const message = { ...MESSAGE, ...other };
      assert.deepEqual(bytes(recent.encode(message)), bytes(encodeResponse(message)), JSON.stringify(other));
    }
  });

  it('are few: the oldest is replaced', () => {
    const recent = new RecentFrames();
    const messages = Array.from({ length: 9 }, (_, index) => ({ ...MESSAGE, nonce: `${index}` }));
    const frames = messages.map((message) => recent.encode(message));
    const isKept = (message: ResponseMessage) => recent.encode(message).length === 1;
    assert.ok(frames.every((frame) => frame.length > 1));
    assert.ok(messages.slice(1).every(isKept));
    assert.equal(isKept({ ...MESSAGE, nonce: '0' }), false);
  });

  it('are encoded each time when remembering is switched off', () => {
    const recent = new RecentFrames(false);
    const frame = recent.encode(MESSAGE);
    assert.notEqual(recent.encode(MESSAGE), frame);
    assert.deepEqual(recent.encode(MESSAGE), frame);
  });

  it('are small: a larger one is written as its shared chunks', () => {
    const large = Buffer.alloc(2048);
    const [, ...body] = new RecentFrames().encode({ ...MESSAGE, body: [FIRST, large] });
    assert.deepEqual([body[0] === FIRST, body[1] === large], [true, true]);
  });
});
