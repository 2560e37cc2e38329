import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Registry } from 'prom-client';
import { buildInfo } from '../../core/build-info.ts';
import { systemClock } from '../../core/clock.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { createMetrics } from '../metrics.ts';
import { PushHistory } from '../recent/index.ts';
import { OtlpExporter, otlpOptions } from './index.ts';
import { metricsJson, tracesJson } from './json.ts';
import { Sender } from './sender.ts';

const SETTINGS = { ...defaultDiscoverySettings(), otlpEndpoint: 'http://collector:4318/' };
const options = (more: object) => otlpOptions({ ...SETTINGS, ...more }, buildInfo(), 'replica-1');

test('variables choose what is exported where', () => {
  assert.equal(options({ otlpEndpoint: '' }), undefined);
  assert.equal(options({ otelDisabled: true }), undefined);
  assert.equal(options({ otelMetricsExporter: 'none', otelTracesExporter: 'none' }), undefined);
  const both = options({ otlpHeaders: 'x-key=a%20b, y=2', otelResourceAttributes: 'service.name=no,region=eu' });
  assert.deepEqual(
    [both?.metrics?.href, both?.traces?.href],
    ['http://collector:4318/v1/metrics', 'http://collector:4318/v1/traces'],
  );
  assert.deepEqual(both?.headers, { 'x-key': 'a b', y: '2' });
  assert.deepEqual([both?.resource.region, both?.resource['service.name']], ['eu', 'ctl-discovery']);
  const own = options({ otlpEndpoint: '', otlpTracesEndpoint: 'https://traces.example/x' });
  assert.deepEqual([own?.metrics, own?.traces?.href], [undefined, 'https://traces.example/x']);
});

for (const [what, more, expected] of [
  ['a protocol', { otlpProtocol: 'grpc' }, /^OTEL_EXPORTER_OTLP_PROTOCOL: expected http\/json/],
  ['no URL', { otlpEndpoint: 'collector:4318' }, /^OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL/],
  ['a password', { otlpTracesEndpoint: 'http://a:S3cret@b' }, /^OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: .*password$/],
  ['no header', { otlpHeaders: 'Bearer S3cret' }, /^OTEL_EXPORTER_OTLP_HEADERS: expected name=value/],
  ['a bad header', { otlpHeaders: 'a=S3cret%0a' }, /^OTEL_EXPORTER_OTLP_HEADERS: expected names/],
  ['an exporter', { otelMetricsExporter: 'prometheus' }, /^OTEL_METRICS_EXPORTER: expected otlp or none/],
] as const) {
  test(`${what} that cannot be used is an error of one line without values`, () => {
    assert.throws(
      () => options(more),
      ({ message }: Error) => expected.test(message) && !message.includes('S3cret'),
    );
  });
}

test('counters, gauges and histograms have their forms in OTLP', async () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  metrics.ctl_xds.set(3);
  metrics.ctl_push_triggers.inc({ type: 'endpoint' }, 2);
  for (const seconds of [0.001, 0.002, 0.2, 100]) metrics.ctl_proxy_convergence_time.observe(seconds);
  const families = await registry.getMetricsAsJSON();
  const { body, points } = metricsJson(families, { 'service.name': 'x' }, { start: 1000, now: 2500 });
  type Metric = Record<string, unknown> & { name: string };
  const { resourceMetrics } = JSON.parse(body) as {
    resourceMetrics: [{ resource: object; scopeMetrics: [{ metrics: Metric[] }] }];
  };
  const [{ resource, scopeMetrics }] = resourceMetrics;
  assert.deepEqual(resource, { attributes: [{ key: 'service.name', value: { stringValue: 'x' } }] });
  const named = (name: string) => scopeMetrics[0].metrics.find((metric) => metric.name === name);
  const time = { startTimeUnixNano: '1000000000', timeUnixNano: '2500000000' };
  assert.deepEqual(named('ctl_xds')?.gauge, { dataPoints: [{ asDouble: 3, attributes: [], ...time }] });
  assert.deepEqual(named('ctl_push_triggers')?.sum, {
    dataPoints: [{ asDouble: 2, attributes: [{ key: 'type', value: { stringValue: 'endpoint' } }], ...time }],
    isMonotonic: true,
    aggregationTemporality: 2,
  });
  const convergence = named('ctl_proxy_convergence_time');
  assert.ok(convergence);
  const { dataPoints } = convergence.histogram as {
    dataPoints: [{ count: string; sum: number; explicitBounds: number[]; bucketCounts: string[] }];
  };
  const [{ count, sum, explicitBounds, bucketCounts }] = dataPoints;
  assert.deepEqual([count, sum.toFixed(3)], ['4', '100.203']);
  assert.equal(bucketCounts.length, explicitBounds.length + 1);
  assert.deepEqual([bucketCounts[0], bucketCounts[explicitBounds.indexOf(0.25)], bucketCounts.at(-1)], ['2', '1', '1']);
  assert.ok(points > 100);
});

