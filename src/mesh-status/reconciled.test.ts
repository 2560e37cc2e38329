/** The condition Reconciled by what is known of a document. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DocumentState, decodeState, encodeState, joinStates } from './acknowledgements/document-state.ts';
import { isSettled, type ReconciledInputs, reconciledCondition } from './reconciled.ts';
import { MESH_RULES } from './status-rules.ts';

const VERSION = { uid: 'uid-of-the-object', generation: 2 };
const state = (changes: Partial<DocumentState> = {}): DocumentState => {
  return { ...VERSION, pending: 0, rejected: 0, message: '', ...changes };
};
const statusOf = (status: string, observedGeneration: number) => ({
  conditions: [{ type: 'Other' }, { type: 'Reconciled', status, observedGeneration }],
});
const NEW = { ...VERSION, status: {} };
const DONE = { ...VERSION, status: statusOf('True', 2) };

const decide = (
  object: typeof NEW,
  states: readonly (DocumentState | undefined)[],
  more: Partial<ReconciledInputs> = {},
) => {
  const joined = joinStates(VERSION, states);
  const condition = reconciledCondition(object, {
    inForce: VERSION,
    refused: undefined,
    joined,
    isOverdue: true,
    ...more,
  });
  return condition && [condition.status, condition.reason, condition.observedGeneration];
};

test('a document is reconciled once every replica says that its proxies have acknowledged this version', () => {
  assert.deepEqual(decide(NEW, [state(), state()]), ['True', 'Acknowledged', 2]);
  assert.deepEqual(decide(NEW, [state(), state({ pending: 1 })]), ['False', 'Pending', 2]);
  assert.deepEqual(decide(NEW, [state(), undefined]), ['False', 'Pending', 2]);
  assert.deepEqual(decide(NEW, [state(), state({ generation: 1 })]), ['False', 'Pending', 2]);
  assert.deepEqual(decide(NEW, [state(), state({ uid: 'another' })]), ['False', 'Pending', 2]);
  assert.deepEqual(decide(NEW, [state(), state({ rejected: 1, message: 'no' })]), ['False', 'Rejected', 2]);
});

test('nothing is written until it is known, and before proxies had time', () => {
  assert.equal(decide(NEW, [state({ pending: 1 })], { isOverdue: false }), undefined);
  assert.equal(decide(NEW, [state()], { joined: undefined }), undefined);
  assert.equal(decide(NEW, [state()], { inForce: undefined }), undefined);
  assert.equal(decide(NEW, [state()], { inForce: { ...VERSION, generation: 1 } }), undefined);
  assert.equal(decide(NEW, [state()], { inForce: { ...VERSION, uid: 'another' } }), undefined);
});

test('a reconciled document stays so while proxies come and replicas are silent, until one rejects it', () => {
  assert.ok(isSettled(DONE));
  assert.ok(
    !isSettled({ ...VERSION, status: statusOf('True', 1) }) && !isSettled({ ...VERSION, status: statusOf('False', 2) }),
  );
  assert.deepEqual(decide(DONE, [state({ pending: 1 }), undefined]), ['True', 'Acknowledged', 2]);
  assert.deepEqual(decide(DONE, [state({ rejected: 1 })]), ['False', 'Rejected', 2]);
});

test('a refused version is not reconciled, whatever proxies have of the version in force', () => {
  const refused = { ...VERSION, message: 'spec.hosts: expected a list' };
  const inForce = { ...VERSION, generation: 1 };
  assert.deepEqual(decide(NEW, [state()], { refused, inForce }), ['False', 'Refused', 2]);
  assert.deepEqual(decide(NEW, [state()], { refused: { ...refused, generation: 1 } }), ['True', 'Acknowledged', 2]);
});

test('an entry of a report is read as it was written, and others are ignored', () => {
  for (const each of [state(), state({ pending: 3 }), state({ rejected: 1, message: 'web-1.shop rejects it: "no"' })])
    assert.deepEqual(decodeState(encodeState(each)), { ...each, uid: each.uid.slice(0, 8) });
  for (const text of [
    'null',
    '{}',
    '[]',
    '["a"]',
    '["a",1,1]',
    '["a",1,-1,0]',
    '["a",1,0,0.5]',
    '[1,1,0,0]',
    '["a",1,0,0,{}]',
  ])
    assert.equal(decodeState(text), undefined, text);
});

test('conditions of others stay, and messages are replaced as a whole and removed with the last', () => {
  const object = (status: object) => ({ status }) as Parameters<typeof MESH_RULES.patch>[0];
  const patch = (status: object, desired: Record<string, unknown>) => MESH_RULES.patch(object(status), desired, 'now');
  const own = { type: 'Reconciled', status: 'True', reason: 'Acknowledged', message: '', observedGeneration: 1 };
  const other = { type: 'Healthy', status: 'True' };
  const written = { ...own, lastTransitionTime: 'now' };
  assert.deepEqual(patch({ conditions: [other] }, { conditions: [own] }), { conditions: [other, written] });
  assert.equal(patch({ conditions: [other, written] }, { conditions: [own] }), undefined);
  const messages = [{ type: { code: 'IST0101' } }];
  assert.deepEqual(patch({}, { validationMessages: messages }), { validationMessages: messages });
  assert.equal(patch({ validationMessages: messages }, { validationMessages: messages }), undefined);
  assert.deepEqual(patch({ validationMessages: messages }, { validationMessages: [] }), { validationMessages: null });
  assert.equal(patch({}, { validationMessages: [] }), undefined);
  assert.equal(MESH_RULES.removal(object({ conditions: [written] }), { conditions: [own] }, 'now'), undefined);
});
