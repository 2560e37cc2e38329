/**
 * The agent's tokens: identity tokens of a metadata server, tokens exchanged for the authority (PLUGINS), and the
 * security token service, whose client is Envoy's own (`sts_service` of a gRPC service).
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { before, test } from 'node:test';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { jwt } from '../../src/agent/credentials/testing/service.ts';
import type { TestRoot } from '../../src/agent/identity/testing/certificates.ts';
import { type OAuthServer, startOAuthServer, TEST_CLIENT } from '../../src/agent/sts/testing/oauth-server.ts';
import { type Agent, eventually, freePort, type Owner, startAgent } from '../harness/index.ts';
import { securedControlPlane } from './support/secured-control-plane.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const owner = suiteOwner();
const shared = lazy<{ readonly plane: Awaited<ReturnType<typeof securedControlPlane>>; readonly oauth: OAuthServer }>();

before(async () => {
  const [plane, oauth] = await Promise.all([securedControlPlane(owner), startOAuthServer()]);
  owner.after(() => oauth.close());
  shared.set({ plane, oauth });
});

const lines = (agent: Agent, pattern: RegExp): number =>
  agent
    .output()
    .split('\n')
    .filter((line) => pattern.test(line)).length;

const scrape = async (agent: Agent): Promise<string> => (await agent.http('status', '/stats/prometheus')).body;

/** The credentials of the calls to the authority since the `from`th. */
const bearers = (from: number): readonly string[] =>
  shared
    .get()
    .plane.ca.calls.slice(from)
    .map(({ authorization = '' }) => authorization.replace(/^Bearer /, ''));

test('identity tokens of the metadata server are the workload’s token; while there are none, the agent waits', async (t) => {
  const { plane } = shared.get();
  const port = await freePort();
  const from = plane.ca.calls.length;
  const agent = await startAgent(t, {
    name: 'cloud',
    discoveryAddress: plane.address,
    env: {
      ...plane.env,
      CA_TOKEN_FILE: '/nosuch/token',
      CREDENTIAL_FETCHER_TYPE: 'CloudComputeEngine',
      CLOUD_METADATA_HOST: `127.0.0.1:${port}`,
      CLOUD_METADATA: 'shop-1|42|cluster-a|us-east1-b',
      INITIAL_BACKOFF_MSEC: '50',
    },
    waitReady: false,
  });
  const absent = /no new certificate: http:\/\/127\.0\.0\.1:\d+\/computeMetadata\/.*ECONNREFUSED/;
  await eventually(() => assert.equal(lines(agent, absent), 1));

  let answer: RequestListener = (_, response) => void response.writeHead(200).end('a captive portal');
  const metadata = createServer((request, response) => answer(request, response)).listen(port, '127.0.0.1');
  t.after(() => metadata.close());
  await once(metadata, 'listening');
  await eventually(() => assert.equal(lines(agent, /no new certificate: .* header Metadata-Flavor is missing/), 1));

  const token = jwt({ aud: 'cluster.local', exp: Math.floor(Date.now() / 1000) + 3600, sub: 'vm' });
  answer = (_, response) => void response.writeHead(200, { 'metadata-flavor': 'Google' }).end(token);
  await agent.waitReady();
  assert.equal(lines(agent, absent), 1, agent.output());
  assert.deepEqual(new Set(bearers(from)), new Set([token]));
  assert.ok(!agent.output().includes(token));
  assert.match(await scrape(agent), /^num_outgoing_requests\{request_type="metadata"\} [1-9]/m);
  const { node } = JSON.parse(await agent.admin('/server_info'));
  assert.equal(node.metadata.PLATFORM_METADATA.gcp_project_number, '42');
});

