import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createAuthorityReader } from './authority-reader.ts';
import { readCertificate } from './certificate.ts';
import { derOf, makeCa } from './testing.ts';

/** A reader, and how often it has really read. */
function counted() {
  let reads = 0;
  const read = createAuthorityReader((der) => {
    reads++;
    return readCertificate(der);
  });
  return { read, reads: () => reads };
}

/**
 * Other bytes for each number, and a certificate of the same key nevertheless: what follows the signature's last byte
 * differs.
 */
const one = derOf(makeCa({ name: 'one' }));
const variant = (n: number): Buffer => {
  const bytes = Buffer.from(one);
  bytes.writeUInt16BE(n, bytes.length - 2);
  return bytes;
};

describe('the certificates of authorities', () => {
  it('are read once for the same bytes, wherever these lie', () => {
    const { read, reads } = counted();
    const first = read(one);
    assert.equal(read(new Uint8Array(one)), first);
    assert.deepEqual(first.x509.raw, one);
    assert.equal(reads(), 1);
  });

  it('are another when one byte is another', () => {
    const { read, reads } = counted();
    const first = read(variant(1));
    const second = read(variant(2));
    assert.notEqual(first, second);
    assert.deepEqual(second.x509.raw, variant(2));
    assert.equal(reads(), 2);
  });

  it('are not kept when they cannot be read', () => {
    const { read, reads } = counted();
    for (let i = 0; i < 2; i++) assert.throws(() => read(Buffer.from('no certificate')));
    assert.equal(reads(), 2);
  });

  it('are let go when strangers show many, those in use last', () => {
    const { read, reads } = counted();
    const used = read(one);
    for (let n = 0; n < 200; n++) {
      read(variant(n));
      assert.equal(read(one), used);
    }
    const before = reads();
    read(variant(0));
    assert.equal(reads(), before + 1);
  });
});
