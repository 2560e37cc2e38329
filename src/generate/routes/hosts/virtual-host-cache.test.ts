import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../../core/memo.ts';
import { contextOf, httpPort, NO_LOOKUPS, serviceOf } from '../../testing/routes.ts';
import type { RouteLookups } from '../context.ts';
import { defaultRoute } from '../http-route.ts';
import { cachedVirtualHosts, encodedVirtualHost, type VirtualHostInputs } from './virtual-host-cache.ts';

const service = serviceOf('reviews', [httpPort(80)]);

function counted(memos = new Memos()) {
  let built = 0;
  const get = (inputs: Partial<VirtualHostInputs>, lookups: RouteLookups) => {
    const whole = { objects: [service] as const, name: 'x', domains: ['x'], key: 'k', ...inputs };
    const build = (recorded: RouteLookups) => {
      built++;
      return {
        name: 'x',
        domains: ['x'],
        routes: [defaultRoute(service.hostname, 80, contextOf({ lookups: recorded }))],
      };
    };
    return encodedVirtualHost(whole, lookups, build, cachedVirtualHosts(memos, whole.objects[0]));
  };
  return { get, built: () => built };
}

test('equal inputs and lookups: the same bytes, built once', () => {
  const { get, built } = counted();
  const inputs: Partial<VirtualHostInputs> = { objects: [serviceOf('a', [])] };
  assert.equal(get(inputs, NO_LOOKUPS), get(inputs, { ...NO_LOOKUPS }));
  assert.equal(built(), 1);
});

test('another object, another key, or another result of a lookup: built again', () => {
  const { get, built } = counted();
  const a = serviceOf('a', []);
  get({ objects: [a], key: 'k' }, NO_LOOKUPS);
  get({ objects: [{ ...a }], key: 'k' }, NO_LOOKUPS);
  get({ objects: [a], key: 'other' }, NO_LOOKUPS);
  get({ objects: [a, {}], key: 'k' }, NO_LOOKUPS);
  get({ objects: [a], name: 'y' }, NO_LOOKUPS);
  get({ objects: [a], domains: ['x', 'y'] }, NO_LOOKUPS);
  const hashed = get({ objects: [a], key: 'k' }, { ...NO_LOOKUPS, consistentHash: () => ({ useSourceIp: true }) });
  assert.equal(built(), 7);
  assert.notDeepEqual(hashed, get({ objects: [a], key: 'k' }, NO_LOOKUPS));
  assert.equal(built(), 7);
});

test('a result that was not looked up makes no difference', () => {
  const { get, built } = counted();
  const objects = [serviceOf('a', [])] as const;
  get({ objects, key: 'k' }, NO_LOOKUPS);
  get({ objects, key: 'k' }, { ...NO_LOOKUPS, isFrom: () => true });
  assert.equal(built(), 1);
});
