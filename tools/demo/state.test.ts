import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushBetween } from './live.ts';
import { convergenceOf, heldOf, problemLine, syncOf } from './state.ts';

const SYNC_ROWS: readonly { name: string; line: Record<string, unknown>; sync: string }[] = [
  { name: 'acknowledged what was sent', line: { cluster_state: 'SYNCED', endpoint_state: 'NOT SENT' }, sync: 'synced' },
  { name: 'an answer is still due', line: { cluster_state: 'SYNCED', listener_state: 'STALE' }, sync: 'waiting' },
  { name: 'nothing sent yet', line: { cluster_state: 'NOT SENT' }, sync: 'waiting' },
  { name: 'one type rejected', line: { cluster_state: 'SYNCED', route_state: 'REJECTED' }, sync: 'rejected' },
];

for (const { name, line, sync } of SYNC_ROWS) {
  test(`a proxy is ${sync}: ${name}`, () => assert.equal(syncOf({ proxy: 'a.demo', ...line }).sync, sync));
}

test("a rejection has Envoy's message", () => {
  const line = { proxy: 'a.demo', listener_state: 'REJECTED', listener_rejected: { message: 'no such filter' } };
  assert.deepEqual(syncOf(line), { sync: 'rejected', rejection: 'no such filter' });
});

test('resources are counted by type', () => {
  const configs = [
    { dynamic_active_clusters: [{}, {}] },
    { dynamic_listeners: [{}] },
    { dynamic_route_configs: [] },
    { dynamic_endpoint_configs: [{}, {}, {}] },
  ];
  assert.deepEqual(heldOf({ configs }), { clusters: 2, listeners: 1, routes: 0, endpoints: 3 });
});

test('convergence is summed over labels, without buckets', () => {
  const metrics = [
    '# TYPE ctl_proxy_convergence_time histogram',
    'ctl_proxy_convergence_time_bucket{le="0.1"} 7',
    'ctl_proxy_convergence_time_sum{a="b"} 0.5',
    'ctl_proxy_convergence_time_sum{a="c"} 0.25',
    'ctl_proxy_convergence_time_count{a="b"} 2',
    'ctl_proxy_convergence_time_count{a="c"} 1',
    'ctl_proxy_queue_time_count 9',
  ].join('\n');
  assert.deepEqual(convergenceOf(metrics), { count: 3, sum: 0.75 });
});

test('a push is the increase of the counters since the last reading', () => {
  const at = new Date(0);
  assert.equal(pushBetween({ count: 3, sum: 1 }, { count: 3, sum: 1 }, at), undefined);
  assert.deepEqual(pushBetween({ count: 3, sum: 1 }, { count: 5, sum: 2 }, at), { at, proxies: 2, seconds: 0.5 });
  assert.deepEqual(pushBetween(undefined, { count: 2, sum: 1 }, at), { at, proxies: 2, seconds: 0.5 });
});

test('a problem is one line with its location', () => {
  const message = 'expected a whole number';
  const origin = { source: 'directory', file: 'a.yaml', line: 7 };
  assert.equal(
    problemLine({ origin, key: 'VirtualService/demo/a', field: 'spec.http[0]', message }, '/mesh'),
    'a.yaml:7: spec.http[0]: expected a whole number',
  );
  const below = { origin: { file: '/mesh/sub/a.yaml' }, field: '', message };
  assert.equal(problemLine(below, '/mesh'), `sub/a.yaml: ${message}`);
  assert.equal(
    problemLine({ origin: {}, key: 'Gateway/demo/a', field: '', message }, '/mesh'),
    `Gateway/demo/a: ${message}`,
  );
  assert.equal(problemLine({ origin: {}, field: '', message }, '/mesh'), message);
});
