/**
 * The agent's identity module with a real Envoy: secrets over the Unix domain socket, in both variants of the protocol,
 * replaced while connections are open and requests in progress.
 */
import assert from 'node:assert/strict';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { type IdentitySettings, startAgentIdentity } from '../../src/agent/identity/index.ts';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import { prepare } from '../../src/agent/identity/testing/site.ts';
import { startTestCa, type TestCa } from '../../src/agent/identity/testing/test-ca.ts';
import { derOf, startTestWorkloadApi, svidOf } from '../../src/agent/identity/testing/test-workload-api.ts';
import type { AgentIdentity } from '../../src/agent/types.ts';
import type { JsonValue } from '../../src/protobuf/index.ts';
import {
  createScope,
  type Envoy,
  eventually,
  freePort,
  type Owner,
  startEcho,
  startEnvoy,
  tempDir,
} from '../harness/index.ts';

const scope = createScope();
after(() => scope.close());

interface Site {
  readonly identity: AgentIdentity;
  readonly envoy: Envoy;
  readonly port: number;
}

/** An agent's identity module and an Envoy that gets its secrets from it. */
async function startSite(
  owner: Owner,
  mode: 'sotw' | 'delta',
  ca: TestCa,
  ready = true,
  settings: Partial<IdentitySettings> = {},
): Promise<Site> {
  const folder = await tempDir(owner);
  const { options, writeToken } = await prepare(folder, ca);
  await writeToken(3600);
  const identity = await startAgentIdentity(
    options({ secretRotationCheckIntervalMs: 200, initialBackoffMs: 100, ...settings }),
  );
  owner.after(() => identity.close());
  const echo = await startEcho(owner, { name: 'app' });
  const port = await freePort();
  const staticResources = {
    clusters: [sdsCluster(identity.sdsPath), appCluster(echo.port)],
    listeners: [listener(port, mode)],
  };
  const envoy = await startEnvoy(owner, {
    id: `sidecar~127.0.0.1~${mode}.default~x`,
    staticResources,
    waitLive: false,
  });
  if (ready) await envoy.waitLive();
  return { identity, envoy, port };
}

function sdsCluster(path: string): JsonValue {
  return {
    name: 'sds-grpc',
    type: 'STATIC',
    load_assignment: {
      cluster_name: 'sds-grpc',
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path } } } }] }],
    },
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
  };
}

function appCluster(port: number): JsonValue {
  const endpoint = { address: { socket_address: { address: '127.0.0.1', port_value: port } } };
  return {
    name: 'app',
    type: 'STATIC',
    load_assignment: { cluster_name: 'app', endpoints: [{ lb_endpoints: [{ endpoint }] }] },
  };
}

/** HTTPS for clients with a certificate of the mesh. */
function listener(port: number, mode: 'sotw' | 'delta'): JsonValue {
  const secret = (name: string): JsonValue => ({
    name,
    sds_config: {
      api_config_source: {
        api_type: mode === 'delta' ? 'DELTA_GRPC' : 'GRPC',
        transport_api_version: 'V3',
        grpc_services: [{ envoy_grpc: { cluster_name: 'sds-grpc' } }],
      },
      initial_fetch_timeout: '0s',
      resource_api_version: 'V3',
    },
  });
  return {
    name: 'https',
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
    filter_chains: [
      {
        transport_socket: {
          name: 'envoy.transport_sockets.tls',
          typed_config: {
            '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
            require_client_certificate: true,
            common_tls_context: {
              tls_certificate_sds_secret_configs: [secret('default')],
              validation_context_sds_secret_config: secret('ROOTCA'),
            },
          },
        },
        filters: [
          {
            name: 'envoy.filters.network.http_connection_manager',
            typed_config: {
              '@type':
                'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
              stat_prefix: 'https',
              route_config: {
                virtual_hosts: [
                  { name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster: 'app' } }] },
                ],
              },
              http_filters: [
                {
                  name: 'envoy.filters.http.router',
                  typed_config: { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' },
                },
              ],
            },
          },
        ],
      },
    ],
  };
}

const CLIENT_NAME = 'spiffe://cluster.local/ns/default/sa/client';

/** A TLS connection of a client that `root` has certified. */
function open(port: number, root = testRoot('nobody'), trusted = root, name = CLIENT_NAME): Promise<TLSSocket> {
  const { key, leaf } = certificateSet(root, name);
  return new Promise((resolve, reject) => {
    // Workloads have SPIFFE IDs, which Node does not compare. It does verify the chain.
    const socket = connect({
      port,
      host: '127.0.0.1',
      key,
      cert: leaf,
      ca: trusted.pem,
      checkServerIdentity: () => undefined,
    });
    socket.once('secureConnect', () => resolve(socket));
    socket.once('error', reject);
  });
}

/** A request on an open connection; resolves with its status. */
function get(socket: TLSSocket, body?: { readonly first: string; readonly rest: Promise<string> }): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = httpsRequest({
      createConnection: () => socket,
      method: body === undefined ? 'GET' : 'POST',
      path: '/',
      headers: { host: 'app', connection: 'keep-alive' },
    });
    call.on('response', (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
    });
    call.on('error', reject);
    if (body === undefined) {
      call.end();
      return;
    }
    call.write(body.first);
    body.rest.then((rest) => call.end(rest), reject);
  });
}

