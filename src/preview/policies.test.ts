import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finish } from '../core/slices.ts';
import type { Snapshot } from '../model/index.ts';
import type { TouchedPart } from '../push/index.ts';
import { policyOutcomes } from './policies.ts';

/** A snapshot with one policy that counts how often its rules are read. */
function snapshotOf(methods: readonly string[], read: () => void): Snapshot {
  const content = {
    get rules() {
      read();
      return methods.map((method) => ({ to: [{ operation: { methods: [method] } }] }));
    },
  };
  const resource = { kind: 'AuthorizationPolicy', meta: { annotations: {} }, content };
  const resources = new Map([['AuthorizationPolicy/shop/p', resource]]);
  // Nothing else is read.
  return { resources: () => resources } as unknown as Snapshot;
}

const view = { policies: { authorization: ['AuthorizationPolicy/shop/p'], authentication: [] } };
const part = {
  before: view,
  after: view,
  placements: [{ sessions: [{ node: { namespace: 'shop' } }] }],
} as unknown as TouchedPart;
const parts = Array.from({ length: 100 }, () => part);

test('policies that the change leaves alone are not read, and others are compared in slices', () => {
  let before = 0;
  const was = snapshotOf(['GET'], () => before++);
  const is = snapshotOf(['GET', 'PUT'], () => {});
  assert.deepEqual(finish(policyOutcomes({ before: was, after: was }, parts, () => false)), { list: [], left: 0 });
  assert.equal(before, 0);
  const work = policyOutcomes({ before: was, after: is }, parts, () => false);
  for (const _ of parts) assert.equal(work.next().done, false);
  const { list } = finish(work);
  assert.deepEqual(list, [
    {
      effect: 'opens',
      message: 'AuthorizationPolicy/shop/p adds 1 rules that allow requests',
      namespaces: ['shop'],
      proxies: 100,
    },
  ]);
});

test('policies that are not compared in time are counted', () => {
  const is = snapshotOf(['GET'], () => {});
  assert.deepEqual(finish(policyOutcomes({ before: is, after: is }, parts, () => true)), { list: [], left: 100 });
});
