import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { endpointName } from './endpoint-names.ts';
import { clusterName } from './names.ts';

const name = fc
  .tuple(fc.nat(65535), fc.constantFrom('', 'v1', 'v2'), fc.domain())
  .map(([port, subset, host]) => clusterName('outbound', port, subset, host));

test('distinct clusters have distinct short names of 12 letters, digits, - and _', () => {
  fc.assert(
    fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 200 }), (clusters) => {
      const names = clusters.map((cluster) => endpointName('short', cluster));
      assert.equal(new Set(names).size, clusters.length);
      for (const short of names) assert.match(short, /^[A-Za-z0-9_-]{12}$/);
      assert.deepEqual(
        clusters.map((cluster) => endpointName('short', cluster)),
        names,
      );
    }),
  );
});

test('a short name is the same in every release, so that proxies that reconnect need no update', () => {
  assert.equal(endpointName('short', 'outbound|80||web.default.svc.cluster.local'), '-wwOqENz98Ao');
});

test('where names need not be short they are those of the clusters', () => {
  fc.assert(fc.property(name, (cluster) => assert.equal(endpointName('cluster', cluster), cluster)));
});
