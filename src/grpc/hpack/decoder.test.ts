import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { HpackDecoder } from './decoder.ts';
import { encodeHeaders } from './encoder.ts';
import { HeaderListTooLarge, HpackError } from './errors.ts';

const decoder = ({ maxTableBytes = 4096, maxListBytes = 65_536 } = {}): HpackDecoder =>
  new HpackDecoder({ maxTableBytes, maxListBytes });

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');

/** Fields as lines, for readable examples. */
const lines = (by: HpackDecoder, block: Buffer): string[] =>
  by.decode(block).map(({ name, value }) => `${name}: ${value}`);

test('RFC 7541, C.2: the forms of a field', () => {
  const examples = [
    ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'custom-key: custom-header'],
    ['040c 2f73 616d 706c 652f 7061 7468', ':path: /sample/path'],
    ['1008 7061 7373 776f 7264 0673 6563 7265 74', 'password: secret'],
    ['82', ':method: GET'],
  ];
  for (const [block, field] of examples) assert.deepEqual(lines(decoder(), hex(block ?? '')), [field]);
});

const REQUESTS = [
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com'],
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com', 'cache-control: no-cache'],
  [':method: GET', ':scheme: https', ':path: /index.html', ':authority: www.example.com', 'custom-key: custom-value'],
];

test('RFC 7541, C.3: requests of one connection without Huffman code', () => {
  const by = decoder();
  const blocks = [
    '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '8286 84be 5808 6e6f 2d63 6163 6865',
    '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
  ];
  assert.deepEqual(
    blocks.map((block) => lines(by, hex(block))),
    REQUESTS,
  );
});

test('RFC 7541, C.4: requests of one connection with Huffman code', () => {
  const by = decoder();
  const blocks = [
    '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
    '8286 84be 5886 a8eb 1064 9cbf',
    '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
  ];
  assert.deepEqual(
    blocks.map((block) => lines(by, hex(block))),
    REQUESTS,
  );
});

const COOKIE = 'set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1';
const RESPONSES = [
  [
    ':status: 302',
    'cache-control: private',
    'date: Mon, 21 Oct 2013 20:13:21 GMT',
    'location: https://www.example.com',
  ],
  [
    ':status: 307',
    'cache-control: private',
    'date: Mon, 21 Oct 2013 20:13:21 GMT',
    'location: https://www.example.com',
  ],
  [
    ':status: 200',
    'cache-control: private',
    'date: Mon, 21 Oct 2013 20:13:22 GMT',
    'location: https://www.example.com',
    'content-encoding: gzip',
    COOKIE,
  ],
];

test('RFC 7541, C.5: responses that overflow a table of 256 bytes', () => {
  const by = decoder({ maxTableBytes: 256 });
  const blocks = [
    `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 54
     6e17 6874 7470 733a 2f2f 7777 772e 6578 616d 706c 652e 636f 6d`,
    '4803 3330 37c1 c0bf',
    `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d
     4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572
     7369 6f6e 3d31`,
  ];
  assert.deepEqual(
    blocks.map((block) => lines(by, hex(block.replaceAll('\n', '')))),
    RESPONSES,
  );
});

