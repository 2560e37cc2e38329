import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxConnections } from './open-files.ts';

const limits = (soft: string) => () =>
  'Limit                     Soft Limit           Hard Limit           Units     \n' +
  `Max open files            ${soft.padEnd(20)} 1048576              files     \n`;

test('connections are limited by file descriptors, or by what the streams need', () => {
  assert.equal(maxConnections(100_000, limits('1024')), 819);
  assert.equal(maxConnections(2000, limits('1048576')), 4000);
  assert.equal(maxConnections(100, limits('unlimited')), 1000);
  assert.equal(
    maxConnections(100, () => {
      throw new Error('no such file');
    }),
    1000,
  );
  assert.equal(
    maxConnections(100, () => ''),
    1000,
  );
});
