/**
 * What proxies say about requests: spans by Zipkin's API, access logs (over TLS) and metrics by Envoy's gRPC services,
 * spans and logs to the receiver of the OpenTelemetry Collector, and metrics of requests in scrapes. The control plane
 * sends metrics and traces of its pushes to that receiver. Gateways with
 * agents and real Envoys; the other receivers read only as much of the messages as the tests need.
 */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { stringify } from 'yaml';
import {
  type Agent,
  type Child,
  type EchoReply,
  eventually,
  exchange,
  request,
  startAgent,
  startChild,
  startEcho,
  startTcpEcho,
  tempDir,
} from '../harness/index.ts';
import { buildReceiver, receiverUnavailable } from '../otlp/build.ts';
import { endpoints, resource, service } from './support/config.ts';
import { type CertificateFiles, foreignRoot, signedBy } from './support/foreign-certificate.ts';
import { planMesh, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const ACCESS_LOGS = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs';
const METRICS = '/envoy.service.metrics.v3.MetricsService/StreamMetrics';
const HTTP = 7083;
const BACKEND = 7483;
const COLLECTOR = 7484;
const SERVICES = 7485;
const SERVICES_TLS = 7488;
const OTLP = 7487;
const OTLP_HTTP = 7489;
const TCP = 7084;
const TCP_BACKEND = 7486;

/** A span in the JSON of Zipkin's API (https://zipkin.io/zipkin-api/#/default/post_spans), as far as tests read it. */
interface ZipkinSpan {
  readonly traceId: string;
  readonly name: string;
  readonly localEndpoint: { readonly serviceName: string };
  readonly tags: Readonly<Record<string, string>>;
}

const owner = suiteOwner();
const address = planMesh();
const receiver = lazy<Child | undefined>();
const front = lazy<Agent>();
const control = lazy<TestMesh>();
const withoutReceiver = (await receiverUnavailable()) ?? false;
const spans: ZipkinSpan[] = [];
/** Encoded messages that the gRPC services received, by the path of the method. */
const received = new Map<string, Buffer[]>();

/** Receives streams of access logs and of metrics (envoy/service/accesslog/v3/als.proto, …/metrics/v3). */
async function startServices({ certificate, key }: CertificateFiles): Promise<void> {
  const server = new Server();
  for (const path of [ACCESS_LOGS, METRICS]) {
    const raw = (bytes: Buffer) => bytes;
    const method = { path, requestStream: true, responseStream: false } as const;
    const codec = { requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };
    server.addService(
      { stream: { ...method, ...codec } },
      {
        stream: (call: NodeJS.EventEmitter) => {
          call.on('data', (bytes: Buffer) => received.set(path, [...(received.get(path) ?? []), bytes]));
        },
      },
    );
  }
  const pair = { cert_chain: await readFile(certificate), private_key: await readFile(key) };
  const listen = (port: number, credentials: ServerCredentials): Promise<void> =>
    new Promise((resolve, reject) => {
      server.bindAsync(`${address(31)}:${port}`, credentials, (error) => (error === null ? resolve() : reject(error)));
    });
  await listen(SERVICES, ServerCredentials.createInsecure());
  await listen(SERVICES_TLS, ServerCredentials.createSsl(null, [pair]));
  owner.after(() => server.forceShutdown());
}

/** Waits for a message of a service that contains these strings. */
function receivedWith(path: string, ...strings: readonly string[]): Promise<Buffer> {
  return eventually(
    () =>
      received.get(path)?.find((bytes) => strings.every((each) => bytes.includes(each))) ??
      assert.fail(`no ${strings.join(', ')} among ${received.get(path)?.length ?? 0} messages`),
  );
}

function gateway(name: string, at: string) {
  const ports = [
    { number: HTTP, name: 'http', protocol: 'HTTP' },
    { number: TCP, name: 'tcp', protocol: 'TCP' },
  ];
  const servers = ports.map((port) => ({ port, hosts: ['*'], bind: at }));
  return resource('Gateway', name, { selector: { app: name }, servers });
}

async function startZipkin(): Promise<void> {
  const collector = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.once('end', () => {
      if (incoming.url === '/api/v2/spans') spans.push(...JSON.parse(Buffer.concat(chunks).toString()));
      response.writeHead(202).end();
    });
  });
  collector.listen(COLLECTOR, address(31));
  owner.after(() => void collector.close());
}

