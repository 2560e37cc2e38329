import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { crc32, gunzipSync } from 'node:zlib';
import * as fc from '../../core/testing/properties.ts';
import { factorOf, joinedChecksum } from './checksum.ts';
import { deflatePart, gzipMessage, type MessagePart } from './gzip-message.ts';

/** The content of a message, which must consist of one gzip member with nothing after it. */
function contentOf(chunks: readonly Uint8Array[]): Buffer {
  const message = Buffer.concat(chunks);
  assert.equal(message[0], 1);
  assert.equal(message.readUInt32BE(1), message.length - 5);
  const member = message.subarray(5);
  const content = gunzipSync(member);
  // The last bytes are those of the first member: a second one would have its own.
  assert.equal(member.readUInt32LE(member.length - 4), content.length);
  assert.equal(member.readUInt32LE(member.length - 8), crc32(content));
  return content;
}

describe('a compressed message', () => {
  it('has its parts in order, compressed or not', async () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.tuple(fc.string(), fc.nat(5000)).map(([text, times]) => Buffer.from(text.repeat(times % 500))),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(piece, fc.boolean()), { maxLength: 6 }), async (pieces) => {
        const parts = await Promise.all(
          pieces.map(([bytes, isCompressed]): MessagePart | Promise<MessagePart> =>
            isCompressed ? deflatePart(bytes) : bytes,
          ),
        );
        assert.deepEqual(contentOf(gzipMessage(parts)), Buffer.concat(pieces.map(([bytes]) => bytes)));
      }),
      { numRuns: 200 },
    );
  });

  it('has stored parts that are longer than a block', () => {
    for (const length of [65_535, 65_536, 200_000]) {
      const part = Buffer.alloc(length, 'configuration');
      assert.deepEqual(contentOf(gzipMessage([part])), part);
    }
  });

  it('has parts that do not get shorter, whatever their length', async () => {
    for (const length of [...Array.from({ length: 40 }, (_, index) => 1000 + index), 3 * 1024 * 1024]) {
      const part = randomBytes(length);
      assert.deepEqual(contentOf(gzipMessage([await deflatePart(part)])), part);
    }
  });

  it('is compressed in one piece: the main thread may be busy', async () => {
    const streams = new Set<number>();
    let returns = 0;
    const hook = createHook({
      init: (id, type) => type === 'ZLIB' && streams.add(id),
      before: (id) => streams.has(id) && returns++,
    }).enable();
    const part = Buffer.concat(
      Array.from({ length: 40 }, () => Buffer.concat([randomBytes(1000), Buffer.alloc(9000)])),
    );
    const { blocks } = await deflatePart(part);
    hook.disable();
    assert.ok(blocks.length > 2 * 16 * 1024);
    assert.ok(returns <= 2, `${returns} returns`);
  });

  it('shares the compressed part, and is as short as that', async () => {
    const shared = await deflatePart(Buffer.from('outbound|80||service.default.svc.cluster.local '.repeat(20_000)));
    const [one, other] = [Buffer.from('one'), Buffer.from('other')].map((head) => gzipMessage([head, shared]));
    for (const chunks of [one, other]) assert.equal(chunks?.filter((chunk) => chunk === shared.blocks).length, 1);
    assert.ok(Buffer.concat(one ?? []).length < shared.blocks.length + 100);
    assert.ok(shared.blocks.length < 10_000);
  });
});

it('a checksum of two pieces follows from theirs', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), fc.uint8Array({ maxLength: 3000 }), (first, second) => {
      const joined = joinedChecksum(crc32(first), crc32(second), factorOf(second.length));
      assert.equal(joined, crc32(Buffer.concat([first, second])));
    }),
  );
});
