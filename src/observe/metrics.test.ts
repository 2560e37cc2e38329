import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { collectProcessMetrics, createMetrics, recordBuild } from './metrics.ts';
import { METRICS, type MetricSpec } from './metrics-table.ts';

const PROMETHEUS_TYPES = { Count: 'counter', Sum: 'counter', LastValue: 'gauge', Distribution: 'histogram' } as const;

test('every metric has its type and meaning before the first value', async () => {
  const registry = new Registry();
  createMetrics(registry);
  const text = await registry.metrics();
  for (const [name, spec] of Object.entries<MetricSpec>(METRICS)) {
    assert.ok(text.includes(`# HELP ${name} ${spec.meaning}\n`), name);
    assert.ok(text.includes(`# TYPE ${name} ${PROMETHEUS_TYPES[spec.type]}\n`), name);
  }
});

test('instruments report their names and labels', async () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  metrics.ctl_xds.set(3);
  metrics.ctl_push_triggers.inc({ type: 'endpoint' });
  metrics.ctl_proxy_convergence_time.observe(0.2);
  metrics.ctl_stage_seconds.observe(0.001, { stage: 'generate' });
  recordBuild(metrics, 'ctl-discovery', {
    version: '1.2.3',
    revision: 'abc',
    nodeVersion: 'v24',
    status: '',
    tag: 'v1.2',
  });
  const lines = (await registry.metrics()).split('\n');
  for (const line of [
    'ctl_xds 3',
    'ctl_push_triggers{type="endpoint"} 1',
    'ctl_proxy_convergence_time_bucket{le="0.15"} 0',
    'ctl_proxy_convergence_time_bucket{le="0.25"} 1',
    'ctl_stage_seconds_count{stage="generate"} 1',
    'mesh_build{component="ctl-discovery",version="1.2.3",revision="abc",tag="v1.2"} 1',
    'ctl_xds_push_errors_total{type="cds",reason="timeout"} 0',
  ]) {
    assert.ok(lines.includes(line), line);
  }
});

test('an unknown label is refused', () => {
  const metrics = createMetrics();
  assert.throws(() => (metrics.ctl_push_triggers as { inc(labels: object): void }).inc({ node: 'a' }));
});

test('two programs in one process have separate metrics', async () => {
  const [one, two] = [new Registry(), new Registry()];
  createMetrics(one).ctl_xds.set(1);
  createMetrics(two);
  assert.match(await one.metrics(), /^ctl_xds 1$/m);
  assert.match(await two.metrics(), /^ctl_xds 0$/m);
});

test('the buckets of every Distribution are in ascending order', () => {
  for (const [name, spec] of Object.entries<MetricSpec>(METRICS)) {
    const buckets = [...(spec.buckets ?? [])];
    assert.equal(spec.type === 'Distribution', buckets.length > 0, name);
    assert.deepEqual(
      buckets,
      [...new Set(buckets)].sort((a, b) => a - b),
      name,
    );
  }
});

test('the metrics of the process are in the same registry', async () => {
  const registry = new Registry();
  createMetrics(registry);
  collectProcessMetrics(registry);
  assert.match(await registry.metrics(), /^process_resident_memory_bytes \d+$/m);
});
