import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReadIndex, ReadSet } from './read-index.ts';

const readers = (index: ReadIndex<string>, fact: string) =>
  [...index.readersOf(fact)].map(([reader, parts]) => `${reader} ${[...parts].join()}`);

describe('read index', () => {
  it('finds the readers of a fact, and the parts that read it', () => {
    const index = new ReadIndex<string>();
    const shared = new ReadSet(['host web', 'mesh']);
    index.set('a', 'cds/web', shared);
    index.set('b', 'cds/web', shared);
    index.set('b', 'lds/80', shared);
    index.set('b', 'cds/db', new ReadSet(['host db', 'mesh']));
    assert.deepEqual(readers(index, 'host web'), ['a cds/web', 'b cds/web,lds/80']);
    assert.deepEqual(readers(index, 'mesh'), ['a cds/web', 'b cds/web,lds/80', 'b cds/db']);
    assert.deepEqual(readers(index, 'host other'), []);
  });

  it('has the latest reads, and nothing of readers and parts that are gone', () => {
    const index = new ReadIndex<string>();
    index.set('a', 'one', new ReadSet(['x']));
    index.set('a', 'one', new ReadSet(['y']));
    index.set('a', 'two', new ReadSet(['y', 'z']));
    assert.deepEqual([readers(index, 'x'), readers(index, 'y')], [[], ['a one', 'a two']]);
    index.set('a', 'one', undefined);
    assert.deepEqual(readers(index, 'y'), ['a two']);
    index.drop('a');
    assert.deepEqual([readers(index, 'y'), index.size, index.partsOf('a').size], [[], 0, 0]);
  });
});
