/**
 * Golden files of the bootstrap (UPDATE_GOLDEN=1 writes them). In `test/e2e/agent-lifecycle.test.ts` Envoy validates
 * them.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import { bootstrap } from './bootstrap.ts';
import { mergeBootstrap, overriddenBootstrap } from './merge.ts';
import { nodeOf } from './node.ts';
import { fillTemplate } from './template.ts';
import { bootstrapInput, nodeInput } from './testing/inputs.ts';

const CASES: Readonly<Record<string, JsonObject>> = {
  'sidecar-tls': bootstrap(bootstrapInput()),
  'router-plain': bootstrap(
    bootstrapInput({
      node: nodeOf(nodeInput({ role: 'router', sds: false, ip: 'fd00::1' })),
      controlPlane: { host: '127.0.0.1', port: 15010, tls: false, serverName: '' },
      sdsPath: undefined,
      delta: false,
      ipv6: true,
      initialFetchTimeoutMs: 1500,
      outlierLogPath: '/dev/null',
      extraStatTags: ['source_app'],
      statsdUdpAddress: '127.0.0.1:8125',
    }),
  ),
  'sidecar-proxied': bootstrap(bootstrapInput({ xdsLocal: { path: './etc/mesh/proxy/XDS' } })),
  'sidecar-policy-identity': bootstrap(
    bootstrapInput({
      node: nodeOf(nodeInput({ policyCluster: true })),
      policy: { san: 'spiffe://cluster.local/ns/mesh-system/sa/policy', inBootstrap: true },
    }),
  ),
  services: bootstrap(
    bootstrapInput({
      statsdUdpAddress: '127.0.0.1:8125',
      services: {
        zipkin: { host: 'zipkin.observe', port: 9411, tls: { mesh: true, names: ['spiffe://mesh/zipkin'] } },
        accessLog: { host: '10.0.0.9', port: 9000, keepalive: { keepalive_time: 10 } },
        metrics: {
          host: 'metrics.observe',
          port: 9001,
          tls: { mesh: false, roots: '/roots.pem', certificate: '/c.pem', key: '/k.pem', sni: 'm', names: ['m'] },
        },
      },
    }),
  ),
  minimal: bootstrap(bootstrapInput({ minimalStats: true, prometheusPort: 0 })),
};

for (const [name, made] of Object.entries(CASES)) {
  test(`${name} is as in its golden file`, () => {
    const file = join(import.meta.dirname, 'golden', `${name}.json`);
    const text = `${JSON.stringify(made, null, 2)}\n`;
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(file, text);
    assert.equal(text, readFileSync(file, 'utf8'));
  });
}

describe('merging an override', () => {
  test('objects are merged, lists are appended, other values are replaced', () => {
    const base = { a: { b: 1, list: [1] }, keep: true, text: 'x' };
    assert.deepEqual(mergeBootstrap(base, { a: { c: 2, list: [2] }, text: 'y', added: [1], none: null }), {
      a: { b: 1, c: 2, list: [1, 2] },
      keep: true,
      text: 'y',
      added: [1],
    });
    assert.deepEqual(base, { a: { b: 1, list: [1] }, keep: true, text: 'x' });
  });

  test('an own interval of flushes comes with its own interval of evictions', () => {
    const base = { stats_eviction_interval: '3600s', admin: {} };
    assert.deepEqual(overriddenBootstrap(base, { admin: {} }), base);
    const own = { stats_flush_interval: '7s' };
    assert.deepEqual(overriddenBootstrap(base, own), { ...own, admin: {} });
    const both = { ...own, stats_eviction_interval: '70s' };
    assert.deepEqual(overriddenBootstrap(base, both), { ...both, admin: {} });
  });
});

describe('filling a template', () => {
  const named = (name: string): string => `$\{${name}}`;
  const fill = (template: JsonValue) => fillTemplate(template, bootstrapInput(), 'T');

  test('a name alone becomes the value with its type, a name in a text becomes text', () => {
    assert.deepEqual(
      fill({ port: named('admin_port'), list: [{ at: `${named('discovery_host')}:${named('discovery_port')}/` }] }),
      {
        port: 15000,
        list: [{ at: 'meshd.mesh-system.svc:15012/' }],
      },
    );
  });

  test('the identity of the policy component is a value for templates', () => {
    assert.deepEqual(fill({ san: named('policy_san') }), { san: 'spiffe://cluster.local/ns/mesh-system/sa/policy' });
  });

  test('a template of all parts of the built-in bootstrap gives the built-in bootstrap', () => {
    const { node, admin, stats_config, static_resources } = fill({
      node: named('node'),
      admin: named('admin'),
      stats_config: named('stats_config'),
      static_resources: { clusters: [named('xds_cluster'), named('sds_cluster')] },
    });
    const whole = bootstrap(bootstrapInput({ prometheusPort: 0 }));
    assert.deepEqual(
      { node, admin, stats_config },
      { node: whole.node, admin: whole.admin, stats_config: whole.stats_config },
    );
    assert.deepEqual((static_resources as JsonObject).clusters, (whole.static_resources as JsonObject).clusters);
  });

  test('an unknown name and an invalid template are refused with the file', () => {
    assert.throws(() => fill({ a: named('nosuch') }), {
      location: { file: 'T' },
      message: /unknown name \$\{nosuch\}/,
    });
    assert.throws(() => fill([]), { location: { file: 'T' } });
  });

  test('a value is data: text that looks like a name in it is kept', () => {
    const node = nodeOf(nodeInput({ env: { MESH_META_X: named('admin_port') } }));
    const filled = fillTemplate({ m: named('metadata') }, bootstrapInput({ node }), 'T');
    assert.equal((filled.m as JsonObject).X, named('admin_port'));
  });
});
