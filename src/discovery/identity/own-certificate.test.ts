/** The CAs by which clients verify a certificate whose issuer is not the mesh itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { derOf, makeCa, makeLeaf, pemOf } from '../../security/testing/credentials.ts';
import { issuersOf } from './own-certificate.ts';

const one = makeCa({ name: 'one' });
const two = makeCa({ name: 'two' });
const impostor = makeCa({ name: 'one' });
const leaf = pemOf(makeLeaf({ issuer: one, dnsNames: ['meshd.test'] }));
const [root, other, sameName] = [one, two, impostor].map((ca) => pemOf(derOf(ca)));

test('the root at the end of a chain is its CA', () => {
  assert.equal(issuersOf(`${leaf}${root}`, other), root);
});

test('without a root in the chain, its CA is the candidate that has signed it', () => {
  assert.equal(issuersOf(leaf, `${other}${root}`), root);
});

test('a CA of the same name with another key, another CA, and none are no CA of the chain', () => {
  for (const candidates of [sameName, other, undefined]) assert.equal(issuersOf(leaf, candidates), undefined);
});
