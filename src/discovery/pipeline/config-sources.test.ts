import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryOfEach } from './config-sources.ts';

test('all other control planes together may use an eighth of the heap limit', () => {
  const of = (...addresses: readonly string[]) =>
    memoryOfEach(
      addresses.map((address) => ({ address })),
      8000,
    );
  assert.deepEqual([of('galley:9901'), of('xds://nacos:18848')], [1000, 1000]);
  assert.equal(of('galley:9901', 'xds://nacos:18848', 'fs:///etc/rules', 'k8s://'), 500);
  assert.equal(of('fs:///etc/rules'), 1000);
});
