import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readerIdentities } from './readers.ts';

const OPTIONS = { trustDomain: 'cluster.local', namespaces: ['mesh-system', 'control', 'control'] };
const OWN = [
  'spiffe://cluster.local/ns/mesh-system/sa/ctl-discovery',
  'spiffe://cluster.local/ns/control/sa/ctl-discovery',
];

test('control planes of the namespaces may read, and who is named', () => {
  assert.deepEqual([...readerIdentities({ ...OPTIONS, more: '' })], OWN);
  const more = ' mesh-system/istiod, spiffe://far.example/ns/a/sa/b,';
  assert.deepEqual(
    [...readerIdentities({ ...OPTIONS, more })],
    [...OWN, 'spiffe://cluster.local/ns/mesh-system/sa/istiod', 'spiffe://far.example/ns/a/sa/b'],
  );
});

test('a reader that is no identity is refused', () => {
  for (const more of ['istiod', 'a/b/c', 'mesh-system/*', 'spiffe://a/b', '/a'])
    assert.throws(() => readerIdentities({ ...OPTIONS, more }), {
      code: 'invalid_argument',
      message: new RegExp(
        `CTL_CONFIG_READERS: expected spiffe://.* or NAMESPACE/ACCOUNT, got "${more.replace('*', '\\*')}"`,
      ),
    });
});
