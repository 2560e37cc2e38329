import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnyResource, ResourceEvent } from '../resources/index.ts';
import type { LastGood } from './last-good.ts';
import { RefusedPolicies } from './refused-policies.ts';
import { createStore } from './store.ts';
import { resource } from './testing/documents.ts';
import { Memory } from './testing/memory.ts';

const KEY = 'AuthorizationPolicy/ns/p';
const DENY_ALL = { action: 'DENY', rules: [{}] };

function opened(lastGood: LastGood = new Memory()) {
  let resolved = 0;
  const store = createStore({
    sources: [{ id: 'test', cluster: 'c' }],
    cluster: 'c',
    appNamespaces: [],
    rootNamespace: 'root',
    refusedPolicies: new RefusedPolicies({ lastGood, rootNamespace: 'root' }),
    onRefused: () => {},
    onResolved: () => {
      resolved++;
    },
    onWarnings: () => {},
  });
  const apply = (...resources: readonly AnyResource[]) =>
    store.apply(
      'test',
      resources.map((each): ResourceEvent => ({ type: 'set', resource: each, eventTime: 0 })),
    );
  return { store, apply, resolved: () => resolved };
}

/** The document with fields whose reading fails, as a bug might make it. */
function poisoned(document: AnyResource, ...fields: readonly string[]): AnyResource {
  const get = (): never => {
    throw new Error('a bug');
  };
  return Object.defineProperties({ ...document }, Object.fromEntries(fields.map((field) => [field, { get }])));
}

const policy = (version: number): AnyResource => resource('AuthorizationPolicy', 'p', version);

for (const [which, broken] of [
  ['cannot be applied', poisoned(policy(2), 'warnings')],
  ['cannot be read at all', poisoned(policy(2), 'warnings', 'content')],
] as const) {
  test(`a policy that ${which} denies what it covers, and the others take effect`, () => {
    const { store, apply } = opened();
    const { failure, newProblems } = apply(resource('Service', 'a', 1), broken, resource('Service', 'b', 1));
    assert.deepEqual([failure, newProblems], [undefined, 1]);
    assert.deepEqual(store.get(KEY)?.content, DENY_ALL);
    assert.deepEqual(
      store.problems().map(({ id, message }) => [id, message]),
      [[KEY, 'cannot be applied because of an internal error: a bug']],
    );
    assert.ok(store.get('Service/ns/a') && store.get('Service/ns/b'));
    apply(policy(3));
    assert.deepEqual([store.get(KEY)?.content, store.problems()], [policy(3).content, []]);
  });
}

test('the last good version of a policy stays in force when the next one cannot be applied', () => {
  const { store, apply } = opened();
  apply(policy(1));
  assert.equal(apply(poisoned(policy(2), 'warnings')).failure, undefined);
  assert.deepEqual(store.get(KEY)?.content, policy(1).content);
  assert.equal(store.problems().length, 1);
  assert.deepEqual(
    store.take().changes.map(({ after }) => after?.fingerprint),
    [policy(1).fingerprint],
  );
});

test('a policy whose good version cannot be saved is refused, and is replaced by the strictest', () => {
  const memory = new Memory();
  let isBroken = true;
  const save = (): void => {
    if (isBroken) throw new Error('a bug');
  };
  const { store, apply } = opened({
    of: (source) => ({ ...memory.of(source), save }),
    retain: (keys) => memory.retain(keys),
  });
  assert.equal(apply(policy(1)).failure, undefined);
  assert.deepEqual([store.get(KEY)?.content, store.problems().length], [DENY_ALL, 1]);
  isBroken = false;
  apply(policy(2));
  assert.deepEqual([store.get(KEY)?.content, store.problems()], [policy(2).content, []]);
});

test('a list with a document that still cannot be applied does not say that its problem has ended', () => {
  const { store, resolved } = opened();
  const list = (document: AnyResource) =>
    store.replace('test', { events: [{ type: 'set', resource: document, eventTime: 0 }], eventTime: 0 });
  const poison = poisoned(policy(2), 'warnings');
  for (const newProblems of [1, 0]) assert.equal(list(poison).newProblems, newProblems);
  assert.deepEqual([resolved(), store.problems().length, store.get(KEY)?.content], [0, 1, DENY_ALL]);
  list(policy(3));
  assert.deepEqual([resolved(), store.problems(), store.get(KEY)?.content], [1, [], policy(3).content]);
});