const serialOf = (socket: TLSSocket): string => socket.getPeerCertificate().serialNumber;

const metric = (identity: AgentIdentity, name: string): number =>
  identity.metrics().find((each) => each.name === name)?.value ?? Number.NaN;

for (const mode of ['sotw', 'delta'] as const) {
  describe(`secrets over ${mode}`, () => {
    test('after a rotation new connections have the new certificate, and no connection or request fails', async () => {
      const ca = await startTestCa();
      scope.after(() => ca.close());
      // Renewed after the half of it.
      ca.lifeMs = 8_000;
      const { identity, envoy, port } = await startSite(scope, mode, ca);
      const first = await open(port, ca.root);
      assert.equal(await get(first), 200);
      // The streams of both secrets are open, and everything sent is acknowledged.
      assert.equal(metric(identity, 'total_active_connections'), 2);

      const rest = Promise.withResolvers<string>();
      const slow = await open(port, ca.root);
      const inFlight = get(slow, { first: 'a'.repeat(1000), rest: rest.promise });
      const serials = new Set([serialOf(first)]);
      await eventually(
        async () => {
          const fresh = await open(port, ca.root);
          assert.equal(await get(fresh), 200);
          serials.add(serialOf(fresh));
          fresh.destroy();
          assert.ok(serials.size >= 4, `${serials.size} certificates seen`);
        },
        { timeoutMs: 30_000, what: 'three rotations' },
      );
      rest.resolve('b'.repeat(1000));
      assert.equal(await inFlight, 200);
      assert.equal(await get(first), 200, 'the first connection is still open');
      first.destroy();
      slow.destroy();
      assert.equal(metric(identity, 'total_secret_update_failures'), 0);
      assert.equal(metric(identity, 'total_push_errors'), 0);
      const stats = await envoy.stats('ssl_context_update_by_sds');
      assert.ok(
        Object.values(stats).some((count) => count >= 3),
        JSON.stringify(stats),
      );
    });

    test('a new root is trusted before it signs anything, and connections with the old one stay open', async () => {
      const ca = await startTestCa();
      scope.after(() => ca.close());
      ca.bundle = [ca.root.pem];
      const { identity, port } = await startSite(scope, mode, ca);
      const before = await open(port, ca.root);
      const newRoot = testRoot('new root');
      await assert.rejects(async () => get(await open(port, newRoot, ca.root)), 'not trusted yet');
      ca.bundle = [ca.root.pem, newRoot.pem];
      await eventually(async () => {
        const socket = await open(port, newRoot, ca.root);
        assert.equal(await get(socket), 200);
        socket.destroy();
      });
      assert.equal(await get(before), 200);
      before.destroy();
      assert.equal(identity.secrets.current()?.roots, ca.root.pem + newRoot.pem);
      assert.equal(ca.calls.filter(({ method }) => method === 'CreateCertificate').length, 1, 'no new certificate');
    });

    test('Envoy waits for the first certificate, and becomes ready once the authority answers', async () => {
      const ca = await startTestCa();
      scope.after(() => ca.close());
      ca.failure = { code: 14, details: 'not yet' };
      const { identity, envoy, port } = await startSite(scope, mode, ca, false);
      await eventually(() => assert.equal(metric(identity, 'total_active_connections'), 2));
      assert.equal(metric(identity, 'total_pushes'), 0);
      ca.failure = undefined;
      await envoy.waitLive();
      const socket = await eventually(() => open(port, ca.root));
      assert.equal(await get(socket), 200);
      socket.destroy();
    });
  });
}

test('SPIFFE: what is pushed is used, and roots of another trust domain verify that domain alone', async () => {
  const ca = await startTestCa();
  scope.after(() => ca.close());
  const path = join(await tempDir(scope), 'workload.sock');
  const api = await startTestWorkloadApi(path);
  scope.after(() => api.close());
  const [own, partner, next] = [testRoot('own'), testRoot('partner'), testRoot('next')];
  const id = 'spiffe://cluster.local/ns/default/sa/web';
  const federatedBundles = { 'spiffe://partner.example': derOf(partner.pem) };
  api.send({ svids: [svidOf(own, id)], federatedBundles });
  const settings = { caProvider: 'SPIFFE', spiffeEndpointSocket: `unix://${path}` };
  const { port } = await startSite(scope, 'sotw', ca, true, settings);
  const status = async (root: typeof own, name: string, server = own): Promise<number> => {
    const socket = await open(port, root, server, name);
    return get(socket).finally(() => socket.destroy());
  };
  assert.equal(await status(own, CLIENT_NAME), 200);
  assert.equal(await status(partner, 'spiffe://partner.example/ns/a/sa/b'), 200);
  await assert.rejects(status(partner, CLIENT_NAME), 'the partner certifies a workload of this domain');
  await assert.rejects(status(own, 'spiffe://partner.example/ns/a/sa/b'), 'this domain certifies a partner');
  const bundle = Buffer.concat([derOf(own.pem), derOf(next.pem)]);
  api.send({ svids: [{ ...svidOf(next, id), bundle }] });
  await eventually(async () => assert.equal(await status(next, CLIENT_NAME, next), 200));
  await assert.rejects(status(partner, 'spiffe://partner.example/ns/a/sa/b', next), 'no longer federated');
});
