/**
 * What proxies send about requests, to real receivers: spans by Zipkin's API. Gateways with agents and real Envoys.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { before, test } from 'node:test';
import { type Agent, type EchoReply, eventually, request, startAgent, startEcho } from '../harness/index.ts';
import { endpoints, resource, service } from './support/config.ts';
import { planMesh, startMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const HTTP = 7083;
const BACKEND = 7483;
const COLLECTOR = 7484;

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

function gateway(name: string, at: string) {
  const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
  return resource('Gateway', name, { selector: { app: name }, servers: [{ port, hosts: ['*'], bind: at }] });
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
  const destination = { host: 'backend.default.svc.cluster.local' };
  const mesh = await startMesh(owner, address, {
    files: {
      mesh: [
        service('backend', { ports: [{ name: 'http', port: BACKEND }] }),
        endpoints('backend', [backend.address], [{ name: 'http', port: BACKEND }]),
        gateway('zipkin', address(1)),
        resource('VirtualService', 'all', {
          hosts: ['*'],
          gateways: ['zipkin'],
          http: [{ match: [{ uri: { prefix: '/shop' } }], route: [{ destination }] }],
        }),
      ],
    },
  });
  const customTags = { tier: { literal: { value: 'gold' } }, user: { header: { name: 'x-user' } } };
  const tracing = { zipkin: { address: `${address(31)}:${COLLECTOR}` }, sampling: 0, customTags };
  zipkin.set(
    await startAgent(owner, {
      name: 'zipkin',
      role: 'router',
      address: address(1),
      discoveryAddress: `127.0.0.1:${mesh.discovery().ports.grpc}`,
      proxyConfig: { controlPlaneAuthPolicy: 'NONE', serviceCluster: 'front', tracing },
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
