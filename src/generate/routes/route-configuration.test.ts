import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import { encodeVirtualHost, routeConfiguration } from './route-configuration.ts';

const { RouteConfiguration } = envoy.config.route.v3;

test('joined virtual hosts are the bytes of the whole message', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ name: fc.string({ maxLength: 400 }), domains: fc.array(fc.string()) })),
      (hosts) => {
        const rest = { validateClusters: { value: false }, ignorePortInHostMatching: true };
        const joined = routeConfiguration('80', hosts.map(encodeVirtualHost), rest).bytes;
        assert.deepEqual(
          Buffer.from(joined),
          Buffer.from(encode(RouteConfiguration, { name: '80', virtualHosts: hosts, ...rest })),
        );
      },
    ),
  );
});

test('lengths beyond two varint bytes', () => {
  const host = { name: 'x'.repeat(3_000_000), domains: ['*'] };
  const joined = routeConfiguration('80', [encodeVirtualHost(host)], {}).bytes;
  assert.equal(Buffer.compare(joined, encode(RouteConfiguration, { name: '80', virtualHosts: [host] })), 0);
});
