import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fieldOf } from '../protocol/responses.ts';
import { parseDelta, parseSotw, resource } from '../testing/content.ts';
import { encodeResponse } from './encode-response.ts';

const typeUrl = 'type.googleapis.com/x';

describe('responses', () => {
  const one = resource('cds', 'one', 'text');

  it("frames the stream's own head and the shared body as one gRPC message", () => {
    const message = { typeUrl, version: '7', nonce: '7-1', removed: ['gone'], body: [fieldOf('delta')(one)] };
    const chunks = encodeResponse(message);
    assert.equal(chunks.at(-1), one.fragment);
    const bytes = Buffer.concat(chunks);
    assert.equal(bytes[0], 0);
    assert.equal(bytes.readUInt32BE(1), bytes.length - 5);
    assert.deepEqual(parseDelta(bytes.subarray(5)), {
      typeUrl,
      version: '7',
      nonce: '7-1',
      removed: ['gone'],
      resources: [{ name: 'one', version: 'v:text', text: 'text' }],
    });
  });

  it('takes the SotW field from the same bytes', () => {
    const bytes = Buffer.concat(
      encodeResponse({ typeUrl, version: 'h', nonce: 'n', removed: [], body: [fieldOf('sotw')(one)] }),
    );
    assert.deepEqual(
      parseSotw(bytes.subarray(5)).resources.map(({ name, text }) => [name, text]),
      [['one', 'text']],
    );
  });
});
