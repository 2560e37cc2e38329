import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ResourceKey } from '../resources/kinds/types.ts';
import { RefusedPolicies } from './refused-policies.ts';
import { problem, resource } from './testing/documents.ts';
import { Memory } from './testing/memory.ts';
import { openWorld as open, SOURCES, said } from './testing/world.ts';

const sourcesOf = ({ store }: ReturnType<typeof open>, key: ResourceKey): string[] =>
  store
    .documents(key)
    .map(({ source, resource: each, replacesRefused }) => `${source} ${said(each)}${replacesRefused ? ' held' : ''}`);

test('the first of two sources with one key is in force; a delete removes only the document of that source', () => {
  const world = open();
  const { files, api, east, store } = world;
  const key = 'VirtualService/ns/a';
  api.set(resource('VirtualService', 'a', 2));
  for (const source of [files, api]) source.list();
  assert.deepEqual(sourcesOf(world, key), ['api VirtualService:2']);
  files.set(resource('VirtualService', 'a', 1));
  assert.deepEqual(sourcesOf(world, key), ['files VirtualService:1', 'api VirtualService:2']);
  east.set(resource('VirtualService', 'a', 9));
  east.list();
  assert.deepEqual([...store.sharedKeys()], [key]);
  east.remove(key);
  store.take();
  api.set(resource('VirtualService', 'a', 3));
  assert.equal(store.hasPending(), false, 'what is not in force changes nothing');
  files.remove(key);
  assert.deepEqual(
    store.take().changes.map(({ before, after }) => [before, after].map((each) => each && said(each))),
    [['VirtualService:1', 'VirtualService:3']],
  );
  assert.deepEqual([...store.sharedKeys()], []);
  api.remove(key);
  assert.equal(store.get(key), undefined);
});

test('different documents with one key are reported once, not for every version', () => {
  const { files, api, east, shared } = open();
  for (const source of [files, api, east]) source.list();
  api.set(resource('VirtualService', 'a', 1));
  api.set(resource('VirtualService', 'a', 2));
  for (const source of [east, api]) source.set(resource('Service', 'a', 1));
  assert.deepEqual(shared, []);
  files.set(resource('VirtualService', 'a', 1));
  files.set(resource('VirtualService', 'a', 3));
  east.set(resource('VirtualService', 'a', 2));
  assert.deepEqual(shared, ['VirtualService/ns/a files api', 'VirtualService/ns/a files api east']);
});

test('equal documents of several sources are not reported before one of them changes', () => {
  const { files, api, east, shared } = open();
  for (const source of [files, api, east]) {
    source.set(resource('VirtualService', 'a', 1));
    source.list();
  }
  assert.deepEqual(shared, []);
  api.set(resource('VirtualService', 'a', 2));
  assert.deepEqual(shared, ['VirtualService/ns/a files api']);
  shared.length = 0;
  files.set(resource('VirtualService', 'a', 2));
  assert.deepEqual(shared, ['VirtualService/ns/a files east']);
});

test('documents and problems that a list does not have are removed; those of other sources remain', () => {
  const world = open();
  const { files, api, store, lines } = world;
  for (const source of [files, api]) {
    for (const name of ['a', 'b']) source.set(resource('VirtualService', name, 1));
    source.refuse(problem('VirtualService', 'c'));
    source.list();
  }
  api.disconnect('connection reset');
  api.remove('VirtualService/ns/a');
  api.remove('VirtualService/ns/c');
  assert.deepEqual(sourcesOf(world, 'VirtualService/ns/a'), ['files VirtualService:1', 'api VirtualService:1']);
  lines.length = 0;
  api.list();
  assert.deepEqual(sourcesOf(world, 'VirtualService/ns/a'), ['files VirtualService:1']);
  assert.deepEqual(sourcesOf(world, 'VirtualService/ns/b').length, 2);
  assert.deepEqual(
    store.problems().map(({ id, origin }) => [id, origin.source]),
    [['VirtualService/ns/c', 'files']],
  );
  assert.deepEqual(lines, ['api can be read again', 'api: VirtualService/ns/c resolved']);
});

test('a source that is disconnected changes nothing in force; the log says so once', () => {
  const { files, store, follower, lines } = open();
  files.set(resource('Service', 'a', 1));
  files.list();
  assert.equal(follower.inForce().size, 1);
  files.disconnect('connection refused');
  files.disconnect('connection refused');
  files.remove('Service/ns/a');
  files.set(resource('Service', 'b', 1));
  assert.deepEqual(
    [store.hasPending(), files.health()],
    [false, { ok: false, reason: 'connection refused', since: 0 }],
  );
  files.resume();
  assert.deepEqual([[...follower.inForce().keys()], files.health()], [['Service/ns/b'], { ok: true }]);
  assert.deepEqual(lines, ['connection refused; what it gave stays in force', 'files can be read again']);
});

