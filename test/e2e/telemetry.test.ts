/**
 * What proxies send about requests: spans by Zipkin's API, access logs and metrics by Envoy's gRPC services. A gateway
 * with an agent and a real Envoy; the receivers read only as much of the messages as the tests need.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { stringify } from 'yaml';
import {
  type Agent,
  type EchoReply,
  eventually,
  exchange,
  request,
  startAgent,
  startEcho,
  startTcpEcho,
  tempDir,
} from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { planMesh, startMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const ACCESS_LOGS = '/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs';
const METRICS = '/envoy.service.metrics.v3.MetricsService/StreamMetrics';
const HTTP = 7083;
const BACKEND = 7483;
const COLLECTOR = 7484;
const SERVICES = 7485;
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
const zipkin = lazy<Agent>();
const spans: ZipkinSpan[] = [];
/** Encoded messages that the gRPC services received, by the path of the method. */
const received = new Map<string, Buffer[]>();

/** Receives streams of access logs and of metrics (envoy/service/accesslog/v3/als.proto, …/metrics/v3). */
async function startServices(): Promise<void> {
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
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`${address(31)}:${SERVICES}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
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

before(async () => {
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
  const backend = await startEcho(owner, { name: 'backend', address: address(21), port: BACKEND });
  await startTcpEcho(owner, { name: 'bytes', address: address(22), port: TCP_BACKEND });
  await startServices();
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(meshConfig, stringify({ enableEnvoyAccessLogService: true }));
  const destination = { host: 'backend.default.svc.cluster.local' };
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    files: {
      mesh: [
        service('backend', { ports: [{ name: 'http', port: BACKEND }] }),
        endpoints('backend', [backend.address], [{ name: 'http', port: BACKEND }]),
        service('bytes', { ports: [{ name: 'tcp', port: TCP_BACKEND }] }),
        endpoints('bytes', [address(22)], [{ name: 'tcp', port: TCP_BACKEND }]),
        gateway('zipkin', address(1)),
        resource('VirtualService', 'all', {
          hosts: ['*'],
          gateways: ['zipkin'],
          http: [{ match: [{ uri: { prefix: '/shop' } }], route: [{ destination }] }],
          tcp: [{ route: [{ destination: { host: 'bytes.default.svc.cluster.local' } }] }],
        }),
      ],
    },
  });
  const customTags = { tier: { literal: { value: 'gold' } }, user: { header: { name: 'x-user' } } };
  const tracing = { zipkin: { address: `${address(31)}:${COLLECTOR}` }, sampling: 0, customTags };
  const services = { address: `${address(31)}:${SERVICES}` };
  zipkin.set(
    await startAgent(owner, {
      name: 'zipkin',
      role: 'router',
      address: address(1),
      discoveryAddress: `127.0.0.1:${mesh.discovery().ports.grpc}`,
      proxyConfig: {
        controlPlaneAuthPolicy: 'NONE',
        serviceCluster: 'front',
        tracing,
        envoyAccessLogService: services,
        envoyMetricsService: services,
      },
    }),
  );
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
  assert.match(span.tags['http.url'] ?? '', /\/shop\/cart$/);
  // `sampling: 0` of the proxy's own configuration replaces CTL_TRACE_SAMPLING, which is 100.
  assert.ok(!spans.some(({ tags }) => tags['http.url']?.endsWith('unsampled')));
});

test('requests and connections are logged by gRPC, and metrics are sent', async () => {
  await call(1, '/shop/logged', {});
  await receivedWith(ACCESS_LOGS, '/shop/logged', `outbound|${BACKEND}||backend.default.svc.cluster.local`);
  await exchange({ address: address(1), port: TCP, send: 'ping', until: 'ping' });
  await receivedWith(ACCESS_LOGS, `outbound|${TCP_BACKEND}||bytes.default.svc.cluster.local`);
  const names = received.get(ACCESS_LOGS)?.map(String).join('') ?? '';
  assert.match(names, /http_envoy_accesslog/);
  assert.match(names, /tcp_envoy_accesslog/);
  await receivedWith(METRICS, 'cluster_manager');
});
