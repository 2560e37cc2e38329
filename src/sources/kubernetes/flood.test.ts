/** A namespace whose objects cost much to read or to index, beside others, at a scripted API server. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { ResourceType } from '../../kubernetes/index.ts';
import {
  closeAll,
  follow,
  meshType,
  POLICIES,
  pathOf,
  ROUTES,
  route,
  SERVICES,
  scripted,
  service,
} from './testing/scripted-source.ts';

afterEach(closeAll);

const ENTRIES = meshType('ServiceEntry', 'serviceentries');
const FLOOD = ['big-1', 'big-2', 'big-3', 'big-4'];

/** A ServiceEntry of 1,000 hosts, each of which is a service. */
const costly = (name: string, resolution = 'DNS') => ({
  metadata: { name, namespace: 'flood' },
  spec: {
    hosts: Array.from({ length: 1000 }, (_, index) => `${name}-${index}.example.com`),
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    resolution,
  },
});

const allow = (name: string) => ({ metadata: { name, namespace: 'flood' }, spec: { rules: [{}] } });

async function synced(...types: readonly ResourceType[]) {
  const server = await scripted(...types);
  const followed = follow(server, { clock: systemClock });
  await waitUntil(followed.isSynced);
  return { server, ...followed };
}

describe('the source of an API server, while a namespace floods it', () => {
  test('reads an object of another namespace before most of the flood', async () => {
    const { server, changed } = await synced(ENTRIES, ROUTES);
    for (const name of FLOOD) server.set(pathOf(ENTRIES), costly(name));
    const other = costly('web');
    server.set(pathOf(ENTRIES), { ...other, metadata: { name: 'web', namespace: 'shop' } });
    await waitUntil(() => changed().includes('ServiceEntry/shop/web'));
    const before = changed().slice(0, changed().indexOf('ServiceEntry/shop/web'));
    assert.ok(before.length <= FLOOD.length / 2, before.join());
    await waitUntil(() => changed().length === FLOOD.length + 1);
  });

  test('reads only the newest version of an object that changes while it waits', async () => {
    const { server, changed, sets, store } = await synced(ENTRIES);
    for (const name of FLOOD.slice(0, 2)) server.set(pathOf(ENTRIES), costly(name));
    for (let version = 0; version < 10; version++) server.set(pathOf(ENTRIES), costly('big-2', 'NONE'));
    await waitUntil(() => changed().length === 2);
    const last = store.get('ServiceEntry/flood/big-2');
    assert.ok(last?.kind === 'ServiceEntry' && last.content.resolution === 'NONE');
    assert.ok(sets.length <= 4, sets.join());
  });

  test('reads the policies and services of the namespace before the rest of its flood', async () => {
    const { server, changed } = await synced(ENTRIES, POLICIES);
    const flood = Array.from({ length: 12 }, (_, index) => `big-${index}`);
    for (const name of flood) server.set(pathOf(ENTRIES), costly(name));
    await waitUntil(() => changed().length > 0);
    server.set(pathOf(POLICIES), allow('web'));
    server.set(SERVICES, service('web', 'flood'));
    const urgent = ['AuthorizationPolicy/flood/web', 'Service/flood/web'];
    await waitUntil(() => urgent.every((key) => changed().includes(key)));
    assert.ok(changed().length < flood.length, changed().join());
  });

  test('keeps a policy in force until the one that replaces it is', async () => {
    const { server, changed, store } = await synced(ENTRIES, POLICIES);
    server.set(pathOf(POLICIES), allow('old'));
    await waitUntil(() => changed().length === 1);
    for (const name of FLOOD.slice(0, 2)) server.set(pathOf(ENTRIES), costly(name));
    await waitUntil(() => changed().length > 1);
    server.set(pathOf(POLICIES), allow('new'));
    server.set(pathOf(POLICIES), { ...allow('old'), spec: { rules: [{}, {}] } });
    server.remove(pathOf(POLICIES), { name: 'old', namespace: 'flood' });
    await waitUntil(() => {
      const [before, after] = ['old', 'new'].map(
        (name) => store.get(`AuthorizationPolicy/flood/${name}`) !== undefined,
      );
      assert.ok(before === true || after === true, 'neither policy is in force');
      return after === true && before === false;
    });
  });

  test('reads no object again that is as it was before a list', async () => {
    const { server, store, changed } = await synced(ROUTES);
    for (const name of ['web', 'api']) server.set(pathOf(ROUTES), route(name));
    await waitUntil(() => changed().length === 2);
    const get = (name: string) => store.get(`VirtualService/shop/${name}`);
    const [web, api] = [get('web'), get('api')];
    const lists = () =>
      server.requests.filter(({ path, query }) => path === pathOf(ROUTES) && query.has('sendInitialEvents'));
    const before = lists().length;
    server.compact();
    server.endWatches();
    await waitUntil(() => lists().length > before);
    // It comes after the list.
    server.set(pathOf(ROUTES), route('api', 'other'));
    await waitUntil(() => get('api') !== api);
    assert.equal(get('web'), web);
  });
});