test('resources of another cluster name their cluster; mesh resources do not', () => {
  const world = open();
  const { api, east, store, lines } = world;
  for (const source of [api, east]) {
    source.set(resource('Service', 'a', 1));
    source.set(resource('VirtualService', 'a', 1));
    source.refuse(problem('Service', 'b'));
    source.list();
  }
  assert.deepEqual(sourcesOf(world, 'Service/ns/a'), ['api Service:1']);
  assert.deepEqual(sourcesOf(world, 'Service/ns/a/east'), ['east Service:1']);
  assert.deepEqual(sourcesOf(world, 'VirtualService/ns/a'), ['api VirtualService:1', 'east VirtualService:1']);
  const [own, other] = [store.get('Service/ns/a'), store.get('Service/ns/a/east')];
  assert.deepEqual([own?.meta.cluster, other?.meta.cluster], [undefined, 'east']);
  assert.notEqual(own?.fingerprint, other?.fingerprint);
  east.remove('Service/ns/a');
  assert.ok(store.get('Service/ns/a') !== undefined && store.get('Service/ns/a/east') === undefined);
  lines.length = 0;
  east.set(resource('Service', 'b', 1));
  assert.deepEqual(lines, ['east: Service/ns/b/east resolved']);
  assert.deepEqual(
    store.problems().map(({ key }) => key),
    ['Service/ns/b'],
  );
});

test('a list with an unreadable document keeps the documents that it may be, and replacements', () => {
  const { store, hold, follower } = open();
  for (const name of ['a', 'b', 'c']) {
    store.apply('files', [{ type: 'set', resource: resource('VirtualService', name, 1), eventTime: 0 }]);
  }
  const { key: _key, ...keyless } = problem('AuthorizationPolicy', 'x', 'files');
  const substitutes = keyless.substitutes?.map(({ name: _name, ...rest }) => rest) ?? [];
  const refused = { ...keyless, id: 'x.yaml#0', substitutes, kept: ['VirtualService/ns/a'] };
  const list = () =>
    store.replace('files', {
      events: [
        { type: 'set', resource: resource('VirtualService', 'b', 2), eventTime: 1 },
        { type: 'invalid', problem: refused, eventTime: 1 },
      ],
      eventTime: 1,
    });
  const effects = ({ events }: ReturnType<typeof list>) => events.map(({ effect }) => effect);
  assert.deepEqual(effects(list()), ['delete', 'update', 'invalid']);
  const inForce = [...follower.inForce().values()].map(said).sort();
  assert.deepEqual(inForce, ['VirtualService:1', 'VirtualService:2', '~']);
  assert.deepEqual([effects(list()), store.hasPending()], [['update', 'invalid'], false]);
  store.replace('files', { events: [], eventTime: 2 });
  assert.deepEqual([follower.inForce().size, hold.all(), store.problems()], [0, [], []]);
});

test('problems of another cluster end when their source resolves them by its own id', () => {
  const { store, lines } = open();
  for (const source of ['api', 'east']) {
    store.apply(source, [{ type: 'invalid', problem: problem('Service', 'a', source), eventTime: 0 }]);
  }
  store.apply('east', [{ type: 'resolved', id: 'Service/ns/a', eventTime: 0 }]);
  assert.deepEqual(lines.at(-1), 'east: Service/ns/a/east resolved');
  assert.deepEqual(
    store.problems().map(({ key, origin }) => `${origin.source} ${key}`),
    ['api Service/ns/a'],
  );
});

test('uid, generation and version come from the source of the document in force, and change with it', () => {
  const { api, files, store } = open();
  for (const version of [1, 2]) api.set(resource('VirtualService', 'a', version));
  for (const source of [api, files]) source.list();
  const origin = () => store.documents('VirtualService/ns/a')[0]?.resource.origin;
  assert.deepEqual(origin(), { source: 'api', uid: 'api-1', generation: 2, resourceVersion: '2' });
  files.set(resource('VirtualService', 'a', 2));
  assert.deepEqual(origin(), { source: 'files', uid: 'files-1', generation: 1, resourceVersion: '1' });
});

test('a refused document keeps the last good one of its own source, and sources have separate problems', () => {
  const world = open();
  const { files, api, store } = world;
  for (const [index, source] of [files, api].entries()) {
    source.set(resource('VirtualService', 'a', index + 1));
    source.list();
    source.refuse(problem('VirtualService', 'a'));
  }
  const key = 'VirtualService/ns/a';
  assert.deepEqual(sourcesOf(world, key), ['files VirtualService:1', 'api VirtualService:2']);
  api.set(resource('VirtualService', 'a', 3));
  assert.deepEqual(
    store.problems().map(({ origin }) => origin.source),
    ['files'],
  );
  files.remove(key);
  assert.deepEqual([sourcesOf(world, key), store.problems()], [['api VirtualService:3'], []]);
});

