import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inputOfSnapshot } from '../analysis/testing/input.ts';
import { parse, snapshotOf } from '../push/testing/mesh.ts';
import { defaultMeshConfig } from '../resources/index.ts';
import { ScriptedSource } from '../sources/testing/scripted.ts';
import { createStore, RefusedPolicies } from '../store/index.ts';
import { problem, resource } from '../store/testing/documents.ts';
import { Follower } from '../store/testing/follower.ts';
import { Memory } from '../store/testing/memory.ts';
import { configz } from './configz.ts';
import { jsonPieces } from './json-pieces.ts';
import type { DebugSource } from './types.ts';
import { Viewed, type Viewer } from './viewed.ts';

interface Shown {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly source: string;
  readonly origin: object;
  readonly held?: true;
  readonly spec: object;
  readonly others?: readonly Shown[];
  readonly refused?: readonly { readonly field: string }[];
  readonly warnings?: readonly object[];
}

interface Page {
  readonly sources?: readonly object[];
  readonly items: readonly Shown[];
  readonly next?: number;
  readonly otherKinds: readonly { readonly key: string; readonly others: readonly object[] }[];
  readonly problems: readonly { readonly id: string; readonly origin: { readonly source: string } }[];
}

/** The page for these sources, in configured order. */
function pageOf(sources: readonly ScriptedSource[], viewer: Viewer = 'all', query = ''): Page {
  const refusedPolicies = new RefusedPolicies({ lastGood: new Memory(), rootNamespace: 'root' });
  const store = createStore({
    sources,
    cluster: 'home',
    appNamespaces: [],
    rootNamespace: 'root',
    refusedPolicies,
    onRefused: () => {},
    onResolved: () => {},
  });
  for (const source of sources) {
    source.start({
      apply: (events) => void store.apply(source.id, events),
      replace: (list) => void store.replace(source.id, list),
      changing: () => {},
    });
    source.list();
  }
  const snapshot = snapshotOf([...new Follower(store).inForce().values()]);
  const source: DebugSource = {
    snapshot: () => snapshot,
    leadership: () => [],
    sources: () => sources.map((each) => ({ id: each.id, cluster: each.cluster, synced: true, health: each.health() })),
    documents: (key) => store.documents(key),
    warningsOf: (key) => [{ field: 'spec', message: `about ${key}` }],
    reasonsFor: () => [],
    readersOf: () => new Map(),
    sharedKeys: () => store.sharedKeys(),
    problems: () => store.problems(),
    connections: () => [],
    parts: () => [],
    refusedPolicies: () => refusedPolicies.all(),
    findings: () => [],
    engine: () => ({}),
    withheld: () => [],
    failing: () => [],
    replica: 'one',
    mesh: () => defaultMeshConfig(),
    injection: () => ({}),
    analysisInput: () => inputOfSnapshot(snapshot, source.problems()),
    showConfigInAdsz: false,
  };
  return JSON.parse([...jsonPieces(configz(new Viewed(source, viewer), new URLSearchParams(query)))].join('')) as Page;
}

function twoSources(): [ScriptedSource, ScriptedSource] {
  return [new ScriptedSource({ id: 'files', cluster: 'home' }), new ScriptedSource({ id: 'api', cluster: 'home' })];
}

test('a resource has its source, uid and generation, and the documents of its key that are not in force', () => {
  const [files, api] = twoSources();
  files.set(resource('VirtualService', 'a', 1));
  api.set(resource('VirtualService', 'a', 2));
  api.set(resource('VirtualService', 'a', 3));
  api.set(resource('VirtualService', 'b', 4));
  const [a, b, ...none] = pageOf([files, api]).items;
  assert.deepEqual(none, []);
  assert.deepEqual(
    [a?.source, a?.origin, a?.others?.map(({ source, origin }) => [source, origin])],
    [
      'files',
      { source: 'files', uid: 'files-1', generation: 1, resourceVersion: '1' },
      [['api', { source: 'api', uid: 'api-1', generation: 2, resourceVersion: '2' }]],
    ],
  );
  assert.match(JSON.stringify(a?.others?.[0]?.spec), /"number":3/);
  assert.deepEqual([b?.source, b?.others, b?.refused], ['api', undefined, undefined]);
});