/** The receiver of the OpenTelemetry Collector; what it prints is the value. */
async function startReceiver(): Promise<Child | undefined> {
  if (withoutReceiver !== false) return undefined;
  const command = await buildReceiver();
  const child = await startChild(owner, {
    name: 'OTLP receiver',
    command,
    args: [`${address(32)}:${OTLP}`, `${address(32)}:${OTLP_HTTP}`],
  });
  await eventually(() => assert.match(child.output(), /^ready$/m));
  return child;
}

const destination = { host: 'backend.default.svc.cluster.local' };

const DOCUMENTS = [
  service('backend', { ports: [{ name: 'http', port: BACKEND }] }),
  endpoints('backend', [address(21)], [{ name: 'http', port: BACKEND }]),
  service('bytes', { ports: [{ name: 'tcp', port: TCP_BACKEND }] }),
  endpoints('bytes', [address(22)], [{ name: 'tcp', port: TCP_BACKEND }]),
  service('collector', { ports: [{ name: 'grpc', port: OTLP }] }),
  endpoints('collector', [address(32)], [{ name: 'grpc', port: OTLP }]),
  gateway('zipkin', address(1)),
  gateway('otel', address(2)),
  resource('VirtualService', 'all', {
    hosts: ['*'],
    gateways: ['zipkin', 'otel'],
    http: [{ match: [{ uri: { prefix: '/shop' } }], route: [{ destination }] }],
    tcp: [{ route: [{ destination: { host: 'bytes.default.svc.cluster.local' } }] }],
  }),
  {
    ...resource('Telemetry', 'otel', {
      selector: { matchLabels: { app: 'otel' } },
      tracing: [{ providers: [{ name: 'spans' }], customTags: { tier: { literal: { value: 'gold' } } } }],
      accessLogging: [{ providers: [{ name: 'records' }], filter: { expression: 'response.code >= 500' } }],
    }),
    apiVersion: 'telemetry.istio.io/v1alpha1',
  },
  {
    ...resource('Telemetry', 'zipkin', {
      selector: { matchLabels: { app: 'zipkin' } },
      metrics: [{ overrides: [{ tagOverrides: { user: { value: "request.headers['x-user']" } } }] }],
    }),
    apiVersion: 'telemetry.mesh.io/v1',
  },
];

const COLLECTED = { service: 'collector.default.svc.cluster.local', port: OTLP };
const MESH = {
  defaultProviders: { metrics: ['prometheus'] },
  enableEnvoyAccessLogService: true,
  extensionProviders: [
    { name: 'spans', opentelemetry: COLLECTED },
    {
      name: 'records',
      envoyOtelAls: { ...COLLECTED, logFormat: { text: '%REQ(:PATH)%', labels: { of: '%PROTOCOL%' } } },
    },
  ],
};

