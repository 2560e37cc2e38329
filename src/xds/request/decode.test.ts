import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import * as fc from '../../core/testing/properties.ts';
import { encodeDeltaRequest, encodeSotwRequest } from '../testing/content.ts';
import { DELTA_REQUESTS, SHARED, SOTW_REQUESTS } from '../testing/protocols.ts';
import { MAX_NACK_MESSAGE } from './decode.ts';
import { MAX_NAME_BYTES } from './request-lists.ts';

const typeUrl = 'type.googleapis.com/x';
const decodeSotw = SOTW_REQUESTS.decode;
const decodeDelta = DELTA_REQUESTS.decode;

describe('requests', () => {
  it('decodes a DiscoveryRequest', () => {
    const bytes = encodeSotwRequest({ typeUrl, names: ['a', 'ü'], version: 'v', nonce: 'n', error: 'why' });
    const { node, names, ...rest } = decodeSotw(bytes);
    assert.equal(node, undefined);
    assert.equal(names, SHARED.names.of(['a', 'ü']));
    assert.deepEqual(rest, { typeUrl, versionInfo: 'v', responseNonce: 'n', nack: 'why' });
  });

  it('decodes a DeltaDiscoveryRequest', () => {
    const initial = new Map([['a', '1']]);
    const bytes = encodeDeltaRequest({ typeUrl, subscribe: ['a'], unsubscribe: ['b'], initial, nonce: 'n' });
    const { node, subscribe, unsubscribe, initialVersions, ...rest } = decodeDelta(bytes);
    assert.equal(node, undefined);
    assert.equal(subscribe, SHARED.names.of(['a']));
    assert.equal(unsubscribe, SHARED.names.of(['b']));
    assert.equal(initialVersions.size, 1);
    assert.equal(initialVersions.get('a'), '1');
    assert.deepEqual(rest, { typeUrl, responseNonce: 'n', nack: undefined });
  });

  it('keeps no reference to the bytes', () => {
    const node = Buffer.from('an encoded node');
    for (const [decode, bytes] of [
      [decodeSotw, encodeSotwRequest({ typeUrl, node })],
      [decodeDelta, encodeDeltaRequest({ typeUrl, node })],
    ] as const) {
      const request = decode(bytes);
      bytes.fill(0);
      assert.deepEqual(request.node, node);
    }
  });

  it("shortens Envoy's error messages, and refuses names that are too long", () => {
    const long = decodeSotw(encodeSotwRequest({ typeUrl, error: 'x'.repeat(100_000) }));
    assert.equal(long.nack?.length, MAX_NACK_MESSAGE);
    const name = 'n'.repeat(MAX_NAME_BYTES + 1);
    for (const decode of [
      () => decodeSotw(encodeSotwRequest({ typeUrl, names: [name] })),
      () => decodeDelta(encodeDeltaRequest({ typeUrl, subscribe: [name] })),
      () => decodeDelta(encodeDeltaRequest({ typeUrl, initial: new Map([[name, '']]) })),
    ])
      assert.throws(decode, /a resource name may have at most/);
  });

  it('decodes any bytes to a request or throws a CtlError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        for (const decode of [decodeSotw, decodeDelta])
          try {
            decode(Buffer.from(bytes));
          } catch (error) {
            assert.ok(error instanceof CtlError && error.code === 'invalid_argument', String(error));
          }
      }),
    );
  });
});
