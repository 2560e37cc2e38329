/**
 * Requests at the inbound ports of a sidecar, whatever policies say: which versions of HTTP are accepted, what is tried
 * again, and how both ends count; requests of its application to its port as an HTTP proxy; and what the policy
 * component knows of clients. Through agents, real Envoys and redirection.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { type EchoReply, eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { pod } from './support/config.ts';
import {
  type IdentityWorld,
  sharedService,
  startIdentityWorld,
  TRUST_DOMAIN,
  UNBOUND_PORT,
  type Workload,
} from './support/identity-world.ts';
import { httpOutcome, outcomeOf } from './support/peer-calls.ts';
import { policyDocument } from './support/policy-documents.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

/** Ports at which no application listens, with their names in the Service. */
const GONE = { 'http-gone': 8990, gone: 8991, 'grpc-gone': 8992 } as const;

/** `proxyHttpPort` of the mesh configuration. */
const PROXY_PORT = 15002;

/** What the proxy of the caller claims of its workload. */
const LIES = {
  MESH_METAJSON_LABELS: '{"app":"caller","role":"admin"}',
  MESH_META_OWNER: 'kubernetes://apis/apps/v1/namespaces/foo/deployments/admin',
};

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  readonly plain: Workload;
  readonly caller: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const accessLogFormat = 'LOG %REQ(:PATH)% %RESPONSE_CODE% attempts %UPSTREAM_REQUEST_ATTEMPT_COUNT%\n';
  const defaultProviders = { metrics: ['prometheus'] };
  const settings = { accessLogFile: '/dev/stderr', accessLogFormat, defaultProviders, proxyHttpPort: PROXY_PORT };
  await writeFile(meshConfig, stringify(settings));
  const world = await startIdentityWorld(owner, { flags: ['--meshConfig', meshConfig] });
  const env = (name: string) => ({ MESH_META_WORKLOAD_NAME: `${name}-v1` });
  const [web, caller, plain] = await Promise.all([
    world.addWorkload({ name: 'web', namespace: 'foo', proxied: true, env: env('web') }),
    world.addWorkload({ name: 'caller', namespace: 'bar', proxied: true, env: { ...env('caller'), ...LIES } }),
    world.addWorkload({ name: 'plain', namespace: 'legacy', proxied: false }),
  ]);
  const gone = Object.entries(GONE).map(([name, port]) => ({ name, port, targetPort: port }));
  const detected = { name: 'detected', port: UNBOUND_PORT, targetPort: UNBOUND_PORT };
  await world.config.apply('more', ...sharedService('more', '10.96.2.1', [web], [...gone, detected]));
  await eventually(async () => assert.match((await web.agent?.admin('/clusters')) ?? '', /^inbound\|8992\|\|::/m));
  shared.set({ world, web, caller, plain });
});

/** The outcome of a request by curl with these arguments, to a path that occurs once. */
function call(port: number, path: string, ...args: readonly string[]): Promise<string> {
  const { plain, web } = shared.get();
  return httpOutcome(plain, web, ['-m', '10', ...args, `http://${web.netns.address}:${port}${path}`]);
}

/** What the access log of the proxy says about a path. */
function logged(path: string): Promise<string> {
  return eventually(() => {
    const line = shared
      .get()
      .web.agent?.output()
      .match(new RegExp(`LOG ${path} (.*)`));
    return line?.[1] ?? assert.fail(`nothing about ${path}`);
  });
}