/** A push that two proxies have acknowledged. */
function acknowledgedPush() {
  let now = 1000;
  const pushes = new PushHistory({ now: () => now, wall: () => now + 1_000_000 });
  pushes.published({ version: 7, eventTime: 900, keys: ['Service/a/b'], milliseconds: 20 });
  pushes.triggered('service');
  now = 1010;
  pushes.stage('generate', 8);
  for (const [id, ms] of [
    ['a', 150],
    ['b', 180],
  ] as const) {
    pushes.began(id, 900);
    pushes.ended(id, ms);
  }
  now = 5000;
  return pushes;
}

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
}

const spansIn = (body: string): Span[] => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans;

test('a push is a trace: a span with those of its stages', () => {
  let id = 0;
  const randomId = (bytes: number) => String(++id).padStart(bytes * 2, '0');
  const { body, spans: count } = tracesJson(acknowledgedPush().completed(0), {}, randomId);
  const spans = spansIn(body);
  assert.equal(count, spans.length);
  const ms = (nano: string): number => Number(BigInt(nano) / 1_000_000n) - 1_000_000;
  assert.deepEqual(
    spans.map(({ name, startTimeUnixNano, endTimeUnixNano }) => [name, ms(startTimeUnixNano), ms(endTimeUnixNano)]),
    [
      ['push', 900, 1080],
      ['debounce', 900, 980],
      ['snapshot', 980, 1000],
      ['generate', 1002, 1010],
      ['acknowledge', 1010, 1080],
    ],
  );
  const [root, ...stages] = spans;
  assert.ok(stages.every(({ parentSpanId, traceId }) => parentSpanId === root?.spanId && traceId === root.traceId));
  assert.equal(new Set(spans.map(({ spanId }) => spanId)).size, spans.length);
  const attribute = (key: string) => root?.attributes.find((each) => each.key === key)?.value;
  assert.deepEqual(attribute('mesh.push.proxies.acknowledged'), { intValue: '2' });
  assert.deepEqual(attribute('mesh.push.resources'), { arrayValue: { values: [{ stringValue: 'Service/a/b' }] } });
});

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A stand-in for a receiver, which answers as the test says. */
async function startReceiver(t: TestContext, answer: (response: ServerResponse, request: Received) => void) {
  const received: Received[] = [];
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.once('end', () => {
      const request = { path: incoming.url ?? '', headers: incoming.headers, body: Buffer.concat(chunks).toString() };
      received.push(request);
      answer(response, request);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test('a stand-in receiver gets metrics, and each push once', async (t) => {
  const { received, url } = await startReceiver(t, (response) => void response.end('{}'));
  const registry = new Registry();
  createMetrics(registry).ctl_xds.set(1);
  const chosen = options({ otlpEndpoint: url, otlpHeaders: 'x-key=k', otelMetricIntervalMs: 20, otelTraceDelayMs: 20 });
  assert.ok(chosen);
  const pushes = acknowledgedPush();
  const results: string[] = [];
  const exporter = new OtlpExporter(
    chosen,
    { families: () => registry.getMetricsAsJSON(), pushes: (since) => pushes.completed(since) },
    { onResult: (...result) => results.push(result.join()), onState: () => assert.fail('nothing fails') },
    systemClock,
    Date.now,
  );
  const of = (path: string) => received.filter((each) => each.path === path);
  await until(() => of('/v1/metrics').length >= 3);
  await exporter.close();
  assert.equal(of('/v1/traces').length, 1);
  assert.ok(
    received.every(({ headers }) => headers['x-key'] === 'k' && headers['content-type'] === 'application/json'),
  );
  assert.ok(results.includes('traces,sent,5'), results.join(' '));
});

/** A sender whose time passes at once; `delays` has what it waited for. */
function senderTo(url: string, { maxQueued = 1000, timeoutMs = 1000 } = {}) {
  const delays: number[] = [];
  const results: string[] = [];
  const states: (string | undefined)[] = [];
  const sender = new Sender({
    url: new URL(url),
    headers: {},
    timeoutMs,
    maxQueued,
    clock: {
      now: () => 0,
      setTimer(ms, run) {
        delays.push(ms);
        const timer = setImmediate(run);
        return { cancel: () => clearImmediate(timer) };
      },
    },
    random: () => 0,
    onResult: (result, items) => results.push(`${result} ${items}`),
    onState: (problem) => states.push(problem),
  });
  return { sender, delays, results, states };
}

test('a stand-in receiver that is overloaded is asked again with growing delays, and as late as it wants', async (t) => {
  const statuses = [503, 429, 502];
  const { received, url } = await startReceiver(t, (response) => {
    const status = statuses.shift() ?? 200;
    response.writeHead(status, status === 429 ? { 'retry-after': '7' } : {}).end('busy');
  });
  const { sender, delays, results, states } = senderTo(url);
  sender.send({ body: '1', items: 4 });
  await until(() => results.length > 0);
  assert.deepEqual(results, ['sent 4']);
  assert.deepEqual(delays, [1000, 7000, 4000]);
  assert.deepEqual(
    received.map(({ body }) => body),
    ['1', '1', '1', '1'],
  );
  assert.deepEqual(states, ['HTTP 503: busy', undefined]);
});

test('a stand-in receiver that refuses a body is not asked again, and is sent the next one', async (t) => {
  const { received, url } = await startReceiver(t, (response, { body }) => {
    response.writeHead(body === 'bad' ? 400 : 200).end();
  });
  const { sender, results } = senderTo(url);
  sender.send({ body: 'bad', items: 1 });
  sender.send({ body: 'good', items: 2 });
  await until(() => results.length === 2);
  assert.deepEqual(results, ['dropped 1', 'sent 2']);
  assert.equal(received.length, 2);
});

test('without a receiver a body is dropped after some attempts', async () => {
  const { sender, delays, results } = senderTo('http://127.0.0.1:1');
  sender.send({ body: 'x', items: 1 });
  await until(() => results.length > 0);
  assert.deepEqual(results, ['dropped 1']);
  assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000]);
});

test('a stand-in receiver that does not answer: the queue stays short, and the newest bodies are kept', async (t) => {
  const { received, url } = await startReceiver(t, () => {});
  const { sender, results } = senderTo(url, { maxQueued: 3, timeoutMs: 60_000 });
  for (let count = 0; count < 1000; count++) sender.send({ body: String(count), items: 1 });
  assert.deepEqual([results.length, new Set(results)], [997, new Set(['dropped 1'])]);
  await until(() => received.length > 0);
  assert.equal(received[0]?.body, '0');
  sender.close();
});
