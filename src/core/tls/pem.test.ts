import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countPemBlocks, encodePem, pemBlocks, readPem } from './pem.ts';

const DER = Buffer.from(Array.from({ length: 100 }, (_, index) => index));
const BLOCK = encodePem('CERTIFICATE', DER);

test('DER is written in lines of 64 characters and read back', () => {
  assert.equal(Math.max(...BLOCK.split('\n').map((line) => line.length)), 64);
  assert.deepEqual(readPem(BLOCK, 'CERTIFICATE'), [DER]);
  assert.deepEqual(readPem(BLOCK.replaceAll('\n', '\r\n'), 'CERTIFICATE'), [DER]);
});

test('blocks are found between other text, by label', () => {
  const text = `a comment\n${BLOCK}${encodePem('X509 CRL', DER)}another\n${BLOCK}`;
  assert.deepEqual(pemBlocks(text, 'CERTIFICATE'), [BLOCK, BLOCK]);
  assert.equal(readPem(text, 'CERTIFICATE', 'X509 CRL').length, 3);
  assert.equal(countPemBlocks(text), 3);
});

test('a block that is cut short, has other characters or ends with another label is counted but not read', () => {
  for (const text of [
    BLOCK.slice(0, 60),
    BLOCK.replace('\n', '\nProc-Type: 4,ENCRYPTED\n'),
    BLOCK.replace('END CERTIFICATE', 'END X509 CRL'),
  ]) {
    assert.deepEqual(pemBlocks(text, 'CERTIFICATE'), []);
    assert.equal(countPemBlocks(text, 'CERTIFICATE'), 1);
  }
});
