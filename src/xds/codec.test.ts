import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CtlError } from '../core/errors.ts';
import {
  decodeDeltaRequest,
  decodeSotwRequest,
  deltaField,
  encodeResponse,
  MAX_NACK_MESSAGE,
  sotwField,
} from './codec.ts';
import { changeNames, NO_NAMES, nameSetOf, namesOutside } from './name-set.ts';
import { MAX_NAME_BYTES } from './request-lists.ts';
import { encodeDeltaRequest, encodeSotwRequest, parseDelta, parseSotw, resource } from './testing.ts';

const typeUrl = 'type.googleapis.com/x';

describe('requests', () => {
  it('decodes a DiscoveryRequest', () => {
    const bytes = encodeSotwRequest({ typeUrl, names: ['a', 'ü'], version: 'v', nonce: 'n', error: 'why' });
    const { node, names, ...rest } = decodeSotwRequest(bytes);
    assert.equal(node, undefined);
    assert.equal(names, nameSetOf(['a', 'ü']));
    assert.deepEqual(rest, { typeUrl, versionInfo: 'v', responseNonce: 'n', nack: 'why' });
  });

  it('decodes a DeltaDiscoveryRequest', () => {
    const initial = new Map([['a', '1']]);
    const bytes = encodeDeltaRequest({ typeUrl, subscribe: ['a'], unsubscribe: ['b'], initial, nonce: 'n' });
    const { node, subscribe, unsubscribe, initialVersions, ...rest } = decodeDeltaRequest(bytes);
    assert.equal(node, undefined);
    assert.equal(subscribe, nameSetOf(['a']));
    assert.equal(unsubscribe, nameSetOf(['b']));
    assert.equal(initialVersions.size, 1);
    assert.equal(initialVersions.get('a'), '1');
    assert.deepEqual(rest, { typeUrl, responseNonce: 'n', nack: undefined });
  });

  it('keeps nothing of the bytes', () => {
    const node = Buffer.from('an encoded node');
    for (const [decode, bytes] of [
      [decodeSotwRequest, encodeSotwRequest({ typeUrl, node })],
      [decodeDeltaRequest, encodeDeltaRequest({ typeUrl, node })],
    ] as const) {
      const request = decode(bytes);
      bytes.fill(0);
      assert.deepEqual(request.node, node);
    }
  });

  it('shortens what an Envoy says, and refuses names that cannot be names', () => {
    const long = decodeSotwRequest(encodeSotwRequest({ typeUrl, error: 'x'.repeat(100_000) }));
    assert.equal(long.nack?.length, MAX_NACK_MESSAGE);
    const name = 'n'.repeat(MAX_NAME_BYTES + 1);
    for (const decode of [
      () => decodeSotwRequest(encodeSotwRequest({ typeUrl, names: [name] })),
      () => decodeDeltaRequest(encodeDeltaRequest({ typeUrl, subscribe: [name] })),
      () => decodeDeltaRequest(encodeDeltaRequest({ typeUrl, initial: new Map([[name, '']]) })),
    ])
      assert.throws(decode, /a resource name may have at most/);
  });

  it('answers any bytes with a request or with CtlError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        for (const decode of [decodeSotwRequest, decodeDeltaRequest])
          try {
            decode(Buffer.from(bytes));
          } catch (error) {
            assert.ok(error instanceof CtlError && error.code === 'invalid_argument', String(error));
          }
      }),
    );
  });
});

describe('responses', () => {
  const one = resource('cds', 'one', 'text');

  it('frames own head and shared body as one gRPC message', () => {
    const message = { typeUrl, version: '7', nonce: '7-1', removed: ['gone'], body: [deltaField(one)] };
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

  it('takes the SotW field out of the same bytes', () => {
    const bytes = Buffer.concat(
      encodeResponse({ typeUrl, version: 'h', nonce: 'n', removed: [], body: [sotwField(one)] }),
    );
    assert.deepEqual(
      parseSotw(bytes.subarray(5)).resources.map(({ name, text }) => [name, text]),
      [['one', 'text']],
    );
  });
});

describe('name sets', () => {
  it('are one object for equal names, however they came about', () => {
    const set = nameSetOf(['a', 'b', 'c', 'b']);
    assert.equal(nameSetOf(['c', 'a', 'b']), set);
    assert.equal(changeNames(nameSetOf(['a', 'x']), nameSetOf(['b', 'c']), nameSetOf(['x'])), set);
    assert.equal(changeNames(set, nameSetOf(['a']), nameSetOf(['none'])), set);
    assert.equal(changeNames(set, NO_NAMES, set), NO_NAMES);
    assert.equal(changeNames(NO_NAMES, set, set), set);
    assert.equal(namesOutside(nameSetOf(['a', 'b', 'c', 'x']), nameSetOf(['x', 'y'])), set);
    assert.equal(namesOutside(set, nameSetOf(['a', 'b', 'c', 'd'])), NO_NAMES);
    assert.notEqual(nameSetOf(['a', 'b', 'd']), set);
  });
});
