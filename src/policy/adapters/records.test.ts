/** Handlers of records: lines and metrics. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PrometheusParams, StdioParams } from '../types.ts';
import { MetricPage, openPrometheus } from './prometheus.ts';
import { openStdio } from './stdio.ts';
import { built, CALL, metric, type TestHost, testHost } from './testing/host.ts';

const STDIO: StdioParams = {
  logStream: 'STDOUT',
  severityLevels: new Map([['bad', 'ERROR']]),
  metricLevel: 'INFO',
  outputLevel: 'INFO',
  outputAsJson: true,
};

const logEntry = (severity: string, variables: Readonly<Record<string, string | bigint | Map<string, string>>>) =>
  built('log', 'REPORT', {
    template: 'logentry',
    severity,
    variables: new Map(Object.entries(variables)),
    timestamp: { kind: 'timestamp', nanos: 1_500_000_000_000_000_000n },
  });

test('log entries and metrics are lines of JSON', async () => {
  const host = testHost();
  const handler = openStdio('out.shop', STDIO, host);
  await handler.report?.(
    [
      logEntry('bad', { path: '/a\n{"level":"forged"}', code: 200n, labels: new Map([['app', 'web']]) }),
      metric('count', 1n, { user: 'ann' }),
    ],
    CALL,
  );
  assert.deepEqual(
    host.written.map((line) => JSON.parse(line) as unknown),
    [
      {
        path: '/a\n{"level":"forged"}',
        code: 200,
        labels: { app: 'web' },
        level: 'error',
        time: '2017-07-14T02:40:00Z',
        instance: 'log.instance.shop',
      },
      { user: 'ann', value: 1, level: 'info', time: '1970-01-01T00:00:00.000Z', instance: 'count.instance.shop' },
    ],
  );
  // One line each, whatever a client has sent.
  assert.deepEqual(
    host.written.map((line) => line.indexOf('\n') === line.length - 1),
    [true, true],
  );
});

test('lines below the level are left out, and others may be text', async () => {
  const host = testHost();
  const handler = openStdio('out.shop', { ...STDIO, outputLevel: 'ERROR', outputAsJson: false }, host);
  await handler.report?.([logEntry('fine', { a: 'b' }), logEntry('bad', { a: 'b' })], CALL);
  assert.deepEqual(host.written, ['2017-07-14T02:40:00Z\terror\tlog.instance.shop\t{"a":"b"}\n']);
});

test('lines that are not read fast enough are dropped, which is logged', async () => {
  const host = testHost({ lines: { write: () => false } });
  const handler = openStdio('out.shop', STDIO, host);
  await handler.report?.(
    Array.from({ length: 5 }, () => logEntry('bad', {})),
    CALL,
  );
  assert.deepEqual(
    host.logged.map((line) => /(\d+) lines were dropped/.exec(line)?.[1]),
    ['1', '2', '4'],
  );
});

const COUNTER = {
  name: 'mesh_requests_total',
  instanceName: 'count.instance.shop',
  description: 'Requests.\nBy user.',
  kind: 'COUNTER',
  buckets: [],
  labelNames: ['user'],
} as const;
const SIZES = {
  ...COUNTER,
  name: 'mesh_sizes',
  instanceName: 'sizes.instance.shop',
  kind: 'DISTRIBUTION',
  buckets: [10, 100],
} as const;

const prometheus = (
  id: string,
  params: PrometheusParams,
  { host = testHost(), page }: { host?: TestHost; page: MetricPage },
) =>
  openPrometheus({ id, namespace: id.split('.').at(-1) ?? '' }, params, { host, page, configNamespace: 'mesh-system' });
const samplesOf = (page: MetricPage): string[] =>
  page
    .text()
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

test('metrics are counted by their labels, as Prometheus reads them', async () => {
  const page = new MetricPage();
  const handler = prometheus('prom.shop', { metrics: [COUNTER, SIZES] }, { page });
  const sizes = [5, 50, 500].map((size) => metric('sizes', size, { user: 'ann' }));
  await handler.report?.(
    [metric('count', 1n, { user: 'a"\\\n' }), metric('count', 2n, { user: 'a"\\\n' }), ...sizes],
    CALL,
  );
  assert.equal(
    page.text(),
    [
      '# HELP mesh_requests_total Requests.\\nBy user.',
      '# TYPE mesh_requests_total counter',
      'mesh_requests_total{policy_handler="prom.shop",user="a\\"\\\\\\n"} 3',
      '# HELP mesh_sizes Requests.\\nBy user.',
      '# TYPE mesh_sizes histogram',
      'mesh_sizes_bucket{policy_handler="prom.shop",user="ann",le="10"} 1',
      'mesh_sizes_bucket{policy_handler="prom.shop",user="ann",le="100"} 2',
      'mesh_sizes_bucket{policy_handler="prom.shop",user="ann",le="+Inf"} 3',
      'mesh_sizes_sum{policy_handler="prom.shop",user="ann"} 555',
      'mesh_sizes_count{policy_handler="prom.shop",user="ann"} 3',
      '',
    ].join('\n'),
  );
  await handler.close();
  assert.equal(page.text(), '');
});

test('handlers with a metric of one name are told apart; one of another kind is left out', async () => {
  const page = new MetricPage();
  for (const [id, kind] of [
    ['a.shop', 'COUNTER'],
    ['b.shop', 'COUNTER'],
    ['c.shop', 'GAUGE'],
  ] as const) {
    const handler = prometheus(id, { metrics: [{ ...COUNTER, kind }] }, { page });
    await handler.report?.([metric('count', 1n, { user: 'ann' })], CALL);
  }
  const samples = page
    .text()
    .split('\n')
    .filter((line) => !line.startsWith('#') && line !== '');
  assert.deepEqual(
    samples.map((line) => /policy_handler="([^"]+)"/.exec(line)?.[1]),
    ['a.shop', 'b.shop'],
  );
});

test('time series have a limit, and expire without updates', async () => {
  const [page, host] = [new MetricPage(), testHost()];
  const params: PrometheusParams = { metrics: [COUNTER], expiryMs: 1_000, expiryCheckIntervalMs: 500 };
  const handler = prometheus('prom.shop', params, { host, page });
  for (let user = 0; user < 2_010; user++) await handler.report?.([metric('count', 1n, { user: `u${user}` })], CALL);
  const series = () =>
    page
      .text()
      .split('\n')
      .filter((line) => line.startsWith('mesh_')).length;
  assert.equal(series(), 2_000);
  assert.match(host.logged.join('\n'), /8 values of metric mesh_requests_total were not counted/);
  host.advance(2_000);
  assert.equal(series(), 0);
  await handler.report?.([metric('count', 1n, { user: 'new' })], CALL);
  assert.equal(series(), 1);
});

test('of metrics with one name, that of the root namespace decides the kind', async () => {
  const page = new MetricPage();
  for (const [id, kind] of [
    ['a.a', 'GAUGE'],
    ['z.mesh-system', 'COUNTER'],
  ] as const)
    await prometheus(id, { metrics: [{ ...COUNTER, kind }] }, { page }).report?.([metric('count', 1n, {})], CALL);
  assert.deepEqual(samplesOf(page), ['mesh_requests_total{policy_handler="z.mesh-system",user=""} 1']);
});

test('a distribution counts its buckets', async () => {
  const [page, host] = [new MetricPage(), testHost()];
  const handler = prometheus('prom.shop', { metrics: [SIZES] }, { page, host });
  for (let user = 0; user < 500; user++) await handler.report?.([metric('sizes', 1n, { user: `u${user}` })], CALL);
  assert.equal(samplesOf(page).length, 2_000);
  assert.match(host.logged.join('\n'), /64 values of metric mesh_sizes were not counted/);
});

test('a namespace gets at most half of the page that others leave, and gives it back', async () => {
  const page = new MetricPage();
  const fill = async (namespace: string) => {
    const names = Array.from({ length: 20 }, (_, index) => `m${index}`);
    const metrics = names.map((name) => ({ ...COUNTER, name, instanceName: `${name}.instance.shop` }));
    const handler = prometheus(`prom.${namespace}`, { metrics }, { page });
    for (const name of names)
      for (let user = 0; user < 2_000; user++) await handler.report?.([metric(name, 1n, { user: `${user}` })], CALL);
    return handler;
  };
  const kept = (namespace: string) =>
    samplesOf(page).filter((line) => line.includes(`policy_handler="prom.${namespace}"`)).length;
  const first = await fill('a');
  await fill('b');
  assert.deepEqual([kept('a'), kept('b')], [25_000, 12_500]);
  await first.close();
  await fill('c');
  assert.deepEqual([kept('a'), kept('c')], [0, 18_750]);
});

test('the page has a limit of bytes', async () => {
  const page = new MetricPage();
  const labelNames = Array.from({ length: 64 }, (_, index) => `l${index}`);
  const handler = prometheus('prom.shop', { metrics: [{ ...SIZES, labelNames }] }, { page });
  const others = Object.fromEntries(labelNames.map((name) => [name, '"'.repeat(256)]));
  const counters = prometheus(
    'more.shop',
    { metrics: [0, 1].map((at) => ({ ...COUNTER, labelNames, name: `m${at}`, instanceName: `m${at}.instance.shop` })) },
    { page },
  );
  for (let user = 0; user < 400; user++) {
    const dimensions = { ...others, l0: `${user}` };
    await handler.report?.([metric('sizes', 1n, dimensions)], CALL);
    await counters.report?.([metric('m0', 1n, dimensions), metric('m1', 1n, dimensions)], CALL);
  }
  const bytes = Buffer.byteLength(page.text());
  assert.ok(bytes > 8 * 1024 * 1024 && bytes <= 16 * 1024 * 1024, String(bytes));
});
