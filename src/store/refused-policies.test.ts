import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finish } from '../core/slices.ts';
import { readDocuments } from '../sources/directory/documents.ts';
import { createLedger } from '../sources/directory/ledger.ts';
import type { LastGood } from './last-good.ts';
import { RefusedPolicies } from './refused-policies.ts';
import { createStore } from './store.ts';
import { Follower } from './testing/follower.ts';
import { Memory } from './testing/memory.ts';

/** A run of the program over files: what is in force. */
function run(memory: LastGood, files: Readonly<Record<string, string>>) {
  const reported: string[] = [];
  const refusedPolicies = new RefusedPolicies({ lastGood: memory, rootNamespace: 'root' });
  const store = createStore({
    sources: [{ id: 'directory', cluster: 'c' }],
    cluster: 'c',
    appNamespaces: [],
    rootNamespace: 'root',
    refusedPolicies,
    onRefused: (_source, { id }) => void reported.push(`${id} refused`),
    onResolved: (_source, { id }) => void reported.push(`${id} mended`),
  });
  const follower = new Follower(store);
  const ledger = createLedger();
  const flush = (): void => void store.apply('directory', ledger.flush(0));
  const put = (file: string, text: string): void => {
    const documents = finish(readDocuments(file, text)).flatMap(({ found }) => found);
    ledger.put(file, { documents });
  };
  for (const [file, text] of Object.entries(files)) put(file, text);
  flush();
  refusedPolicies.synced();
  return {
    hold: refusedPolicies,
    edit(file: string, text: string | undefined) {
      if (text === undefined) ledger.remove(file);
      else put(file, text);
      flush();
    },
    /** `namespace/name` of all policies in force, with what they say; `~` for names of substitutes. */
    inForce(): Record<string, string> {
      return Object.fromEntries(
        [...follower.inForce().values()].map(({ meta, content }) => [
          `${meta.namespace}/${meta.name.replace(/^~.*/, '~')}`,
          JSON.stringify(content),
        ]),
      );
    },
    /** What was reported since the last call. */
    reported: () => reported.splice(0),
    problems: () => store.problems().map(({ id }) => id),
    held: () => refusedPolicies.all().map(({ problem, keys, inForce }) => [problem.id, inForce, keys.length]),
  };
}

const deny = (rules: string, name = 'deny', action = 'DENY') =>
  `apiVersion: security.istio.io/v1beta1\nkind: AuthorizationPolicy\nmetadata: {name: ${name}, namespace: shop}\nspec: {action: ${action}, rules: ${rules}}\n`;
const GOOD = deny('[{to: [{operation: {paths: [/admin]}}]}]');
const TYPO = deny('[{to: [{operation: {path: [/admin]}}]}]');
const UNPARSABLE = GOOD.replace('spec:', 'spec:\t[');
const SAYS = '{"rules":[{"to":[{"operation":{"paths":["/admin"]}}]}],"action":"DENY"}';
const STRICTEST = '{"action":"DENY","rules":[{}]}';
const KEY = 'AuthorizationPolicy/shop/deny';

test('the last good version of a refused policy stays in force, while the program runs and after a restart', () => {
  const memory = new Memory();
  const first = run(memory, { 'a.yaml': GOOD });
  assert.deepEqual(first.held(), []);
  first.edit('a.yaml', TYPO);
  assert.deepEqual([first.inForce(), first.held()], [{ 'shop/deny': SAYS }, [[KEY, 'last_good', 1]]]);
  const second = run(memory, { 'a.yaml': TYPO });
  assert.deepEqual([second.inForce(), second.held()], [{ 'shop/deny': SAYS }, [[KEY, 'last_good', 1]]]);
  const moved = run(memory, { 'b.yaml': TYPO });
  assert.deepEqual(moved.inForce(), { 'shop/deny': SAYS });
  moved.edit('b.yaml', GOOD);
  assert.deepEqual([moved.inForce(), moved.held()], [{ 'shop/deny': SAYS }, []]);
});

test('without a good version the strictest policy is in force, until the document is valid or deleted', () => {
  const started = run(new Memory(), { 'a.yaml': TYPO });
  assert.deepEqual([started.inForce(), started.held()], [{ 'shop/deny': STRICTEST }, [[KEY, 'substitute', 1]]]);
  started.edit('a.yaml', GOOD);
  assert.deepEqual([started.inForce(), started.held()], [{ 'shop/deny': SAYS }, []]);
  started.edit('b.yaml', deny('[{x: 1}]', 'new'));
  assert.deepEqual(started.inForce(), { 'shop/deny': SAYS, 'shop/new': STRICTEST });
  started.edit('b.yaml', undefined);
  assert.deepEqual([started.inForce(), started.held()], [{ 'shop/deny': SAYS }, []]);
});

