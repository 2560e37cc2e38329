import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problem, resource } from './testing/documents.ts';
import { openWorld as open, said } from './testing/world.ts';

type World = ReturnType<typeof open>;

const keysOf = ({ follower }: World): string[] => [...follower.inForce().keys()].sort();

const problemIds = ({ store }: World): string[] => store.problems().map(({ id }) => id);

test('a list of some kinds does not affect other kinds', () => {
  const world = open();
  const { store } = world;
  for (const kind of ['Service', 'VirtualService'] as const) {
    store.apply('files', [
      { type: 'set', resource: resource(kind, 'a', 1), eventTime: 0 },
      { type: 'set', resource: resource(kind, 'b', 1), eventTime: 0 },
      { type: 'invalid', problem: problem(kind, 'c', 'files'), eventTime: 0 },
    ]);
  }
  const events = [{ type: 'set', resource: resource('VirtualService', 'b', 1), eventTime: 1 }] as const;
  store.replace('files', { events, eventTime: 1, kinds: ['VirtualService', 'DestinationRule'] });
  assert.deepEqual(keysOf(world), ['Service/ns/a', 'Service/ns/b', 'VirtualService/ns/b']);
  assert.deepEqual(problemIds(world), ['Service/ns/c']);
});

test('a list of one namespace does not affect other namespaces, also in another cluster', () => {
  const world = open();
  const { store } = world;
  store.apply('east', [
    { type: 'set', resource: resource('Service', 'a', 1), eventTime: 0 },
    { type: 'invalid', problem: problem('Service', 'c', 'east'), eventTime: 0 },
  ]);
  store.replace('east', { events: [], eventTime: 1, kinds: ['Service'], namespace: 'other' });
  assert.deepEqual([keysOf(world), problemIds(world)], [['Service/ns/a/east'], ['Service/ns/c/east']]);
  store.replace('east', { events: [], eventTime: 2, kinds: ['Service'], namespace: 'ns' });
  assert.deepEqual([keysOf(world), problemIds(world)], [[], []]);
});

test('what is in force does not depend on when sources are added: the configured ones first, the others by id', () => {
  const world = open();
  const { store, follower } = world;
  const key = 'VirtualService/ns/a';
  const inForce = (): string[] => [...follower.inForce().values()].map(said);
  for (const [id, version] of [
    ['south', 1],
    ['north', 2],
    ['west', 3],
  ] as const) {
    store.add({ id, cluster: id });
    store.add({ id, cluster: id });
    store.apply(id, [{ type: 'set', resource: resource('VirtualService', 'a', version, id), eventTime: 0 }]);
  }
  assert.deepEqual(
    store.documents(key).map(({ source }) => source),
    ['north', 'south', 'west'],
  );
  assert.deepEqual(inForce(), ['VirtualService:2']);
  world.east.set(resource('VirtualService', 'a', 4));
  world.east.list();
  assert.deepEqual(inForce(), ['VirtualService:4']);
});

test('removing a source removes its documents, its problems, and the replacements of its refused policies', () => {
  const world = open();
  const { store, hold, lastGood, api, shared, clock } = world;
  hold.synced();
  api.set(resource('VirtualService', 'a', 1));
  api.list();
  store.add({ id: 'north', cluster: 'north' });
  store.apply('north', [
    { type: 'set', resource: resource('Service', 'a', 1), eventTime: 0 },
    { type: 'set', resource: resource('VirtualService', 'a', 2), eventTime: 0 },
    { type: 'set', resource: resource('AuthorizationPolicy', 'good', 1), eventTime: 0 },
    { type: 'invalid', problem: problem('AuthorizationPolicy', 'bad', 'north'), eventTime: 0 },
    { type: 'invalid', problem: problem('Service', 'bad', 'north'), eventTime: 0 },
  ]);
  assert.equal(keysOf(world).length, 4);
  clock.at = 7;
  const { changed } = store.remove('north', clock.at);
  assert.deepEqual([...changed].sort(), [
    'AuthorizationPolicy/ns/bad',
    'AuthorizationPolicy/ns/good',
    'Service/ns/a/north',
  ]);
  assert.deepEqual([keysOf(world), problemIds(world), hold.all()], [['VirtualService/ns/a'], [], []]);
  assert.equal(lastGood.size, 0);
  let retained: string[] = [];
  lastGood.retain = (keys) => {
    retained = [...keys.keys()];
  };
  hold.synced();
  assert.deepEqual(retained, ['api'], 'nothing is kept of it');
  assert.throws(() => store.apply('north', []), /no source north/);
  shared.length = 0;
  store.add({ id: 'north', cluster: 'north' });
  store.apply('north', [{ type: 'set', resource: resource('VirtualService', 'a', 2), eventTime: 0 }]);
  api.remove('VirtualService/ns/a');
  assert.deepEqual(shared, ['VirtualService/ns/a api north', 'VirtualService/ns/a api -> north']);
});

test('deleting a document that is not in force changes nothing', () => {
  const { files, api, shared } = open();
  for (const source of [files, api]) {
    source.set(resource('VirtualService', 'a', 1));
    source.list();
  }
  shared.length = 0;
  api.remove('VirtualService/ns/a');
  assert.deepEqual(shared, []);
});

test('a refused policy of an excluded namespace has no effect', () => {
  const world = open({ appNamespaces: ['shop'] });
  world.files.refuse(problem('AuthorizationPolicy', 'a'));
  world.files.list();
  assert.deepEqual([keysOf(world), problemIds(world), world.hold.all()], [[], [], []]);
});

test('deleting a restored policy drops its last good version: a refused one of the same name then counts as strictest', () => {
  const world = open();
  const { api, lastGood, hold, follower } = world;
  const inForce = (): string[] => [...follower.inForce().values()].map(said);
  api.list();
  hold.synced();
  lastGood.of('api').save(resource('AuthorizationPolicy', 'a', 1));
  api.refuse(problem('AuthorizationPolicy', 'a'));
  assert.deepEqual(inForce(), ['AuthorizationPolicy:1']);
  api.remove('AuthorizationPolicy/ns/a');
  assert.deepEqual([inForce(), lastGood.size], [[], 0]);
  api.refuse(problem('AuthorizationPolicy', 'a'));
  assert.deepEqual(inForce(), ['~']);
});

test('an unreadable document without a file does not restore every document without a file', () => {
  const { store, lastGood, hold } = open();
  const asked: string[] = [];
  lastGood.of = () => ({
    save: () => {},
    forget: () => {},
    load: () => undefined,
    ofFile: (file) => {
      asked.push(file);
      return [];
    },
  });
  const { key: _key, ...keyless } = problem('AuthorizationPolicy', 'x', 'api');
  const substitutes = (keyless.substitutes ?? []).map(({ name: _name, ...rest }) => rest);
  store.apply('api', [{ type: 'invalid', problem: { ...keyless, id: '7', substitutes }, eventTime: 0 }]);
  assert.deepEqual([hold.all()[0]?.inForce, asked], ['substitute', []]);
});