before(async () => {
  await startEcho(owner, { name: 'backend', address: address(21), port: BACKEND });
  await startTcpEcho(owner, { name: 'bytes', address: address(22), port: TCP_BACKEND });
  const root = await foreignRoot(owner);
  await Promise.all([startZipkin(), startServices(await signedBy(owner, root, 'DNS:logs.example'))]);
  receiver.set(await startReceiver());
  const folder = await tempDir(owner);
  const meshConfig = join(folder, 'mesh.yaml');
  await writeFile(meshConfig, stringify(MESH));
  const overrides = join(folder, 'overrides.json');
  await writeFile(overrides, JSON.stringify({ stats_flush_interval: '1s', stats_eviction_interval: '3s' }));
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    files: { mesh: DOCUMENTS },
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://${address(32)}:${OTLP_HTTP}`,
      OTEL_METRIC_EXPORT_INTERVAL: '500',
      OTEL_BSP_SCHEDULE_DELAY: '500',
    },
  });
  control.set(mesh);
  const customTags = { tier: { literal: { value: 'gold' } }, user: { header: { name: 'x-user' } } };
  const tracing = {
    zipkin: { address: `${address(31)}:${COLLECTOR}` },
    sampling: 0,
    customTags,
    enableIstioTags: true,
  };
  const tlsSettings = { mode: 'SIMPLE', caCertificates: root.certificate, subjectAltNames: ['logs.example'] };
  const envoyAccessLogService = { address: `${address(31)}:${SERVICES_TLS}`, tlsSettings };
  const envoyMetricsService = { address: `${address(31)}:${SERVICES}` };
  const common = { role: 'router', discoveryAddress: `127.0.0.1:${mesh.discovery().ports.grpc}` } as const;
  const proxyConfig = { controlPlaneAuthPolicy: 'NONE', serviceCluster: 'front' };
  const [agent] = await Promise.all([
    startAgent(owner, {
      ...common,
      name: 'zipkin',
      address: address(1),
      proxyConfig: { ...proxyConfig, tracing, envoyAccessLogService, envoyMetricsService },
      env: { MESH_BOOTSTRAP_OVERRIDE: overrides },
    }),
    ...(receiver.get() === undefined
      ? []
      : [startAgent(owner, { ...common, name: 'otel', address: address(2), proxyConfig })]),
  ]);
  front.set(agent);
});

async function call(last: number, path: string, headers: Readonly<Record<string, string>>): Promise<EchoReply> {
  const response = await eventually(async () => {
    const found = await request({ address: address(last), port: HTTP, path, headers });
    assert.equal(found.status, 200);
    return found;
  });
  return response.json() as EchoReply;
}

test('spans reach Zipkin with the operation and the tags of the proxy configuration, as B3 headers ask for', async () => {
  const traceId = '463ac35c9f6413ad48485a3953bb6124';
  await call(1, '/shop/unsampled', {});
  const { headers } = await call(1, '/shop/cart', {
    'x-b3-traceid': traceId,
    'x-b3-spanid': 'a2fb4a1d1a96d312',
    'x-b3-sampled': '1',
    'x-user': 'ann',
  });
  assert.equal(headers['x-b3-traceid'], traceId);
  assert.equal(headers['x-b3-sampled'], '1');
  const span = await eventually(() => spans.find((each) => each.traceId === traceId) ?? assert.fail('no span'));
  assert.equal(span.name, `backend.default.svc.cluster.local:${BACKEND}/shop*`);
  assert.equal(span.localEndpoint.serviceName, 'front');
  assert.equal(span.tags.tier, 'gold');
  assert.equal(span.tags.user, 'ann');
  assert.equal(span.tags['istio.canonical_service'], 'zipkin');
  assert.match(span.tags['http.url'] ?? '', /\/shop\/cart$/);
  // `sampling: 0` of the proxy's own configuration replaces CTL_TRACE_SAMPLING, which is 100.
  assert.ok(!spans.some(({ tags }) => tags['http.url']?.endsWith('unsampled')));
});

test('requests and connections are logged by gRPC over TLS, and metrics are sent', async () => {
  await call(1, '/shop/logged', {});
  await receivedWith(ACCESS_LOGS, '/shop/logged', `outbound|${BACKEND}||backend.default.svc.cluster.local`);
  await exchange({ address: address(1), port: TCP, send: 'ping', until: 'ping' });
  await receivedWith(ACCESS_LOGS, `outbound|${TCP_BACKEND}||bytes.default.svc.cluster.local`);
  const names = received.get(ACCESS_LOGS)?.map(String).join('') ?? '';
  assert.match(names, /http_envoy_accesslog/);
  assert.match(names, /tcp_envoy_accesslog/);
  await receivedWith(METRICS, 'cluster_manager');
});