test('a refused policy is reported until it is valid or gone, whatever replaces it', () => {
  const memory = new Memory();
  const first = run(memory, { 'a.yaml': TYPO });
  assert.deepEqual([first.reported(), first.problems()], [[`${KEY} refused`], [KEY]]);
  first.edit('a.yaml', deny('[{x: 1}]'));
  assert.deepEqual([first.reported(), first.problems()], [[`${KEY} refused`], [KEY]]);
  first.edit('a.yaml', GOOD);
  assert.deepEqual([first.reported(), first.problems()], [[`${KEY} mended`], []]);
  const restarted = run(memory, { 'a.yaml': TYPO });
  assert.deepEqual([restarted.reported(), restarted.problems()], [[`${KEY} refused`], [KEY]]);
  restarted.edit('a.yaml', undefined);
  assert.deepEqual([restarted.reported(), restarted.problems()], [[`${KEY} mended`], []]);
});

test('a document that is deleted does not come back', () => {
  const memory = new Memory();
  run(memory, { 'a.yaml': GOOD });
  // Deleted while the program was down, and written again with a mistake after the start.
  const second = run(memory, {});
  assert.deepEqual([second.inForce(), memory.size], [{}, 0]);
  second.edit('a.yaml', TYPO);
  assert.deepEqual(second.inForce(), { 'shop/deny': STRICTEST });
  second.edit('a.yaml', GOOD);
  second.edit('a.yaml', TYPO);
  second.edit('a.yaml', undefined);
  assert.deepEqual([second.inForce(), second.held(), memory.size], [{}, [], 0]);
  const restored = new Memory();
  run(restored, { 'a.yaml': GOOD });
  const third = run(restored, { 'a.yaml': TYPO });
  third.edit('a.yaml', undefined);
  assert.deepEqual([third.inForce(), restored.size], [{}, 0]);
});

test('a file with an unreadable document keeps its last good documents, also over a restart', () => {
  const memory = new Memory();
  const other = deny('[{}]', 'other');
  const first = run(memory, { 'a.yaml': `${GOOD}---\n${other}` });
  const both = { 'shop/deny': SAYS, 'shop/other': '{"rules":[{}],"action":"DENY"}' };
  first.edit('a.yaml', `${UNPARSABLE}---\n${other}`);
  assert.deepEqual([first.inForce(), first.held()], [both, [['a.yaml#0', 'last_good', 1]]]);
  const second = run(memory, { 'a.yaml': `${UNPARSABLE}---\n${other}` });
  assert.deepEqual([second.inForce(), second.held()], [both, [['a.yaml#0', 'last_good', 1]]]);
  second.edit('a.yaml', other);
  assert.deepEqual([second.inForce(), second.held()], [{ 'shop/other': both['shop/other'] }, []]);
});

test('the policies of a file stay in force over a restart, even where its text no longer looks like a policy', () => {
  for (const text of ['[]', '"x"', GOOD.replace('kind: A', 'knd; a'), 'knd: X\n\tx']) {
    const memory = new Memory();
    run(memory, { 'a.yaml': GOOD });
    const second = run(memory, { 'a.yaml': text });
    assert.deepEqual([second.inForce(), second.held()], [{ 'shop/deny': SAYS }, [['a.yaml#0', 'last_good', 1]]], text);
    second.edit('a.yaml', undefined);
    assert.deepEqual([second.inForce(), second.held()], [{}, []], text);
  }
});

test('a policy that cannot be parsed and was never valid is replaced by the strictest one for the kind in its text', () => {
  const nameless = UNPARSABLE.replace('name: deny, ', '');
  const started = run(new Memory(), { 'a.yaml': `${nameless}---\n${deny('[{}]', 'other')}` });
  assert.deepEqual(started.inForce(), { 'shop/other': '{"rules":[{}],"action":"DENY"}', 'shop/~': STRICTEST });
  const unknown = run(new Memory(), { 'a.yaml': nameless.replace('namespace: shop', 'namespace: [') });
  assert.deepEqual(unknown.inForce(), { 'root/~': STRICTEST });
  unknown.edit('a.yaml', '# nothing\n');
  assert.deepEqual([unknown.inForce(), unknown.held()], [{}, []]);
});

