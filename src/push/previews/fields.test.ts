import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fieldChanges, MAX_FIELDS } from './fields.ts';

const lines = (before: unknown, after: unknown): string[] =>
  fieldChanges(before, after).fields.map(
    ({ path, before: was, after: is }) => `${path}: ${JSON.stringify(was)} → ${JSON.stringify(is)}`,
  );

describe('fields of messages that differ', () => {
  it('have the path that Envoy gives them', () => {
    assert.deepEqual(lines({ a: { b: 1, c: [1, 2] } }, { a: { b: 2, c: [1, 3] }, d: true }), [
      'a.b: 1 → 2',
      'a.c[1]: 2 → 3',
      'd: undefined → true',
    ]);
    assert.deepEqual(lines({ m: { 'envoy.lb': 1 } }, { m: { 'envoy.lb': 2 } }), ['m["envoy.lb"]: 1 → 2']);
  });

  it('of named items are compared by name, and their order counts', () => {
    const [a, b] = [{ name: 'a', value: 1 }, { name: 'b' }];
    assert.deepEqual(lines({ l: [a, b] }, { l: [{ ...a, value: 2 }] }), [
      'l[a].value: 1 → 2',
      'l[b]: {"name":"b"} → undefined',
    ]);
    assert.deepEqual(lines({ l: [a, b] }, { l: [b, a] }), ['l (order): ["a","b"] → ["b","a"]']);
  });

  it('of other lists are compared between equal ends, so that an inserted item is one difference', () => {
    const route = (prefix: string) => ({ match: { prefix } });
    const before = [route('/a'), route('/')];
    assert.deepEqual(lines(before, [route('/a'), route('/b'), route('/')]), [
      '[1]: undefined → {"match":{"prefix":"/b"}}',
    ]);
    assert.deepEqual(lines(before, [route('/')]), ['[0]: {"match":{"prefix":"/a"}} → undefined']);
    assert.deepEqual(lines(before, [route('/a'), route('/c')]), ['[1].match.prefix: "/" → "/c"']);
  });

  it('are limited in number and size, and lists that are generated while they are read are read', () => {
    const many = (value: number) => Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`f${at}`, value]));
    const { fields, more } = fieldChanges(many(1), many(2));
    assert.deepEqual([fields.length, more], [MAX_FIELDS, 50 - MAX_FIELDS]);
    const [long] = fieldChanges({ a: '' }, { a: 'x'.repeat(10_000) }).fields;
    assert.match(String(long?.after), /^"x+… \(10002 characters\)$/);
    function* items() {
      yield { name: 'a' };
    }
    assert.deepEqual(lines({ l: items() }, { l: [{ name: 'a' }] }), []);
  });
});