/** The series of a metric in Envoy's own scrape: labels → value. */
async function series({ agent }: Workload, name: string): Promise<{ labels: Labels; value: number }[]> {
  const scrape = (await agent?.admin('/stats/prometheus?usedonly')) ?? '';
  const lines = scrape.split('\n').filter((line) => line.startsWith(`envoy_${name}{`));
  return lines.map((line) => ({
    labels: Object.fromEntries(
      [...line.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
    ),
    value: Number(line.slice(line.lastIndexOf(' '))),
  }));
}

type Labels = Readonly<Record<string, string>>;

/** Waits for one series with these labels and a value above 0. */
async function counted(of: Workload, name: string, expected: Labels): Promise<Labels> {
  return await eventually(async () => {
    const all = await series(of, name);
    const found = all.filter(({ labels, value }) => {
      return value > 0 && Object.entries(expected).every(([key, each]) => labels[key] === each);
    });
    assert.equal(found.length, 1, `${name}: ${JSON.stringify(all, undefined, 1)}`);
    return found[0]?.labels ?? {};
  });
}

describe('inbound requests', { skip }, () => {
  test('HTTP/1.0 is accepted where the protocol is detected', async () => {
    assert.equal(await call(UNBOUND_PORT, '/', '--http1.0'), '200 plain', 'a port without protocol');
    // Declared as HTTP: without CTL_HTTP10 clients are told to use a newer version.
    assert.equal(await call(8080, '/', '--http1.0'), '426');
  });

  test('requests that could not be sent to the application are tried twice more, except gRPC', async () => {
    const calls = [
      ['http-gone', GONE['http-gone'], 3],
      ['gone', GONE.gone, 3],
      ['grpc-gone', GONE['grpc-gone'], 1],
      ['of-no-service', 8999, 3],
    ] as const;
    for (const [name, port] of calls) assert.equal(await call(port, `/${name}`), '503', name);
    // Envoy writes its access log every ten seconds (--file-flush-interval-msec).
    for (const [name, , attempts] of calls) assert.equal(await logged(`/${name}`), `503 attempts ${attempts}`, name);
  });

  test('requests and connections are counted at both ends, with workloads, identities and the service', async () => {
    const { web, caller } = shared.get();
    assert.equal(await outcomeOf({ from: caller, to: web, port: 'http' }), '200 mtls');
    assert.equal(await outcomeOf({ from: caller, to: web, port: 'bytes' }), 'ok');
    const both = {
      source_principal: 'spiffe://cluster.local/ns/bar/sa/caller',
      destination_principal: 'spiffe://cluster.local/ns/foo/sa/web',
      destination_service: 'web.foo.svc.cluster.local',
      destination_service_name: 'web',
      destination_service_namespace: 'foo',
    };
    const source = { ...both, reporter: 'source', connection_security_policy: 'unknown' };
    const sourceSide = {
      ...source,
      source_workload: 'caller-v1',
      source_workload_namespace: 'bar',
      source_app: 'caller',
    };
    const destination = { ...both, reporter: 'destination', connection_security_policy: 'mutual_tls' };
    const destinationSide = {
      ...destination,
      destination_workload: 'web-v1',
      destination_workload_namespace: 'foo',
      destination_app: 'web',
    };
    for (const [at, labels] of [[caller, sourceSide] as const, [web, destinationSide] as const]) {
      const ofRequests = { ...labels, request_protocol: 'http', response_code: '200', response_flags: '-' };
      for (const name of [
        'istio_requests_total',
        'istio_request_duration_milliseconds_count',
        'istio_request_bytes_sum',
      ])
        await counted(at, name, ofRequests);
      const { source_canonical_service, destination_canonical_service, grpc_response_status } = await counted(
        at,
        'istio_response_bytes_sum',
        ofRequests,
      );
      assert.equal(source_canonical_service ?? destination_canonical_service, at.name);
      assert.equal(grpc_response_status, '');
      const ofConnections = { ...labels, request_protocol: 'tcp' };
      for (const name of ['connections_closed_total', 'sent_bytes_total', 'received_bytes_total'])
        await counted(at, `istio_tcp_${name}`, ofConnections);
    }
  });
});

test('an application reaches services by the HTTP proxy of the mesh configuration', { skip }, async () => {
  const { web, plain } = shared.get();
  const through = (url: string) => httpOutcome(web, plain, ['-m', '10', '-x', `http://127.0.0.1:${PROXY_PORT}`, url]);
  await eventually(async () => assert.equal(await through('http://plain.legacy.svc.cluster.local/'), '200 plain'));
  assert.equal(await through('http://plain.legacy:80/'), '200 plain');
  // Even with ALLOW_ANY, because the connection to the proxy has no other destination.
  assert.equal(await through('http://nobody.legacy/'), '503');
});

describe('the policy component', { skip }, () => {
  /** What the application of web.foo receives about the client. */
  const told = async (from: Workload, to: string): Promise<unknown> => {
    const forged = ['x-peer: admin', `x-forwarded-client-cert: URI=spiffe://${TRUST_DOMAIN}/ns/foo/sa/admin`];
    const headers = forged.flatMap((each) => ['-H', each]);
    const body = await from.netns.run('curl', '-sS', '-m', '20', ...headers, `http://${to}/`);
    return (JSON.parse(body) as EchoReply).headers['x-peer'];
  };

  test('knows a client by its certificate, and its workload from the model', async () => {
    const { world, web, caller, plain } = shared.get();
    const hash = { app: 'caller', 'pod-template-hash': '7d9', 'security.mesh.io/tlsMode': 'mesh' };
    await world.config.apply(
      `workload-${caller.id}`,
      pod('caller-7d9-x', { namespace: 'bar', labels: hash, ip: caller.netns.address, serviceAccount: 'caller' }),
    );
    const values = [
      ...['principal', 'namespace', 'serviceAccount', 'workload.name', 'owner', 'uid'].map(
        (name) => `source.${name} | "none"`,
      ),
      'source.labels["app"] | "none"',
      'source.labels["role"] | "none"',
      'conditional(connection.mtls, "mtls", "plain")',
    ];
    await world.config.apply(
      'policy',
      policyDocument('rule', 'peer', { requestHeaderOperations: [{ name: 'x-peer', values }] }, 'foo'),
    );
    const known = [
      `${TRUST_DOMAIN}/ns/bar/sa/caller`,
      'bar',
      'caller',
      'caller',
      'kubernetes://apis/apps/v1/namespaces/bar/deployments/caller',
      'kubernetes://caller-7d9-x.bar',
      'caller',
      'none',
      'mtls',
    ];
    await eventually(async () => assert.equal(await told(caller, `${web.serviceAddress}:80`), known.join(',')), {
      timeoutMs: 30_000,
    });
    const unknown = [...Array<string>(8).fill('none'), 'plain'];
    assert.equal(await told(plain, `${web.netns.address}:8080`), unknown.join(','));
  });

  test('decides about connections by the identity of the client', async () => {
    const { world, web, caller } = shared.get();
    const deny = (match: string) =>
      world.config.apply(
        'policy',
        policyDocument('handler', 'deny', { compiledAdapter: 'denier' }, 'foo'),
        policyDocument('instance', 'any', { compiledTemplate: 'checknothing' }, 'foo'),
        policyDocument('rule', 'tcp', { match, actions: [{ handler: 'deny', instances: ['any'] }] }, 'foo'),
      );
    const becomes = (expected: string) =>
      eventually(async () => assert.equal(await outcomeOf({ from: caller, to: web, port: 'bytes' }), expected), {
        timeoutMs: 30_000,
      });
    await deny(`source.principal == "${TRUST_DOMAIN}/ns/bar/sa/caller" && context.protocol == "tcp"`);
    await becomes('cut');
    assert.equal(await outcomeOf({ from: caller, to: web, port: 'http' }), '200 mtls');
    await deny('source.labels["role"] == "admin" && context.protocol == "tcp"');
    await becomes('ok');
  });
});
