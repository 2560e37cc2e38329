import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ResourceEvent } from '../../resources/index.ts';
import { OrderedSink } from './ordered-sink.ts';

const gone = (name: string): ResourceEvent => ({ type: 'delete', key: `Service/ns/${name}`, eventTime: 0 });
const list = { kinds: ['Service' as const], events: [], eventTime: 0 };

/** A sink that applies each list until the test says so, and refuses the changes of `broken`. */
function ordered() {
  const passed: string[] = [];
  const lists: PromiseWithResolvers<void>[] = [];
  const sink = new OrderedSink({
    apply: (events) => {
      const names = events.map((event) => (event.type === 'delete' ? event.key.slice('Service/ns/'.length) : ''));
      passed.push(...names);
      if (names.includes('broken')) throw new Error('a bug');
    },
    replace: () => assert.fail(),
    replaceInSlices: () => {
      passed.push('list');
      lists.push(Promise.withResolvers());
      return lists.at(-1)?.promise;
    },
    changing: () => {},
  });
  return { sink, passed, lists };
}

describe('reports of collections', () => {
  test('are passed on at once, and wait in their order for a list that is being applied', async () => {
    const { sink, passed, lists } = ordered();
    assert.equal(sink.apply([gone('a')]), undefined);
    const first = sink.replace(list);
    const later = [sink.apply([gone('b')]), sink.replace(list), sink.apply([gone('c')])];
    assert.deepEqual(passed, ['a', 'list']);
    lists[0]?.resolve();
    await Promise.all([first, later[0]]);
    assert.deepEqual(passed, ['a', 'list', 'b', 'list']);
    lists[1]?.resolve();
    await Promise.all(later);
    assert.equal(sink.apply([gone('d')]), undefined);
    assert.deepEqual(passed, ['a', 'list', 'b', 'list', 'c', 'd']);
  });

  test('that cannot be applied hold up no later ones, and are dropped when the source is closed', async () => {
    const { sink, passed, lists } = ordered();
    const failing = sink.replace(list);
    const [broken, later] = [sink.apply([gone('broken')]), sink.apply([gone('b')])];
    lists[0]?.reject(new Error('a bug'));
    for (const each of [failing, broken]) await assert.rejects(async () => each, /a bug/);
    await later;
    assert.deepEqual(passed, ['list', 'broken', 'b']);
    assert.throws(() => sink.apply([gone('broken')]), /a bug/);
    void sink.replace(list);
    void sink.apply([gone('c')]);
    sink.close();
    lists[1]?.resolve();
    await lists[1]?.promise;
    assert.deepEqual(passed, ['list', 'broken', 'b', 'broken', 'list']);
  });
});
