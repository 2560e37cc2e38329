import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseAppMetrics } from './app-metrics.ts';
import { createAgentMetrics } from './metrics.ts';

describe("the agent's metrics", () => {
  test('sums grow, last values are replaced, labels are escaped', () => {
    const metrics = createAgentMetrics();
    metrics.add('scrapes_total');
    metrics.add('scrapes_total', 2);
    metrics.add('scrape_failures_total', 1, { type: 'a"b\\c\nd' });
    metrics.set('mesh_build', 1, { component: 'x', version: 'y' });
    const text = metrics.text();
    assert.match(text, /^# HELP scrapes_total Scrapes\.\n# TYPE scrapes_total counter\nscrapes_total 3$/m);
    assert.ok(text.includes('scrape_failures_total{type="a\\"b\\\\c\\nd"} 1\n'));
    assert.match(text, /^# TYPE mesh_build gauge\nmesh_build\{component="x",version="y"\} 1$/m);
  });

  test('metrics that only the other program changes are exported once, at 0, with their types', () => {
    const text = createAgentMetrics().text();
    assert.match(text, /^# TYPE ctl_xds gauge\nctl_xds 0$/m);
    assert.match(text, /^# TYPE cfg_validation_config_updates counter\ncfg_validation_config_updates 0$/m);
    assert.match(
      text,
      new RegExp(
        '^# TYPE ctl_xds_push_time histogram\\nctl_xds_push_time_bucket\\{le="\\+Inf"\\} 0\\n' +
          'ctl_xds_push_time_sum 0\\nctl_xds_push_time_count 0$',
        'm',
      ),
    );
    const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
    assert.equal(new Set(names).size, names.length);
    assert.ok(names.length >= 57);
  });

  test('in OpenMetrics the names of series stay: a counter without _total has no type', () => {
    const metrics = createAgentMetrics();
    const text = metrics.text('openmetrics', new Set(['ctl_xds_push_time', 'ctl_xds']));
    assert.match(text, /^# HELP scrapes Scrapes\.\n# TYPE scrapes counter\nscrapes_total 0$/m);
    assert.match(text, /^# TYPE total_pushes unknown\ntotal_pushes 0$/m);
    assert.doesNotMatch(text, /ctl_xds_push_time|^ctl_xds 0$/m);
  });

  test('numbers of other sources are read for each text', () => {
    const metrics = createAgentMetrics();
    let pushes = 1;
    metrics.include(() => [
      { name: 'total_pushes', value: pushes },
      { name: 'cert_expiry_seconds', value: -3, labels: { resource_name: 'default' } },
      { name: 'constructor', value: 1 },
    ]);
    metrics.text();
    pushes = 2;
    assert.match(metrics.text(), /^total_pushes 2$/m);
    assert.match(metrics.text(), /^cert_expiry_seconds\{resource_name="default"\} -3$/m);
    assert.doesNotMatch(metrics.text(), /constructor/);
  });

  test('a metric without labels starts at 0, one with labels is not shown before it is counted', () => {
    const text = createAgentMetrics().text();
    assert.match(text, /^envoy_starts_total 0$/m);
    assert.doesNotMatch(text, /^scrape_failures_total/m);
  });
});

describe('MESH_METRICS_ANNOTATIONS', () => {
  test('scrape, port and path with their defaults', () => {
    assert.deepEqual(parseAppMetrics('{"scrape":"true","port":"8080","path":"/m"}', 1), { port: 8080, path: '/m' });
    assert.deepEqual(parseAppMetrics('{"scrape":"true"}', 1), { port: 80, path: '/metrics' });
    assert.equal(parseAppMetrics('{"scrape":"false","port":"x"}', 1), undefined);
    assert.equal(parseAppMetrics('', 1), undefined);
  });

  test('invalid values are refused, and so is the agent’s own port', () => {
    for (const text of [
      '{',
      '[]',
      '{"scrape":"true","port":"http"}',
      '{"scrape":"true","path":"m"}',
      '{"scrape":"true","port":"15020"}',
    ])
      assert.throws(() => parseAppMetrics(text, 15020), /MESH_METRICS_ANNOTATIONS/, text);
  });
});
