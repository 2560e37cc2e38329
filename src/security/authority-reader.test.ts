import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createAuthorityReader } from './authority-reader.ts';
import { readCertificate } from './certificate.ts';
import { derOf, makeCa } from './testing/credentials.ts';

/** A reader, and the number of certificates that it has parsed. */
function counted() {
  let reads = 0;
  const read = createAuthorityReader((der) => {
    reads++;
    return readCertificate(der);
  });
  return { read, reads: () => reads };
}

/** Different bytes for each number, and still a certificate of the same key: bytes after the signature's last */
const one = derOf(makeCa({ name: 'one' }));
const variant = (n: number): Buffer => {
  const bytes = Buffer.from(one);
  bytes.writeUInt16BE(n, bytes.length - 2);
  return bytes;
};

describe('the certificates of authorities', () => {
  it('are read once for equal bytes', () => {
    const { read, reads } = counted();
    const first = read(one);
    assert.equal(read(new Uint8Array(one)), first);
    assert.deepEqual(first.x509.raw, one);
    assert.equal(reads(), 1);
  });

  it('are read again when one byte differs', () => {
    const { read, reads } = counted();
    const first = read(variant(1));
    const second = read(variant(2));
    assert.notEqual(first, second);
    assert.deepEqual(second.x509.raw, variant(2));
    assert.equal(reads(), 2);
  });

  it('are not cached when they cannot be read', () => {
    const { read, reads } = counted();
    for (let i = 0; i < 2; i++) assert.throws(() => read(Buffer.from('no certificate')));
    assert.equal(reads(), 2);
  });

  it('are evicted when unknown clients present many, those in use last', () => {
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