test('a new document that cannot be parsed is replaced even beside valid ones of its file', () => {
  const started = run(new Memory(), { 'a.yaml': GOOD });
  started.edit('a.yaml', `${GOOD}---\n${UNPARSABLE.replace('name: deny', 'name: new')}`);
  assert.deepEqual(started.inForce(), { 'shop/deny': SAYS, 'shop/new': STRICTEST });
});

test('an AUDIT policy that is refused denies nothing; its last good version stays', () => {
  const memory = new Memory();
  assert.deepEqual(run(memory, { 'a.yaml': deny('[{x: 1}]', 'audit', 'AUDIT') }).inForce(), {});
  const first = run(memory, { 'a.yaml': deny('[{}]', 'audit', 'AUDIT') });
  first.edit('a.yaml', deny('[{x: 1}]', 'audit', 'AUDIT'));
  assert.deepEqual(first.held(), [['AuthorizationPolicy/shop/audit', 'last_good', 1]]);
});

test('the valid one of two files with one name is in force, whichever is refused', () => {
  const started = run(new Memory(), { 'a.yaml': TYPO, 'b.yaml': GOOD });
  assert.deepEqual([started.inForce(), started.held().length], [{ 'shop/deny': SAYS }, 1]);
  started.edit('b.yaml', undefined);
  assert.deepEqual(started.inForce(), { 'shop/deny': STRICTEST });
  started.edit('a.yaml', undefined);
  assert.deepEqual([started.inForce(), started.held()], [{}, []]);
});

test('the substitute for two refused documents stays until both are valid or deleted', () => {
  for (const gone of [
    ['a.yaml', 'b.yaml'],
    ['b.yaml', 'a.yaml'],
  ]) {
    const memory = new Memory();
    run(memory, { 'a.yaml': GOOD });
    const second = run(memory, { 'a.yaml': '[]', 'b.yaml': TYPO });
    assert.deepEqual([second.inForce(), second.held().length], [{ 'shop/deny': SAYS }, 2]);
    second.edit(gone[0] ?? '', undefined);
    assert.deepEqual([second.inForce(), second.held().length], [{ 'shop/deny': SAYS }, 1]);
    second.edit(gone[1] ?? '', undefined);
    assert.deepEqual([second.inForce(), second.held()], [{}, []]);
  }
});

test('other kinds are not replaced', () => {
  const started = run(new Memory(), { 'a.yaml': 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: 1\n' });
  assert.deepEqual(started.held(), []);
});

const component = (kind: string, name: string, spec: string) =>
  `apiVersion: config.mesh.io/v1alpha2\nkind: ${kind}\nmetadata: {name: ${name}, namespace: shop}\nspec: ${spec}\n`;
const HANDLER = component('handler', 'h', '{compiledAdapter: denier}');
const RULE = component('rule', 'r', '{match: \'a == "b"\', actions: [{handler: h, instances: [i]}]}');

test('documents of the policy component keep their last good versions over a restart, and a rule has a substitute', () => {
  const memory = new Memory();
  const good = run(memory, { 'h.yaml': HANDLER, 'r.yaml': RULE }).inForce();
  const bad = { 'h.yaml': HANDLER.replace('denier', 'denies'), 'r.yaml': RULE.replace('actions', 'acts') };
  const after = run(memory, bad);
  assert.deepEqual(after.inForce(), good);
  assert.deepEqual(
    after.held().map(([id, inForce]) => [id, inForce]),
    [
      ['handler/shop/h', 'last_good'],
      ['rule/shop/r', 'last_good'],
    ],
  );
  const unknown = run(new Memory(), bad);
  assert.deepEqual(unknown.inForce(), {
    'shop/r': '{"match":"a == \\"b\\"","actions":[{"handler":"~","instances":["~"]}]}',
  });
  unknown.edit('r.yaml', RULE);
  unknown.edit('h.yaml', HANDLER);
  assert.deepEqual([unknown.inForce(), unknown.held()], [good, []]);
});

test('a document of the policy component that is deleted while the program is down does not come back', () => {
  const memory = new Memory();
  run(memory, { 'h.yaml': HANDLER, 'r.yaml': RULE });
  run(memory, { 'r.yaml': RULE });
  assert.deepEqual(
    Object.keys(run(memory, { 'h.yaml': HANDLER.replace('denier', 'denies'), 'r.yaml': RULE }).inForce()),
    ['shop/r'],
  );
});
