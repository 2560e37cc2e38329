/** Which calls of Thrift are limited; the golden file `protocol-filters` shows the filters in place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMeshConfig } from '../../resources/mesh-config.ts';
import { thriftLimitFilters, thriftRateLimit } from './thrift-rate-limit.ts';

function meshWith(thriftConfig: object) {
  const parsed = parseMeshConfig({ thriftConfig });
  assert.ok('value' in parsed, JSON.stringify(parsed));
  return parsed.value;
}

test('calls to Thrift ports are limited by the service of the mesh configuration, at port 8081 unless written', () => {
  const limit = { domain: 'calls.io', timeoutMs: 50 };
  assert.deepEqual(thriftRateLimit(meshWith({ rateLimitUrl: 'limits.io' }), 'Thrift', 'calls.io'), {
    ...limit,
    cluster: 'outbound|8081||limits.io',
    authority: 'limits.io',
  });
  assert.deepEqual(thriftRateLimit(meshWith({ rateLimitUrl: 'limits.io:90' }), 'Thrift', 'calls.io'), {
    ...limit,
    cluster: 'outbound|90||limits.io',
    authority: 'limits.io',
  });
  assert.equal(thriftRateLimit(meshWith({ rateLimitUrl: 'limits.io' }), 'Redis', 'calls.io'), undefined);
  assert.equal(thriftRateLimit(meshWith({}), 'Thrift', 'calls.io'), undefined);
});

test('a proxy that does not list the extension, or lists nothing, has no limit', () => {
  const limit = thriftRateLimit(meshWith({ rateLimitUrl: 'limits.io' }), 'Thrift', 'calls.io');
  for (const extensions of [[], undefined]) {
    assert.deepEqual(thriftLimitFilters({ capabilities: { extensions, sds: false } }, limit), []);
  }
});

test('a limiter is a host and a port: a URL with a scheme is refused', () => {
  const parsed = parseMeshConfig({ thriftConfig: { rateLimitUrl: 'http://limits.io/' } });
  assert.match(JSON.stringify(parsed), /\["thriftConfig","rateLimitUrl"\].*expected host or host:port/);
});
