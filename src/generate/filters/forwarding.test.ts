/** Which proxies get the filters of protocols; the golden files `protocol-filters` show those that Envoys here have. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import type { Protocol } from '../../model/types/types.ts';
import { forwarded } from './forwarding.ts';

const ALL = ['mongo', 'mysql', 'redis', 'thrift'].map((name) => `envoy.filters.network.${name}_proxy`);
const FORWARDED = { statPrefix: 'prefix', cluster: 'cluster', original: false };

function namesOf(protocol: Protocol, extensions: readonly string[] | undefined, on: boolean): readonly string[] {
  const settings = { ...DEFAULT_SETTINGS, mysqlFilter: on, redisFilter: on, thriftFilter: on };
  const view = { capabilities: { extensions, sds: false } };
  const tcpProxy = { name: 'tcp', typedConfig: null };
  return forwarded(view, { protocol, settings }, FORWARDED, tcpProxy).map(({ name }) =>
    name.replace(/^envoy\.filters\.network\./, ''),
  );
}

test('a proxy that lists a filter gets it for the ports of its protocol, where the variable is on', () => {
  assert.deepEqual(namesOf('MySQL', ALL, true), ['mysql_proxy', 'tcp']);
  assert.deepEqual(namesOf('MySQL', ALL, false), ['tcp']);
  assert.deepEqual(namesOf('Redis', ALL, true), ['redis_proxy']);
  assert.deepEqual(namesOf('Redis', ALL, false), ['tcp']);
  assert.deepEqual(namesOf('Thrift', ALL, true), ['thrift_proxy']);
  assert.deepEqual(namesOf('Thrift', ALL, false), ['tcp']);
  // As in Istio 1.7, that of MongoDB has no variable.
  assert.deepEqual(namesOf('Mongo', ALL, false), ['mongo_proxy', 'tcp']);
  assert.deepEqual(namesOf('TCP', ALL, true), ['tcp']);
});

test('a proxy that does not list a filter, or lists nothing, forwards bytes', () => {
  for (const protocol of ['MySQL', 'Redis', 'Thrift', 'Mongo'] as const) {
    assert.deepEqual(namesOf(protocol, [], true), ['tcp'], protocol);
    assert.deepEqual(namesOf(protocol, undefined, true), ['tcp'], protocol);
  }
});
