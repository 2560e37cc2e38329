import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from './errors.ts';
import { parseSpiffeUri, spiffeUri } from './identity.ts';

const REVIEWS = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'reviews' };

test('an identity is read back from its URI', () => {
  assert.equal(spiffeUri(REVIEWS), 'spiffe://cluster.local/ns/shop/sa/reviews');
  assert.deepEqual(parseSpiffeUri(spiffeUri(REVIEWS)), REVIEWS);
});

test('a URI that is not a workload identity is not read as one', () => {
  for (const uri of [
    '',
    'spiffe://cluster.local',
    'spiffe://cluster.local/ns/shop',
    'spiffe://cluster.local/ns/shop/sa/reviews/',
    'spiffe://cluster.local/ns/shop/sa/reviews?x=1',
    'spiffe://cluster.local/ns/../sa/reviews',
    'spiffe://cluster.local/ns/shop/sa/a%2fb',
    'spiffe://Cluster.local/ns/shop/sa/reviews',
    'https://cluster.local/ns/shop/sa/reviews',
    'spiffe://cluster.local/ns/shop/sa/reviews\n',
    `spiffe://${'a'.repeat(3000)}/ns/shop/sa/reviews`,
  ]) {
    assert.equal(parseSpiffeUri(uri), undefined, uri.slice(0, 100));
  }
});

test('a name that would change the structure of the URI is refused', () => {
  for (const namespace of ['', '..', 'a/b', 'a b', 'ü'])
    assert.throws(() => spiffeUri({ ...REVIEWS, namespace }), CtlError, namespace);
  assert.throws(() => spiffeUri({ ...REVIEWS, trustDomain: 'a/ns/b' }), CtlError);
});
