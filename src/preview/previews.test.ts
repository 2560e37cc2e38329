import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CtlError } from '../core/errors.ts';
import { InlineGenerator, type Previewer } from '../push/index.ts';
import { content, endpoints, Mesh, service, sidecar, virtualService } from '../push/testing/mesh.ts';
import { documentLimits, keyOf } from '../resources/index.ts';
import { createStore, type Store } from '../store/index.ts';
import { Previews } from './index.ts';
import type { PreviewsOptions } from './previews.ts';
import type { PreviewCaller } from './types.ts';

const RESOURCES = [
  service('shop', 'web'),
  endpoints('shop', 'web', '10.0.0.1'),
  service('bank', 'pay'),
  endpoints('bank', 'pay', '10.0.0.2'),
  virtualService('shop', 'web', '3s'),
];
const EVERYTHING: PreviewCaller = { id: 'a', sees: () => true };
const SHOP: PreviewCaller = { id: 'b', sees: (namespace) => namespace === 'shop' };
const NEVER = new AbortController().signal;

function storeOf(): Store {
  const store = createStore({
    sources: [{ id: 'directory', cluster: 'c' }],
    cluster: 'c',
    appNamespaces: [],
    rootNamespace: 'mesh-system',
    onRefused: () => {},
    onResolved: () => {},
  });
  store.apply(
    'directory',
    RESOURCES.map((resource) => ({ type: 'set', resource, eventTime: 0 }) as const),
  );
  store.take();
  return store;
}

async function start() {
  const generators: InlineGenerator[] = [];
  const mesh = new Mesh((snapshot) => {
    const made = new InlineGenerator(snapshot);
    generators.push(made);
    return made;
  }, RESOURCES);
  const [generator] = generators;
  assert.ok(generator !== undefined);
  const proxies = [mesh.connect(sidecar('10.1.0.1', 'shop')), mesh.connect(sidecar('10.1.0.2', 'bank'))];
  await mesh.settled();
  const previewsOf = (previewer: Previewer, isDirectory = true, more: Partial<PreviewsOptions> = {}) =>
    new Previews({
      model: mesh.model,
      engine: mesh.engine,
      previewer,
      store: storeOf(),
      target: {
        source: 'directory',
        isDirectory,
        limits: documentLimits(1),
        rootNamespace: 'mesh-system',
        now: () => 0,
      },
      translated: (changes) => ({ changes, notes: [] }),
      now: () => performance.now(),
      later: (_, run) => void setImmediate(run),
      nextTurn,
      ...more,
    });
  return { mesh, proxies, generator, previews: previewsOf(generator), previewsOf };
}

const body = (text: string, more: object = {}) =>
  Buffer.from(JSON.stringify({ files: [{ file: 'a.yaml', text }], ...more }));

const route = (timeout: string, namespace = 'shop') =>
  `apiVersion: networking.mesh.io/v1\nkind: VirtualService\nmetadata: {name: web, namespace: ${namespace}}\n` +
  `spec: {hosts: [web], exportTo: ["."], http: [{route: [{destination: {host: web}}], timeout: ${timeout}}]}\n`;