test('a refused document has its problem and the document in force instead', () => {
  const [files, api] = twoSources();
  files.refuse(problem('AuthorizationPolicy', 'a'));
  api.set(resource('AuthorizationPolicy', 'a', 2));
  api.refuse(problem('VirtualService', 'b'));
  const { items, problems } = pageOf([files, api]);
  const [a, ...none] = items;
  assert.deepEqual(none, []);
  assert.deepEqual([a?.source, a?.held, a?.others?.map(({ source }) => source)], ['files', true, ['api']]);
  assert.deepEqual(
    a?.refused?.map(({ field }) => field),
    ['spec.rules[0].to[0].operation.ports[0]'],
  );
  assert.deepEqual(
    problems.map(({ id, origin }) => `${origin.source} ${id}`),
    ['files AuthorizationPolicy/ns/a', 'api VirtualService/ns/b'],
  );
});

test('a resource has the warnings about it that depend on others', () => {
  const [files, api] = twoSources();
  api.set(resource('VirtualService', 'a', 1));
  assert.deepEqual(
    pageOf([files, api]).items.map(({ warnings }) => warnings),
    [[{ field: 'spec', message: 'about VirtualService/ns/a' }]],
  );
});

test('items are searched by name and listed a page at a time', () => {
  const [files, api] = twoSources();
  for (const name of ['a1', 'a2', 'a3', 'b']) api.set(resource('VirtualService', name, 1));
  const listed = (parameters: Record<string, string>) => {
    const { items, next } = pageOf([files, api], 'all', new URLSearchParams(parameters).toString());
    return [...items.map(({ metadata }) => metadata.name), next];
  };
  assert.deepEqual(listed({ limit: '2' }), ['a1', 'a2', 2]);
  assert.deepEqual(listed({ limit: '2', start: '2' }), ['a3', 'b', undefined]);
  assert.deepEqual(listed({ search: 'a', limit: '3' }), ['a1', 'a2', 'a3', undefined]);
  assert.deepEqual(listed({ limit: '0' }), [0]);
  assert.throws(() => listed({ limit: 'all' }), { code: 'invalid_argument' });
});

test('documents of other kinds from several sources are listed without content', () => {
  const [files, api] = twoSources();
  const secret = (value: string) =>
    parse({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 's', namespace: 'ns' },
      stringData: { password: value },
    });
  files.set(secret('hidden-1'));
  api.set(secret('hidden-2'));
  api.set(parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } }));
  const page = pageOf([files, api]);
  assert.deepEqual(page.otherKinds, [
    {
      key: 'Secret/ns/s',
      source: 'files',
      origin: { source: 'files', uid: 'files-1', generation: 1, resourceVersion: '1' },
      others: [{ origin: { source: 'api', uid: 'api-1', generation: 1, resourceVersion: '1' }, source: 'api' }],
    },
  ]);
  assert.doesNotMatch(JSON.stringify(page), /hidden/);
});

test('secrets are redacted also in documents that are not in force', () => {
  const [files, api] = twoSources();
  for (const source of [files, api]) {
    const spec = { jwtRules: [{ issuer: 'i', jwksUri: `https://user:hidden-${source.id}@keys.example/` }] };
    const document = { kind: 'RequestAuthentication', metadata: { name: 'r', namespace: 'ns' }, spec };
    source.set(parse({ apiVersion: 'security.mesh.io/v1beta1', ...document }));
  }
  const page = pageOf([files, api]);
  assert.equal(page.items[0]?.others?.length, 1);
  assert.doesNotMatch(JSON.stringify(page), /hidden/);
});

test('only a viewer who sees everything sees the sources and their health', () => {
  const [files, api] = twoSources();
  files.set(resource('VirtualService', 'a', 1));
  files.disconnect('config directory /x does not exist');
  const all = pageOf([api]).sources;
  assert.deepEqual(all, [{ id: 'api', cluster: 'home', synced: true, health: { ok: true } }]);
  assert.equal(pageOf([files, api], { namespace: 'ns' }).sources, undefined);
});

test('a viewer of one namespace sees no document of another namespace', () => {
  const [files, api] = twoSources();
  for (const source of [files, api]) {
    source.set(resource('VirtualService', 'a', 1));
    source.set(parse({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c', namespace: 'ns' } }));
    source.set(parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } }));
  }
  const counts = (namespace: string) => {
    const { items, otherKinds } = pageOf([files, api], { namespace });
    return [items.length, otherKinds.map(({ key }) => key)];
  };
  assert.deepEqual(
    [counts('ns'), counts('other')],
    [
      [1, ['ConfigMap/ns/c']],
      [0, []],
    ],
  );
});
