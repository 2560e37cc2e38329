/** Informers of a scripted API server: one list and one watch for all of a collection, and what each of them has. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection } from '../connection.ts';
import type { KubernetesObject } from '../objects.ts';
import { fastClock } from '../testing/fast-clock.ts';
import { cleanup, closeAll, gateway, listRequests, PATH, scripted, TYPE } from '../testing/followed-reflector.ts';
import type { ScriptedApiServer } from '../testing/scripted-api-server.ts';
import { Informer, type InformerOptions } from './informer.ts';

afterEach(closeAll);

const nameOf = ({ metadata }: KubernetesObject): string => metadata.name;

function connectTo(server: ScriptedApiServer): Connection {
  const access = server.access();
  const connection = new Connection({ access, clock: fastClock(50), random: () => 0, userAgent: 'test' });
  cleanup.push(() => connection.close());
  return connection;
}

function inform(connection: Connection, options: Partial<InformerOptions<string>> = {}) {
  const changes: string[] = [];
  const failures: string[] = [];
  const informer = new Informer<string>({
    connection,
    type: TYPE,
    convert: nameOf,
    onChange: (all, isList) => {
      for (const { name, before, after } of all) changes.push(`${name}: ${before ?? '-'} to ${after ?? '-'}`);
      if (isList) changes.push('list');
    },
    failures: { failed: (reason) => void failures.push(reason), succeeded: () => void failures.push('again') },
    ...options,
  });
  cleanup.push(() => informer.close());
  informer.start();
  const has = () => [...informer.values()].sort().join();
  return { informer, changes, failures, has };
}

describe('informers of one collection', () => {
  test('share its list and its watch, each with its own form and selection of the objects', async () => {
    const server = await scripted('a', 'b');
    server.set(PATH, { metadata: { name: 'a', namespace: 'other' } });
    const connection = connectTo(server);
    const all = inform(connection, { convert: ({ metadata }) => `${metadata.namespace}/${metadata.name}` });
    const shop = inform(connection, { namespace: 'shop' });
    const named = inform(connection, { name: 'a', convert: ({ metadata }) => metadata.namespace });
    await waitUntil(() => named.informer.isSynced);
    assert.deepEqual([all.has(), shop.has(), named.has()], ['other/a,shop/a,shop/b', 'a,b', 'other,shop']);
    server.remove(PATH, { name: 'a', namespace: 'shop' });
    server.set(PATH, gateway('c'));
    await waitUntil(() => shop.has() === 'b,c');
    assert.deepEqual([all.has(), named.has()], ['other/a,shop/b,shop/c', 'other']);
    assert.equal(server.requests.length, 1);
  });

  test('get what is retained where they join late, without a request', async () => {
    const server = await scripted('a', 'b');
    const connection = connectTo(server);
    const first = inform(connection, { retain: (object) => object });
    await waitUntil(() => first.informer.isSynced);
    server.set(PATH, gateway('c'));
    server.remove(PATH, { name: 'a', namespace: 'shop' });
    await waitUntil(() => first.has() === 'b,c');
    const late = inform(connection, { fromRetained: true });
    assert.equal(late.informer.isSynced, false);
    await waitUntil(() => late.has() === 'b,c');
    server.set(PATH, gateway('d'));
    await waitUntil(() => late.has() === 'b,c,d');
    assert.equal(server.requests.length, 1);
  });

  for (const [name, options] of Object.entries({
    'nothing is retained': {},
    'more is read than what is retained': { retain: (object: KubernetesObject) => ({ ...object, spec: undefined }) },
  }))
    test(`list once more where they join late and ${name}`, async () => {
      const server = await scripted('a');
      const connection = connectTo(server);
      const first = inform(connection, options);
      await waitUntil(() => first.informer.isSynced);
      const late = inform(connection);
      await waitUntil(() => late.has() === 'a' && server.watches(PATH) === 1);
      server.set(PATH, gateway('b'));
      await waitUntil(() => first.has() === 'a,b' && late.has() === 'a,b');
      assert.equal(listRequests(server).length, 2);
    });

  test('end one by one: the watch ends with the last, and the next one lists again', async () => {
    const server = await scripted('a');
    const connection = connectTo(server);
    const [one, two] = [inform(connection), inform(connection)];
    await waitUntil(() => two.informer.isSynced);
    await one.informer.close();
    server.set(PATH, gateway('b'));
    await waitUntil(() => two.has() === 'a,b');
    assert.equal(one.has(), 'a');
    await two.informer.close();
    await waitUntil(() => server.watches(PATH) === 0);
    const next = inform(connection);
    await waitUntil(() => next.has() === 'a,b');
  });

  test('that fail to process an event do not delay it for the others', async () => {
    const server = await scripted('a');
    const connection = connectTo(server);
    let isBroken = true;
    const broken = inform(connection, {
      onChange: () => {
        if (isBroken) throw new Error('not now');
      },
    });
    const other = inform(connection);
    await waitUntil(() => other.has() === 'a');
    isBroken = false;
    server.set(PATH, gateway('b'));
    await waitUntil(() => broken.has() === 'a,b' && other.has() === 'a,b');
  });

  test('of different connections share nothing', async () => {
    const server = await scripted('a');
    const [one, two] = [inform(connectTo(server)), inform(connectTo(server))];
    await waitUntil(() => one.has() === 'a' && two.has() === 'a');
    assert.equal(listRequests(server).length, 2);
  });
});

describe('an informer', () => {
  test('forgets an object that is not kept any more, and reports what changed', async () => {
    const server = await scripted('a');
    const it = inform(connectTo(server), {
      convert: ({ metadata, spec }) => (spec === 'x' ? undefined : metadata.name),
    });
    await waitUntil(() => it.has() === 'a');
    server.set(PATH, gateway('a', 'x'));
    await waitUntil(() => it.has() === '');
    server.set(PATH, gateway('b', 'x'));
    server.set(PATH, gateway('a', 'y'));
    await waitUntil(() => it.has() === 'a');
    assert.deepEqual(it.changes, ['a: - to a', 'list', 'a: a to -', 'a: - to a']);
  });

  test('finds objects by its index', async () => {
    const server = await scripted();
    for (const [name, group] of Object.entries({ a: 'x', b: 'y', c: 'x' })) server.set(PATH, gateway(name, group));
    const groups = new Map([
      ['a', 'x'],
      ['b', 'y'],
      ['c', 'x'],
    ]);
    const { informer, has } = inform(connectTo(server), { index: (name) => groups.get(name) });
    await waitUntil(() => has() === 'a,b,c');
    assert.deepEqual([informer.withIndex('x'), informer.withIndex('z')], [['a', 'c'], []]);
    server.remove(PATH, { name: 'a', namespace: 'shop' });
    await waitUntil(() => has() === 'b,c');
    assert.deepEqual(informer.withIndex('x'), ['c']);
  });

  test('has what a write returned until the watch reports it, and nothing older after that', async () => {
    const server = await scripted('a');
    const version = ({ metadata }: KubernetesObject): string => metadata.resourceVersion ?? '';
    const { informer, has } = inform(connectTo(server), { convert: version });
    await waitUntil(() => has() !== '');
    const stored = (resourceVersion: string) => {
      const metadata = { name: 'a', namespace: 'shop', uid: 'uid-shop/a', resourceVersion };
      return { apiVersion: 'networking.mesh.io/v1', kind: 'Gateway', metadata };
    };
    await informer.write(async () => stored('900'));
    assert.equal(has(), '900');
    await informer.write(async () => stored('800'));
    assert.equal(has(), '900');
    server.set(PATH, gateway('b'));
    await waitUntil(() => has().split(',').length === 2);
    assert.equal(informer.get('shop', 'a'), '900');
  });

  test('does not bring back an object that was deleted while it was written', async () => {
    const server = await scripted('a');
    const { informer, has } = inform(connectTo(server));
    await waitUntil(() => has() === 'a');
    const { metadata } = server.find(PATH, 'a', 'shop') ?? gateway('a');
    await informer.write(async () => {
      server.remove(PATH, { name: 'a', namespace: 'shop' });
      await waitUntil(() => has() === '');
      return { apiVersion: 'networking.mesh.io/v1', kind: 'Gateway', metadata };
    });
    assert.equal(has(), '');
  });

  test('treats access as denied after several responses, and logs that once', async () => {
    const server = await scripted('a');
    let refused = 0;
    server.intercept = (_, stream) => ++refused <= 5 && server.fail(stream, 403, 'Forbidden');
    const believed: boolean[] = [];
    const it = inform(connectTo(server), { onFailure: (_, isForbidden) => void believed.push(isForbidden) });
    await waitUntil(() => it.has() === 'a');
    assert.deepEqual(believed, [false, false, true, true, true]);
    assert.equal(it.failures.filter((each) => each.startsWith('HTTP 403')).length, 3);
    assert.equal(it.failures.at(-1), 'again');
  });
});

/** A generator of numbers 0 ≤ x < 1 that a seed determines. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

for (let seed = 1; seed <= 6; seed++) {
  test(`each informer has its objects in the end, in any order of joins, leaves and failures (seed ${seed})`, async () => {
    const random = seeded(seed);
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const server = await scripted();
    const connection = connectTo(server);
    const names = ['a', 'b', 'c', 'd'];
    const namespaces = ['shop', 'other'];
    const selections = [{}, { namespace: 'shop' }, { name: 'a' }, { namespace: 'other', name: 'b' }];
    const retain = random() < 0.5 ? { retain: (object: KubernetesObject) => object, fromRetained: true } : {};
    const form = ({ metadata, spec }: KubernetesObject) => `${metadata.namespace}/${metadata.name}=${spec}`;
    const open: { selection: (typeof selections)[number]; each: ReturnType<typeof inform> }[] = [];
    for (let step = 0; step < 120; step++) {
      const metadata = { name: pick(names), namespace: pick(namespaces) };
      const action = random();
      if (action < 0.5) server.set(PATH, { metadata, spec: step });
      else if (action < 0.65) server.remove(PATH, metadata);
      else if (action < 0.8) {
        const selection = pick(selections);
        open.push({ selection, each: inform(connection, { ...selection, ...retain, convert: form }) });
      } else if (action < 0.87) await open.shift()?.each.informer.close();
      else if (action < 0.91) server.endWatches();
      else if (action < 0.94) server.disconnect();
      else if (action < 0.96) server.compact();
      if (random() < 0.3) await new Promise((resolve) => setTimeout(resolve, 2));
    }
    const expected = (selection: { namespace?: string; name?: string }): string =>
      namespaces
        .flatMap((namespace) => names.map((name) => server.find(PATH, name, namespace)))
        .filter((object) => object !== undefined)
        .filter(({ metadata: { namespace, name } }) => {
          return (selection.namespace ?? namespace) === namespace && (selection.name ?? name) === name;
        })
        .map(({ metadata, spec }) => `${metadata.namespace}/${metadata.name}=${spec}`)
        .sort()
        .join();
    for (const { selection, each } of open) {
      await waitUntil(() => each.informer.isSynced && each.has() === expected(selection));
    }
  });
}
