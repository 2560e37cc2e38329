import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxConnections } from '../discovery/process/open-files.ts';
import { httpConnections } from './limits.ts';

const limits = (soft: string) => () => `Max open files            ${soft.padEnd(20)} 1048576              files     \n`;

test('an HTTP server uses a small fraction of the open files limit', () => {
  assert.equal(httpConnections(limits('1024')), 30);
  assert.equal(httpConnections(limits('1048576')), 512);
  assert.equal(httpConnections(limits('unlimited')), 512);
  assert.equal(httpConnections(limits('64')), 8);
});

test('all listeners of ctl-discovery together leave descriptors for files', () => {
  for (const soft of [1024, 4096, 65_536])
    assert.ok(maxConnections(100_000, limits(String(soft))) + 3 * httpConnections(limits(String(soft))) <= 0.9 * soft);
});
