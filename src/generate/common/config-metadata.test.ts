import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMetadata, joinedMetadata } from './config-metadata.ts';

test('a document is named by the path that tools of Istio read', () => {
  assert.deepEqual(configMetadata('destination-rule', 'shop', 'web.v1'), {
    metadata: {
      filterMetadata: {
        istio: {
          fields: {
            config: { stringValue: '/apis/networking.istio.io/v1alpha3/namespaces/shop/destination-rule/web.v1' },
          },
        },
      },
    },
  });
});

test('what comes of no document, or of a derived one, has no metadata', () => {
  assert.deepEqual(configMetadata('destination-rule', '', ''), {});
  assert.deepEqual(configMetadata('virtual-service', 'shop', 'HTTPRoute~web'), {});
});

test('parts of metadata are joined by filter and field', () => {
  const part = (filter: string, name: string) => ({
    metadata: { filterMetadata: { [filter]: { fields: { [name]: { stringValue: name } } } } },
  });
  assert.deepEqual(joinedMetadata({}, part('istio', 'a')), part('istio', 'a'));
  assert.deepEqual(joinedMetadata({}, {}), {});
  assert.deepEqual(joinedMetadata(part('istio', 'a'), {}, part('mesh', 'b'), part('istio', 'c')), {
    metadata: {
      filterMetadata: {
        istio: { fields: { a: { stringValue: 'a' }, c: { stringValue: 'c' } } },
        mesh: { fields: { b: { stringValue: 'b' } } },
      },
    },
  });
});