test('RFC 7541, C.6: the same responses with Huffman code', () => {
  const by = decoder({ maxTableBytes: 256 });
  const blocks = [
    `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b
     97c8 e9ae 82ae 43d3`,
    '4883 640e ffc1 c0bf',
    `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf
     cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
  ];
  assert.deepEqual(
    blocks.map((block) => lines(by, hex(block.replaceAll('\n', '')))),
    RESPONSES,
  );
});

test('malformed blocks are distinguished from valid ones', () => {
  const malformed: Record<string, string> = {
    'index 0': '80',
    'an index beyond the static table while the dynamic one is empty': 'be',
    'a name by an index that nothing has': '7f00 0161',
    'nothing after the form': '00',
    'a string that is cut off': '0003 6162',
    'no value': '0001 61',
    'an integer that is cut off': 'ff',
    'an integer without end': 'ff80 8080 8080 8080 8001',
    'an integer beyond 32 bits': '7fff ffff ff0f',
    'a table larger than allowed': '3fe2 1f',
    'a table that changes its size after a field': '82 3f e1 1f',
    'EOS in a Huffman-coded string': '0001 6185 ffff ffff ff',
    'padding of a whole byte': '0001 6182 1fff',
    'padding with zeros': '0001 6181 18',
  };
  for (const [what, block] of Object.entries(malformed))
    assert.throws(() => decoder().decode(hex(block)), HpackError, what);
});

test('the table changes its size at the beginning of a block, several times too, and evicts fields', () => {
  const by = decoder();
  assert.deepEqual(lines(by, hex('4001 6101 62')), ['a: b']);
  assert.deepEqual(lines(by, hex('3fe1 1f be')), ['a: b']);
  assert.deepEqual(lines(by, hex('20 3fe1 1f 82')), [':method: GET']);
  assert.throws(() => by.decode(hex('be')), HpackError);
});

test('a field larger than the table empties it', () => {
  const by = decoder({ maxTableBytes: 64 });
  by.decode(hex('4001 6101 62'));
  const large = Buffer.concat([hex('4001 6120'), Buffer.alloc(32, 'x')]);
  assert.deepEqual(lines(by, large), [`a: ${'x'.repeat(32)}`]);
  assert.throws(() => by.decode(hex('be')), HpackError);
});

test('the oldest fields are evicted for new ones', () => {
  const by = decoder({ maxTableBytes: 70 });
  by.decode(hex('4001 6101 31 4001 6201 32 4001 6301 33'));
  assert.deepEqual(lines(by, hex('be bf')), ['c: 3', 'b: 2']);
  assert.throws(() => by.decode(hex('c0')), HpackError);
});

test('a list that is too large is an error of its own, and the table stays valid', () => {
  const by = decoder({ maxListBytes: 100 });
  const block = hex('4001 6101 62'.repeat(3));
  assert.throws(() => by.decode(block), HeaderListTooLarge);
  assert.deepEqual(lines(by, hex('be c0')), ['a: b', 'a: b']);
});

test('a list of exactly the limit is accepted', () => {
  const block = encodeHeaders([{ name: 'a', value: 'b'.repeat(67) }]);
  assert.equal(decoder({ maxListBytes: 100 }).decode(block).length, 1);
  assert.throws(() => decoder({ maxListBytes: 99 }).decode(block), HeaderListTooLarge);
});

test('a list that is too large and malformed is malformed', () => {
  const block = hex(`${'82'.repeat(100)} 80`);
  assert.throws(() => decoder({ maxListBytes: 100 }).decode(block), HpackError);
});

test('references to a large field count as much as the field', () => {
  const kept = Buffer.concat([hex('4001 617f a11e'), Buffer.alloc(4000, 'x')]);
  const bomb = Buffer.concat([kept, Buffer.alloc(60_000, 0xbe)]);
  assert.throws(() => decoder().decode(bomb), {
    name: 'HeaderListTooLarge',
    message: /a header list of 241984\d+ bytes/,
  });
});

const latin1 = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });

test('decoding reverses encoding', () => {
  const name = fc.oneof(latin1, fc.constantFrom(':status', ':path', 'content-type', 'grpc-status'));
  const value = fc.oneof(latin1, fc.constantFrom('200', '/', 'x'.repeat(127), 'x'.repeat(40_000)));
  const list = fc.array(fc.record({ name, value }, { noNullPrototype: true }));
  fc.assert(
    fc.property(list, (fields) =>
      assert.deepEqual(decoder({ maxListBytes: Number.POSITIVE_INFINITY }).decode(encodeHeaders(fields)), fields),
    ),
  );
});

test('a field in the static table is one byte', () => {
  assert.deepEqual(encodeHeaders([{ name: ':status', value: '200' }]), hex('88'));
  assert.deepEqual(encodeHeaders([{ name: ':status', value: '415' }]), hex('0803 3431 35'));
});

test('any bytes decode to a list or to an HPACK error', () => {
  const blocks = fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(blocks, (parts) => {
      const by = decoder({ maxListBytes: 1000 });
      for (const part of parts) {
        try {
          by.decode(Buffer.from(part));
        } catch (error) {
          assert.ok(error instanceof HpackError || error instanceof HeaderListTooLarge);
          if (error instanceof HpackError) return;
        }
      }
    }),
    { numRuns: 5000 },
  );
});

test('a valid block with a changed byte decodes to a list or to an HPACK error', () => {
  const block = hex(
    '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 8286 84be 5886 a8eb 1064 9cbf' +
      '4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
  );
  for (let at = 0; at < block.length; at++)
    for (let byte = 0; byte < 256; byte++) {
      const changed = Buffer.from(block);
      changed[at] = byte;
      try {
        decoder().decode(changed);
      } catch (error) {
        assert.ok(error instanceof HpackError);
      }
    }
});
