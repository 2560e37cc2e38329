import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { deflatePart } from '../../grpc/index.ts';
import { fieldOf } from '../protocol/responses.ts';
import { parseDelta, parseSotw, resource } from '../testing/content.ts';
import { compressResponse, encodeResponse } from './encode-response.ts';

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

  it('are compressed with parts as they are, unless these are long: copying them costs more', async () => {
    const shared = Buffer.alloc(100_000, 'shared');
    const deflated = await deflatePart(shared);
    const compressed = (other: Uint8Array) => {
      const message = { typeUrl, version: '7', nonce: '7-1', removed: [], body: [other, shared] };
      const made = compressResponse(message, (part) => (part === shared ? deflated : undefined));
      const [head, ...rest] = encodeResponse(message);
      return { made, plain: Buffer.concat([head ?? assert.fail(), ...rest]) };
    };
    const { made, plain } = compressed(Buffer.alloc(60_000));
    assert.equal(made?.bytes, plain.length);
    assert.deepEqual(gunzipSync(Buffer.concat(made.chunks).subarray(5)), plain.subarray(5));
    assert.equal(compressed(Buffer.alloc(70_000)).made, undefined);
  });
});