describe('a preview', () => {
  it('names the proxies and fields that a change touches, and changes nothing', async () => {
    const { mesh, proxies, previews } = await start();
    const [before, version, pushes] = [
      proxies.map(({ session }) => content(session)),
      mesh.snapshot.version,
      proxies.map((proxy) => proxy.pushes.length),
    ];
    const views = [...mesh.engine.views()].map(({ key, isDirty, inFlight }) => [key, isDirty, inFlight]);
    const { documents, proxies: touched, resources } = await previews.run(body(route('5s')), EVERYTHING, NEVER);
    assert.deepEqual(documents, [{ key: 'VirtualService/shop/web', at: 'a.yaml:1', effect: 'changed' }]);
    assert.deepEqual([touched.connected, touched.touched, touched.workloads[0]?.workload], [2, 1, 'pod']);
    const [change, ...more] = resources.list;
    assert.deepEqual([change?.type, change?.name, change?.effect, more], ['rds', '80', 'changed', []]);
    assert.deepEqual(change?.fields, [
      { path: 'virtual_hosts[web.shop.svc.cluster.local:80].routes[0].route.timeout', before: '3s', after: '5s' },
    ]);
    assert.deepEqual(
      [
        proxies.map(({ session }) => content(session)),
        mesh.snapshot.version,
        proxies.map((proxy) => proxy.pushes.length),
        [...mesh.engine.views()].map(({ key, isDirty, inFlight }) => [key, isDirty, inFlight]),
      ],
      [before, version, pushes, views],
    );
  });

  it('says how many of the proxies are on demand', async () => {
    const { mesh, previews } = await start();
    const node = { ...sidecar('10.1.0.3', 'shop'), discoversVirtualHosts: true };
    mesh.connect({ ...node, options: { configuration: 'on-demand' } });
    await mesh.settled();
    const { proxies, notes } = await previews.run(body(route('5s')), EVERYTHING, NEVER);
    assert.equal(proxies.touched, 2);
    assert.deepEqual(notes, ['proxies on demand are counted whether they hold what changes or not: 1']);
  });

  it('compares endpoints, and the views that proxies would move to', async () => {
    const { previews } = await start();
    const text = [
      'apiVersion: v1\nkind: Endpoints\nmetadata: {name: web, namespace: shop}\nsubsets:\n' +
        '- {addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.9}], ports: [{name: http, port: 8080}]}\n',
      'apiVersion: networking.mesh.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: bank}\n' +
        'spec: {egress: [{hosts: ["./*"]}]}\n',
    ].join('---\n');
    const { resources, proxies } = await previews.run(body(text), EVERYTHING, NEVER);
    const list = resources.list.map(({ type, name, effect }) => `${effect} ${type} ${name}`);
    const web = 'outbound|80||web.shop.svc.cluster.local';
    assert.ok(list.includes(`changed eds ${web}`) && list.includes(`removed eds ${web}`), list.join());
    assert.ok(list.includes(`removed cds ${web}`));
    assert.equal(proxies.touched, 2);
  });

  it('deletes what a whole directory does not have', async () => {
    const { previews } = await start();
    const { documents, resources } = await previews.run(
      body(route('3s'), { replaceDirectory: true }),
      EVERYTHING,
      NEVER,
    );
    const removed = documents.flatMap(({ effect, key }) => (effect === 'removed' ? key : []));
    assert.deepEqual(
      removed.sort(),
      RESOURCES.map(keyOf)
        .filter((key) => !key.startsWith('Virtual'))
        .sort(),
    );
    assert.ok(resources.list.some(({ type, effect }) => type === 'cds' && effect === 'removed'));
  });

  it('keeps the last good version of a refused document, and puts a refused policy without one in force as strict', async () => {
    const { previews } = await start();
    const broken = await previews.run(body(route('never')), EVERYTHING, NEVER);
    assert.equal(broken.documents[0]?.effect, 'refused');
    assert.match(broken.documents[0].message ?? '', /timeout.*the last good version stays in force/);
    assert.equal(broken.proxies.touched, 0);
    const policy =
      'apiVersion: security.mesh.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\nspec: {rules: 1}\n';
    const strict = await previews.run(body(policy), EVERYTHING, NEVER);
    assert.match(strict.documents[0]?.message ?? '', /the strictest policy that it can be would be in force/);
    assert.equal(strict.proxies.touched, 1);
  });

  it('says what policies open and close', async () => {
    const { previews } = await start();
    const policy = (kind: string, spec: string) =>
      `apiVersion: security.mesh.io/v1\nkind: ${kind}\nmetadata: {name: p, namespace: shop}\nspec: ${spec}\n`;
    const said = async (...documents: readonly string[]) =>
      (await previews.run(body(documents.join('---\n')), EVERYTHING, NEVER)).policies.map(
        ({ effect, message, namespaces, proxies }) => `${effect} ${namespaces.join()} ${proxies}: ${message}`,
      );
    assert.deepEqual(await said(policy('AuthorizationPolicy', '{rules: [{to: [{operation: {methods: [GET]}}]}]}')), [
      'closes shop 1: requests that no rule of AuthorizationPolicy/shop/p allows are denied',
    ]);
    assert.deepEqual(
      await said(policy('AuthorizationPolicy', '{action: DENY, rules: [{to: [{operation: {methods: [GET]}}]}]}')),
      ['closes shop 1: AuthorizationPolicy/shop/p adds 1 rules that deny requests'],
    );
    assert.deepEqual(await said(policy('PeerAuthentication', '{mtls: {mode: STRICT}}')), [
      'closes shop 1: mutual TLS: PERMISSIVE becomes STRICT',
    ]);
  });

  it('names routes that are never reached', async () => {
    const { previews } = await start();
    const text = route('5s').replace('http: [', 'http: [{route: [{destination: {host: web}}]}, ');
    const { unreachedRoutes } = await previews.run(body(text), EVERYTHING, NEVER);
    assert.deepEqual(unreachedRoutes, [
      { key: 'VirtualService/shop/web', route: 'prefix /', field: 'spec.http[1]', takenBy: 'spec.http[0] (prefix /)' },
    ]);
  });

  it('shows a caller of one namespace this namespace alone', async () => {
    const { previews } = await start();
    const exported = route('5s')
      .replace('exportTo: ["."], ', '')
      .replace('hosts: [web]', 'hosts: [web.shop.svc.cluster.local]');
    const everything = await previews.run(body(exported), EVERYTHING, NEVER);
    const own = await previews.run(body(exported), SHOP, NEVER);
    assert.deepEqual([everything.proxies.touched, own.proxies.touched, own.proxies.connected], [2, 1, 1]);
    assert.deepEqual(own.notes, ['proxies of other namespaces are not shown']);
    const refused = { code: 'permission_denied' };
    await assert.rejects(previews.run(body(route('5s', 'bank')), SHOP, NEVER), refused);
    await assert.rejects(previews.run(body(route('x', 'bank')), SHOP, NEVER), refused);
    await assert.rejects(previews.run(body('', { replaceDirectory: true }), SHOP, NEVER), refused);
  });

  it('waits for its turn among callers, has a limit of those that wait, and ends with its caller', async () => {
    const { generator, previewsOf } = await start();
    const held: (() => void)[] = [];
    const previews = previewsOf({
      preview: (source, signal) =>
        new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('gone')));
          held.push(() => resolve(generator.preview(source, signal)));
        }),
    });
    const served: string[] = [];
    const ask = (id: string, signal = NEVER) =>
      previews.run(body(route('5s')), { ...EVERYTHING, id }, signal).then(() => served.push(id));
    const gone = new AbortController();
    const all = [ask('greedy'), ...Array.from({ length: 4 }, () => ask('greedy')), ask('honest')];
    await assert.rejects(ask('greedy'), { code: 'unavailable' });
    const left = assert.rejects(ask('impatient', gone.signal), { code: 'deadline_exceeded' });
    gone.abort();
    await left;
    for (let count = 0; count < all.length; ) {
      await nextTurn();
      const next = held.shift();
      if (next === undefined) continue;
      next();
      count++;
    }
    await Promise.all(all);
    assert.deepEqual(served.slice(0, 2), ['greedy', 'honest']);
  });

  it('keeps places in the queue for callers who see everything', async () => {
    const { generator, previewsOf } = await start();
    const held: (() => void)[] = [];
    const previews = previewsOf({
      preview: (...call) => new Promise((resolve) => held.push(() => resolve(generator.preview(...call)))),
    });
    const gone = new AbortController();
    const ask = (caller: PreviewCaller) =>
      previews.run(body(route('5s')), caller, gone.signal).catch(({ code }: { code: string }) => code);
    const first = ask(EVERYTHING);
    const asked = Array.from({ length: 40 }, (_, index) => ask({ ...SHOP, id: `namespace ${index % 10}` }));
    let refused = 0;
    for (const each of asked) void each.then((code) => (refused += code === 'unavailable' ? 1 : 0));
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    assert.ok(refused >= 28 && refused < 40, String(refused));
    let outcome: unknown;
    const last = ask(EVERYTHING).then((code) => {
      outcome = code;
    });
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    assert.equal(outcome, undefined);
    gone.abort();
    for (const go of held) go();
    await Promise.all([first, last, ...asked]);
  });

  it('is refused for a minute to a caller whose preview ended a worker', async () => {
    const { generator, previewsOf } = await start();
    let [time, isFatal] = [0, true];
    const previews = previewsOf(
      {
        preview(source, signal) {
          if (!isFatal) return generator.preview(source, signal);
          isFatal = false;
          source.onWorkerLost();
          return Promise.reject(new CtlError('internal', 'took longer than 15 s'));
        },
      },
      true,
      { now: () => time },
    );
    const ask = (id: string) => previews.run(body(route('5s')), { ...EVERYTHING, id }, NEVER);
    const first = ask('a');
    const second = ask('a');
    await assert.rejects(first, { code: 'internal' });
    await assert.rejects(second, { code: 'unavailable', message: /ended a generation worker/ });
    await ask('b');
    await assert.rejects(ask('a'), { code: 'unavailable' });
    time += 60_000;
    await ask('a');
  });

  it('is followed by a rest as long as it took of the main thread', async () => {
    const { generator, previewsOf } = await start();
    const rests: { readonly ms: number; readonly end: () => void }[] = [];
    let time = 0;
    const previews = previewsOf(generator, true, {
      now: () => ++time,
      later: (ms, end) => void rests.push({ ms, end }),
    });
    await previews.run(body(route('5s')), EVERYTHING, NEVER);
    let isServed = false;
    const second = previews.run(body(route('6s')), SHOP, NEVER).then(() => {
      isServed = true;
    });
    for (let turns = 0; turns < 50; turns++) await nextTurn();
    assert.ok(!isServed && rests.length === 1 && (rests[0]?.ms ?? 0) > 10, JSON.stringify(rests));
    rests[0]?.end();
    await second;
  });

  it('counts the proxies of a document of a cluster for a warning, not while others ask', async () => {
    const { generator, previewsOf } = await start();
    const held: (() => void)[] = [];
    const previews = previewsOf(
      { preview: (...call) => new Promise((resolve) => held.push(() => resolve(generator.preview(...call)))) },
      false,
    );
    assert.equal(await previews.touchedBy(virtualService('shop', 'web', '5s')), 1);
    const asking = previews.run(body(route('5s')), EVERYTHING, NEVER);
    assert.equal(await previews.touchedBy(virtualService('shop', 'web', '6s')), undefined);
    while (held.length === 0) await nextTurn();
    held[0]?.();
    await asking;
    const counts = [];
    for (let count = 0; count < 6; count++) counts.push(await previews.touchedBy(virtualService('shop', 'web', '3s')));
    assert.deepEqual([counts[0], counts.at(-1)], [0, undefined]);
  });

  it('refuses what is not a request', async () => {
    const { previews } = await start();
    const invalid = { code: 'invalid_argument' };
    for (const text of ['', '{}', 'no', '{"files": [{"file": "a"}]}', '{"other": 1}'])
      await assert.rejects(previews.run(Buffer.from(text), EVERYTHING, NEVER), invalid, text);
    const long = Buffer.from(`{"files": [{"file": "a", "text": "${'x'.repeat(5 * 1024 * 1024)}"}]}`);
    await assert.rejects(previews.run(long, EVERYTHING, NEVER), { code: 'resource_exhausted' });
    const many = JSON.stringify({ files: Array.from({ length: 150_000 }, () => ({ file: 'a', text: '' })) });
    await assert.rejects(previews.run(Buffer.from(many), EVERYTHING, NEVER), {
      code: 'resource_exhausted',
      message: /at most 50000 files/,
    });
  });
});