test('a scrape of the agent has the metrics of requests under the names of dashboards', async () => {
  await call(1, '/shop/counted', {});
  const service = 'destination_service="backend.default.svc.cluster.local",destination_service_name="backend"';
  await eventually(async () => {
    const { body: scrape } = await front.get().http('status', '/stats/prometheus');
    assert.match(
      scrape,
      new RegExp(`^istio_requests_total\\{reporter="source",.*${service}.*response_code="200".* \\d+$`, 'm'),
    );
    assert.match(scrape, /^# TYPE istio_request_duration_milliseconds histogram$/m);
    assert.doesNotMatch(scrape, /envoy_istio_/);
  });
});

test('the value of a tag that a document adds has at most 128 bytes, and its series is removed after disuse', async () => {
  await call(1, '/shop/long', { 'x-user': 'u'.repeat(10_000) });
  const series = async () => {
    const { body: scrape } = await front.get().http('status', '/stats/prometheus');
    return scrape.match(/^istio_requests_total\{.*user="u+".*$/m)?.[0];
  };
  await eventually(async () => assert.match((await series()) ?? '', /user="u{128}"/));
  await eventually(async () => assert.equal(await series(), undefined));
});

test('a Telemetry document sends spans and chosen log records of its workload to the receiver of an OpenTelemetry Collector', {
  skip: withoutReceiver,
}, async () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const { headers } = await call(2, '/shop/cart', { traceparent: `00-${traceId}-b7ad6b7169203331-01` });
  assert.match(String(headers.traceparent), new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  const lines = (signal: string) =>
    receiver
      .get()
      ?.output()
      .split('\n')
      .filter((line) => line.startsWith(signal)) ?? [];
  const span = await eventually(
    () => lines('spans').find((line) => line.includes(traceId)) ?? assert.fail('no span of the trace'),
  );
  assert.match(span, /"key":"service.name","value":\{"stringValue":"front"\}/);
  assert.match(span, new RegExp(`"name":"(?:router )?backend.default.svc.cluster.local:${BACKEND}/shop\\*`));
  assert.match(span, /"key":"tier","value":\{"stringValue":"gold"\}/);
  const failed = await request({ address: address(2), port: HTTP, path: '/shop/failing?status=503' });
  assert.equal(failed.status, 503);
  const record = await eventually(
    () => lines('logs').find((line) => line.includes('/shop/failing')) ?? assert.fail('no record of the failure'),
  );
  assert.match(record, /"key":"of","value":\{"stringValue":"HTTP\/1.1"\}/);
  assert.ok(!lines('logs').some((line) => line.includes('/shop/cart')));
});

test('the control plane sends its metrics, and a trace of each push, to the receiver of the OpenTelemetry Collector', {
  skip: withoutReceiver,
}, async () => {
  const { config, discovery } = control.get();
  await config.apply('pushed', service('pushed', { ports: [{ name: 'http', port: BACKEND }] }));
  interface Trace {
    readonly resourceSpans: readonly {
      readonly scopeSpans: readonly {
        readonly spans: readonly { readonly name: string; readonly attributes: unknown }[];
      }[];
    }[];
  }
  const names = await eventually(() => {
    const lines =
      receiver
        .get()
        ?.output()
        .match(/^spans .*"mesh\.push\..*$/gm) ?? [];
    const spans = lines
      .map((line) => JSON.parse(line.slice('spans '.length)) as Trace)
      .flatMap(({ resourceSpans }) => resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans)
      .flatMap((scope) => scope.spans);
    assert.ok(spans.some(({ attributes }) => JSON.stringify(attributes).includes('Service/default/pushed')));
    return new Set(spans.map(({ name }) => name));
  });
  for (const name of ['push', 'debounce', 'snapshot', 'generate', 'acknowledge']) assert.ok(names.has(name), name);
  await eventually(() => {
    const metrics = (receiver.get()?.output() ?? '').match(/^metrics .*$/gm)?.join() ?? '';
    assert.match(metrics, /"Gauge ctl_xds"/);
    assert.match(metrics, /"Sum ctl_push_triggers"/);
    assert.match(metrics, /"Histogram ctl_proxy_convergence_time"/);
  });
  const sent = async (signal: string, result: string) =>
    Number(await discovery().metric(`ctl_otlp_items_total{signal="${signal}",result="${result}"}`));
  for (const signal of ['metrics', 'traces']) {
    assert.ok((await sent(signal, 'sent')) > 0);
    assert.equal(await sent(signal, 'dropped'), 0);
  }
});
