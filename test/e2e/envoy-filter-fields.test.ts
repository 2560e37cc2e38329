/**
 * EnvoyFilters set fields that Envoy has and generation never sets: the newest and the oldest supported Envoy show them
 * in their configuration.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { eventually, oldestEnvoyPath, startEcho } from '../harness/index.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, planMesh, sidecar, startMesh, type TestMesh } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call } from './support/traffic.ts';

const PORT = 7480;
const MANAGER = 'envoy.filters.network.http_connection_manager';
const TYPES = 'type.googleapis.com/envoy.extensions.filters';

const owner = suiteOwner();
const shared = lazy<TestMesh & { readonly newest: MeshProxy; readonly oldest: MeshProxy }>();

before(async () => {
  const address = planMesh();
  await startEcho(owner, { name: 'web', address: address(21), port: PORT });
  const clients = [
    { name: 'newest', mode: 'sotw', address: address(10) },
    { name: 'oldest', mode: 'delta', address: address(11), program: oldestEnvoyPath() },
  ] as const;
  const mesh = await startMesh(owner, address, {
    files: {
      clients: clients.map((client) =>
        sidecar(client.name, { address: client.address, egress: [{ number: PORT, protocol: 'HTTP' }] }),
      ),
      web: [
        service('web', { clusterIP: '10.96.0.1', ports: [{ name: 'http', port: PORT }] }),
        pod('web', { ip: address(21), labels: { app: 'web' } }),
        endpoints('web', { web: address(21) }, [{ name: 'http', port: PORT }]),
      ],
    },
  });
  const [newest, oldest] = await Promise.all([mesh.startProxy(clients[0]), mesh.startProxy(clients[1])]);
  shared.set({ ...mesh, newest, oldest });
});

/** Merges fields into the configuration of a filter. */
function merging(type: string, fields: object, subFilter?: string): Document {
  const value = { typed_config: { '@type': `${TYPES}.${type}`, ...fields } };
  return {
    applyTo: subFilter === undefined ? 'NETWORK_FILTER' : 'HTTP_FILTER',
    match: {
      context: 'SIDECAR_OUTBOUND',
      listener: { filterChain: { filter: { name: MANAGER, ...(subFilter && { subFilter: { name: subFilter } }) } } },
    },
    patch: { operation: 'MERGE', value },
  };
}

/** It asks nobody: no request is selected. */
const AUTHORIZER: Document = {
  applyTo: 'HTTP_FILTER',
  match: {
    context: 'SIDECAR_OUTBOUND',
    listener: { filterChain: { filter: { name: MANAGER, subFilter: { name: 'envoy.filters.http.router' } } } },
  },
  patch: {
    operation: 'INSERT_BEFORE',
    value: {
      name: 'envoy.filters.http.ext_authz',
      typed_config: {
        '@type': `${TYPES}.http.ext_authz.v3.ExtAuthz`,
        transport_api_version: 'V3',
        max_denied_response_body_bytes: 4321,
        filter_enabled: { default_value: { numerator: 0, denominator: 'HUNDRED' } },
        grpc_service: { envoy_grpc: { cluster_name: 'outbound|7480||web.default.svc.cluster.local' } },
      },
    },
  },
};

test('fields that generation does not set reach Envoys of all supported versions', async () => {
  const { config, newest, oldest } = shared.get();
  const cluster = { service: 'web.default.svc.cluster.local' };
  await config.apply(
    'fields',
    resource('EnvoyFilter', 'fields', {
      configPatches: [
        { applyTo: 'CLUSTER', match: { cluster }, patch: { operation: 'MERGE', value: { dns_jitter: '0.123s' } } },
        merging('network.http_connection_manager.v3.HttpConnectionManager', { stream_flush_timeout: '77s' }),
        AUTHORIZER,
        // 1.36 has no such field and ignores it.
        merging('http.router.v3.Router', { reject_connect_request_early_data: true }, 'envoy.filters.http.router'),
      ],
    }),
  );
  for (const client of [newest, oldest]) {
    await eventually(async () => {
      const dump = await client.admin('/config_dump');
      assert.match(dump, /"dns_jitter": "0\.123s"/);
      assert.match(dump, /"stream_flush_timeout": "77s"/);
      assert.match(dump, /"max_denied_response_body_bytes": 4321/);
      if (client === newest) assert.match(dump, /"reject_connect_request_early_data": true/);
    });
    await eventually(async () => {
      assert.equal((await call({ address: client.address, port: PORT, host: 'web', path: '/' })).status, 200);
    });
  }
});
