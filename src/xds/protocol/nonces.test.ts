import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { Nonces } from './nonces.ts';

describe('nonces of a stream', () => {
  it('start again at 1 with each version', () => {
    const [old, young] = [new Nonces(), new Nonces()];
    for (let sent = 0; sent < 5; sent++) {
      old.next(1);
      old.used();
    }
    assert.equal(old.next(2), young.next(2));
  });

  it('stay the same until they are used, and never repeat, even if versions fall', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 5 }), { maxLength: 40 }), (versions) => {
        const nonces = new Nonces();
        const seen = new Set<string>();
        for (const version of versions) {
          const nonce = nonces.next(version);
          assert.equal(nonces.next(version), nonce);
          assert.ok(!seen.has(nonce));
          seen.add(nonce);
          nonces.used();
        }
      }),
    );
  });
});
