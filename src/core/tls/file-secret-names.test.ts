import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../testing/properties.ts';
import { authoritiesFileName, keyPairFileName, parseFileSecretName } from './file-secret-names.ts';

test('the paths of a name are read back', () => {
  const path = fc.stringMatching(/^[^~]{1,200}$/);
  fc.assert(
    fc.property(path, path, (first, second) => {
      const pair = keyPairFileName(first, second);
      const both = authoritiesFileName(first, second);
      // Longer names are not allowed.
      if (pair !== undefined)
        assert.deepEqual(parseFileSecretName(pair), { kind: 'key pair', chain: first, key: second });
      if (both !== undefined)
        assert.deepEqual(parseFileSecretName(both), { kind: 'authorities', roots: first, crl: second });
    }),
  );
  assert.deepEqual(parseFileSecretName('file-root:/ca.pem'), { kind: 'authorities', roots: '/ca.pem', crl: undefined });
});

test('paths that do not fit into a name, and names of other secrets, are refused', () => {
  for (const path of ['', '/a~b', `/${'a'.repeat(1000)}`]) {
    assert.equal(keyPairFileName('/c', path), undefined);
    assert.equal(keyPairFileName(path, '/k'), undefined);
    assert.equal(authoritiesFileName(path, undefined), undefined);
  }
  for (const name of ['default', 'ROOTCA', 'file-cert:/a', 'file-cert:', 'file-cert:/a~', 'file-cert:/a~/b~/c']) {
    assert.equal(parseFileSecretName(name), undefined, name);
  }
});