test('a policy refused in the first source is not replaced by a good one of the second; the other way round nothing changes', () => {
  const world = open();
  const { files, api, hold } = world;
  const key = 'AuthorizationPolicy/ns/a';
  for (const source of [files, api]) source.list();
  api.set(resource('AuthorizationPolicy', 'a', 2));
  files.refuse(problem('AuthorizationPolicy', 'a'));
  assert.deepEqual(sourcesOf(world, key), ['files ~ held', 'api AuthorizationPolicy:2']);
  assert.equal(hold.of('files', key)?.inForce, 'substitute');
  assert.equal(hold.of('api', key), undefined);
  files.set(resource('AuthorizationPolicy', 'a', 1));
  assert.deepEqual([sourcesOf(world, key)[0], hold.all()], ['files AuthorizationPolicy:1', []]);
  api.refuse(problem('AuthorizationPolicy', 'a'));
  assert.deepEqual(sourcesOf(world, key), ['files AuthorizationPolicy:1', 'api AuthorizationPolicy:2']);
  files.refuse(problem('AuthorizationPolicy', 'a'));
  assert.deepEqual(sourcesOf(world, key)[0], 'files AuthorizationPolicy:1');
  files.remove(key);
  assert.deepEqual([sourcesOf(world, key), hold.all().length], [['api AuthorizationPolicy:2'], 1]);
  api.remove(key);
  assert.deepEqual([sourcesOf(world, key), hold.all()], [[], []]);
});

test('refused policies without a name in two sources are replaced separately, even with equal ids', () => {
  const { store, follower } = open();
  for (const [source, app] of [
    ['files', 'a'],
    ['api', 'b'],
  ] as const) {
    const { key: _key, ...keyless } = problem('AuthorizationPolicy', 'x', source);
    const substitutes = (keyless.substitutes ?? []).map(({ name: _name, content, ...rest }) => ({
      ...rest,
      content: { ...content, selector: { matchLabels: { app } } },
    }));
    store.apply(source, [{ type: 'invalid', problem: { ...keyless, id: 'policies#0', substitutes }, eventTime: 0 }]);
  }
  const selectors = [...follower.inForce().values()].map(({ content }) => JSON.stringify(content));
  assert.deepEqual(selectors.map((each) => /"app":"(.)"/.exec(each)?.[1]).sort(), ['a', 'b']);
});

test('after a restart each source’s own last good version counts', () => {
  const memory = new Memory();
  const key = 'AuthorizationPolicy/ns/a';
  const start = (tell: (source: string, hold: RefusedPolicies) => void) => {
    const hold = new RefusedPolicies({ lastGood: memory, rootNamespace: 'root' });
    for (const { id } of SOURCES) tell(id, hold);
    hold.synced();
    return hold;
  };
  start((source, hold) =>
    hold.admit(source, [{ type: 'set', resource: resource('AuthorizationPolicy', 'a', source.length), eventTime: 0 }]),
  );
  const restored = new Map<string, string[]>();
  start((source, hold) => {
    const events = hold.admit(source, [
      { type: 'invalid', problem: problem('AuthorizationPolicy', 'a', source), eventTime: 0 },
    ]);
    restored.set(
      source,
      events.flatMap((event) => (event.type === 'hold' ? said(event.resource) : [])),
    );
    if (source === 'api') hold.admit(source, [{ type: 'delete', key, eventTime: 0 }]);
  });
  assert.deepEqual(Object.fromEntries(restored), {
    files: ['AuthorizationPolicy:5'],
    api: ['AuthorizationPolicy:3'],
    east: ['AuthorizationPolicy:4'],
  });
  assert.deepEqual(
    [...memory.kept].map(([source, kept]) => [source, kept.size]),
    [
      ['files', 1],
      ['api', 0],
      ['east', 1],
    ],
  );
});

test('the time of a change is that of its earliest event, in whatever order the events came', () => {
  const { clock, files, api, store } = open();
  for (const source of [files, api]) source.list();
  const at = (time: number, happen: () => void): void => {
    clock.at = time;
    happen();
  };
  const taken = (filter?: (key: ResourceKey) => boolean): number => store.take(filter).eventTime;
  const [a, b] = ['a', 'b'].map((name) => (version: number) => resource('VirtualService', name, version));
  assert.ok(a !== undefined && b !== undefined);
  at(30, () => api.set(a(1)));
  at(20, () => api.set(a(2)));
  at(40, () => api.set(b(1)));
  assert.equal(taken(), 20, 'a later event may be of an earlier change');
  at(50, () => api.set(a(3)));
  at(60, () => files.set(a(4)));
  at(70, () => files.set(b(4)));
  assert.equal(
    taken((key) => key.endsWith('/b')),
    70,
    'of the keys that are taken',
  );
  assert.equal(taken(), 50, 'the first of several changes of a key, whichever source they are of');
  at(80, () => api.set(a(5)));
  at(90, () => files.remove('VirtualService/ns/a'));
  assert.equal(taken(), 90, 'a document that was not in force is not a change yet');
  at(100, () => api.set(a(6)));
  at(110, () => api.set(a(5)));
  at(120, () => api.set(a(7)));
  assert.equal(taken(), 120, 'an edit that is reverted is not a change');
});
