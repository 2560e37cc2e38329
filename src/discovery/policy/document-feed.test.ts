import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PolicyDocument, ToPolicyThread } from '../../policy/index.ts';
import { type ChangedDocument, DocumentFeed } from './document-feed.ts';

const document = (name: string, spec: unknown = {}): ChangedDocument => {
  const made: PolicyDocument = { kind: 'rule', namespace: 'a', name, annotations: {}, spec, origin: { source: 't' } };
  return [`rule/a/${name}`, made];
};

function feed() {
  const [posted, turns]: [Extract<ToPolicyThread, { kind: 'configure' }>[], (() => void)[]] = [[], []];
  const made = new DocumentFeed(
    (message) => message.kind === 'configure' && posted.push(message),
    (run) => turns.push(run),
  );
  return { made, posted, turn: () => turns.shift()?.() };
}

test('only changed documents are handed over', () => {
  const { made, posted } = feed();
  made.start([document('a'), document('b')]);
  made.change([document('b', { match: 'true' }), ['rule/a/a', undefined]]);
  assert.deepEqual(
    posted.map(({ set, deleted, more }) => [set.map(([key]) => key), deleted, more]),
    [
      [['rule/a/a', 'rule/a/b'], [], false],
      [['rule/a/b'], ['rule/a/a'], false],
    ],
  );
});

test('many documents take several turns, and the newest version of each is handed over', () => {
  const { made, posted, turn } = feed();
  made.start(Array.from({ length: 300 }, (_, at) => document(`d${at}`)));
  made.change([document('d299', 'new'), ['rule/a/d298', undefined]]);
  while (posted.at(-1)?.more === true) turn();
  assert.deepEqual(
    posted.map(({ set, deleted, more }) => [set.length + deleted.length, more]),
    [
      [128, true],
      [128, true],
      [44, false],
    ],
  );
  assert.equal(posted.at(-1)?.set.at(-1)?.[1].spec, 'new');
  assert.deepEqual(posted.at(-1)?.deleted, ['rule/a/d298']);
});

test('a thread without documents is configured as well', () => {
  const { made, posted } = feed();
  made.start([]);
  assert.deepEqual(posted, [{ kind: 'configure', set: [], deleted: [], more: false }]);
});