/** A sink of Envoy's metrics, which records the authorization of each stream. */
async function startSink(t: Owner, root: TestRoot) {
  const seen: string[] = [];
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const server = new Server();
  const bytes = (value: Buffer): Buffer => value;
  const stream = {
    path: '/envoy.service.metrics.v3.MetricsService/StreamMetrics',
    requestStream: true,
    responseStream: false,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  } as const;
  server.addService(
    { stream },
    {
      stream: (call: { metadata: { get(name: string): readonly unknown[] }; resume(): void }) => {
        seen.push(String(call.metadata.get('authorization')[0]));
        call.resume();
      },
    },
  );
  const key = {
    cert_chain: Buffer.from(root.issue(publicKey, ['localhost'], 3_600_000)),
    private_key: Buffer.from(privateKey.export({ type: 'pkcs8', format: 'pem' })),
  };
  const port = await new Promise<number>((resolve, reject) => {
    const credentials = ServerCredentials.createSsl(null, [key]);
    server.bindAsync('127.0.0.1:0', credentials, (error, at) => (error ? reject(error) : resolve(at)));
  });
  t.after(() => server.forceShutdown());
  return { port, seen };
}

test('Envoy gets tokens from the security token service; the authority is sent an exchanged one', async (t) => {
  const { plane, oauth } = shared.get();
  const from = plane.ca.calls.length;
  const [sink, stsPort] = await Promise.all([startSink(t, plane.ca.root), freePort()]);
  const subject = await oauth.subjectToken('web');
  const token = await plane.file('subject', subject);
  const grpc = {
    target_uri: `localhost:${sink.port}`,
    stat_prefix: 'metrics_sink',
    channel_credentials: { ssl_credentials: { root_certs: { filename: plane.env.CA_ROOT_CA } } },
    call_credentials: [
      {
        sts_service: {
          token_exchange_service_uri: `http://localhost:${stsPort}/token`,
          subject_token_path: token,
          subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
          scope: 'write',
        },
      },
    ],
  };
  const config = {
    '@type': 'type.googleapis.com/envoy.config.metrics.v3.MetricsServiceConfig',
    transport_api_version: 'V3',
    grpc_service: { google_grpc: grpc },
  };
  const sinks = { stats_flush_interval: '1s', stats_sinks: [{ name: 'sink', typed_config: config }] };
  const agent = await startAgent(t, {
    name: 'web',
    discoveryAddress: plane.address,
    flags: ['--stsPort', String(stsPort)],
    env: {
      ...plane.env,
      CA_TOKEN_FILE: token,
      SKIP_PARSE_TOKEN: 'false',
      PLUGINS: 'CloudTokenExchange',
      TOKEN_EXCHANGE_ENDPOINT: oauth.tokenEndpoint,
      TOKEN_EXCHANGE_CLIENT_FILE: await plane.file('client', `${TEST_CLIENT.id}:${TEST_CLIENT.secret}`),
      MESH_BOOTSTRAP_OVERRIDE: await plane.file('override.json', JSON.stringify(sinks)),
    },
  });
  const [exchanged = ''] = bearers(from);
  assert.equal(await oauth.subjectOf(exchanged), 'web');

  const issued = await eventually(() => {
    const [first = ''] = sink.seen;
    assert.match(first, /^Bearer /, agent.output());
    return first.slice('Bearer '.length);
  });
  assert.equal(await oauth.subjectOf(issued), 'web');
  assert.notEqual(issued, exchanged);

  const status = await fetch(`http://localhost:${stsPort}/stsStatus`).then((response) => response.text());
  assert.deepEqual(
    (JSON.parse(status) as { tokens: { scope?: string }[] }).tokens.map(({ scope = 'none' }) => scope).sort(),
    ['none', 'write'],
  );
  for (const secret of [subject, issued, exchanged])
    assert.ok(!agent.output().includes(secret) && !status.includes(secret));
  assert.match(await scrape(agent), /^num_outgoing_requests\{request_type="token_exchange"\} 2$/m);
  const { node } = JSON.parse(await agent.admin('/server_info'));
  assert.equal(node.metadata.STS_PORT, String(stsPort));
});
