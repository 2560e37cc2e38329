import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentLimits } from '../../resources/index.ts';
import { readObject } from './read-object.ts';

/** JSON of a nesting that an API server takes, and that no recursive reader does. */
function deep(): unknown {
  let value: unknown = 1;
  for (let depth = 0; depth < 10_000; depth++) value = [{ a: value }];
  return value;
}

const object = (group: string, kind: string, spec: Readonly<Record<string, unknown>>) => ({
  apiVersion: `${group}.mesh.io/v1`,
  kind,
  metadata: { name: 'deep', namespace: 'shop', uid: 'u', resourceVersion: '7' },
  spec,
});

const KEY = 'VirtualService/shop/deep';

test('an object that cannot be parsed is a problem of its own key', () => {
  const route = object('networking', 'VirtualService', { hosts: ['web'], http: deep() });
  const event = readObject('kubernetes', 'VirtualService', route, 5);
  assert.ok(event.type === 'invalid');
  assert.deepEqual([event.problem.id, event.problem.key, event.eventTime], [KEY, KEY, 5]);
  assert.equal(event.problem.origin.resourceVersion, '7');
});

test('an object that asks for more than the limits is a problem', () => {
  const rule = object('networking', 'DestinationRule', { host: 'web', subsets: [{ name: 'a' }, { name: 'b' }] });
  const read = (factor: number) => readObject('kubernetes', 'DestinationRule', rule, 0, documentLimits(factor));
  assert.deepEqual([read(0.001).type, read(0.002).type], ['invalid', 'set']);
});

test('a policy that cannot be parsed is replaced by the strictest one', () => {
  const policy = object('security', 'AuthorizationPolicy', { rules: deep() });
  const event = readObject('kubernetes', 'AuthorizationPolicy', policy, 0);
  assert.ok(event.type === 'invalid');
  const [substitute] = event.problem.substitutes ?? [];
  assert.deepEqual([substitute?.kind, substitute?.namespace], ['AuthorizationPolicy', 'shop']);
});
