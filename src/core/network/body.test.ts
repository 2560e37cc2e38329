import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { readUpTo } from './body.ts';

test('a body of at most the limit is read whole', async () => {
  const body = Readable.from([Buffer.from('ab'), Buffer.from('cd')]);
  assert.equal((await readUpTo(4, body))?.toString(), 'abcd');
  assert.equal((await readUpTo(0, Readable.from([])))?.length, 0);
});

test('reading stops when a body exceeds the limit, and the stream is destroyed', async () => {
  let pulled = 0;
  async function* endless() {
    for (;;) {
      pulled++;
      yield Buffer.alloc(2);
    }
  }
  const body = Readable.from(endless(), { objectMode: true, highWaterMark: 1 });
  assert.equal(await readUpTo(3, body), undefined);
  assert.ok(body.destroyed);
  assert.ok(pulled <= 4, `${pulled} chunks`);
});
