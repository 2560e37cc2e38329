/** What is reported of a kind that several collections hold. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventId, type ResourceEvent, type ResourceList, resourceKey } from '../../resources/index.ts';
import { KindFeed } from './kind-feed.ts';
import { readObject } from './read-object.ts';

const secret = (name: string, text = 'eA==') =>
  readObject(
    'kubernetes',
    'Secret',
    { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'shop' }, data: { text } },
    0,
  );

const KEY = resourceKey('Secret', 'shop', 'a');

/** A feed of Secrets, each a collection of its own, and what it reported. */
function feedOf(...names: readonly string[]) {
  const lists: ResourceList[] = [];
  const changes: ResourceEvent[] = [];
  let refusing = false;
  const feed = new KindFeed({
    source: 'kubernetes',
    kind: 'Secret',
    isShared: true,
    now: () => 9,
    sink: {
      apply: (events) => {
        if (refusing) throw new Error('refused');
        changes.push(...events);
      },
      replace: (list) => void lists.push(list),
    },
  });
  const members = new Map(names.map((name) => [name, feed.add(name, 0)]));
  const member = (name: string) => members.get(name) ?? feed.add(name, 0);
  const keys = () => changes.splice(0).map((event) => ('key' in event ? `-${event.key}` : eventId(event)));
  const refuse = (yes: boolean): void => {
    refusing = yes;
  };
  return { lists, changes, keys, member, refuse };
}

describe('a feed of a kind that several collections hold', () => {
  test('reports the whole kind once, and the list of one collection by itself after that', () => {
    const { lists, keys, member } = feedOf('a', 'b', 'c');
    for (const name of ['a', 'b', 'c']) member(name).onList([secret(name)]);
    assert.deepEqual(
      lists.map(({ events }) => events.length),
      [3],
    );
    keys();
    member('a').onList([secret('a', 'eQ==')]);
    assert.deepEqual([lists.length, keys()], [1, [KEY]]);
    member('a').onList([]);
    assert.deepEqual([lists.length, keys()], [1, [`-${KEY}`]]);
    member('b').remove();
    assert.deepEqual([lists.length, keys()], [1, ['-Secret/shop/b']]);
    member('d').onList([secret('d')]);
    assert.deepEqual([lists.length, keys()], [1, ['Secret/shop/d']]);
  });

  test('reports a deletion with the time at which it was received', () => {
    const { changes, member } = feedOf('a', 'b');
    for (const name of ['a', 'b']) member(name).onList([secret(name)]);
    changes.length = 0;
    member('a').onChanges([{ type: 'delete', key: KEY, eventTime: 4 }]);
    assert.deepEqual(changes, [{ type: 'delete', key: KEY, eventTime: 4 }]);
  });

  test('reports the whole kind again after changes that were not taken', () => {
    const { lists, member, refuse } = feedOf('a', 'b');
    for (const name of ['a', 'b']) member(name).onList([secret(name)]);
    refuse(true);
    assert.throws(() => member('a').onChanges([{ type: 'delete', key: KEY, eventTime: 0 }]), /refused/);
    refuse(false);
    member('b').onList([secret('b')]);
    assert.deepEqual(
      lists.map(({ events }) => events.length),
      [2, 1],
    );
  });
});
