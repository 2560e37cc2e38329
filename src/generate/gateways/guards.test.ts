/**
 * A policy on the gateway's workload applies to everything that is bound to it: no filter chain of any kind bypasses
 * it.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { MeshReader } from '../reads/index.ts';
import { viewOf } from '../testing/gateways.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import { gatewayListeners, gatewayListenerUnits } from './index.ts';

const resource = (kind: string, name: string, namespace: string, spec: object) =>
  meshResource(kind, namespace, name, spec);

const FILES = { serverCertificate: '/c', privateKey: '/k' };
const TO = [{ destination: { host: 'web.shop.svc.cluster.local', port: { number: 80 } } }];
const server = (number: number, name: string, protocol: string, host: string, tls?: object) => ({
  port: { number, name, protocol },
  hosts: [host],
  ...(tls === undefined ? {} : { tls }),
});

/** A server of every kind; those of TLS are on one port, too. */
const SERVERS = [
  server(80, 'http', 'HTTP', '*'),
  server(81, 'grpc-web', 'GRPC-WEB', '*'),
  server(82, 'redirect', 'HTTP', '*', { httpsRedirect: true }),
  server(443, 'simple', 'HTTPS', 'simple.example', { mode: 'SIMPLE', ...FILES }),
  server(443, 'mutual', 'HTTPS', 'mutual.example', { mode: 'MUTUAL', caCertificates: '/ca', ...FILES }),
  server(443, 'optional', 'HTTPS', 'optional.example', { mode: 'OPTIONAL_MUTUAL', caCertificates: '/ca', ...FILES }),
  server(443, 'mesh', 'HTTPS', 'mesh.example', { mode: 'MESH_MUTUAL' }),
  server(443, 'bytes', 'TLS', 'bytes.example', { mode: 'SIMPLE', ...FILES }),
  server(443, 'mesh-bytes', 'TLS', 'mesh-bytes.example', { mode: 'MESH_MUTUAL' }),
  server(443, 'passed', 'TLS', 'passed.example', { mode: 'PASSTHROUGH' }),
  server(443, 'auto', 'TLS', '*.local', { mode: 'AUTO_PASSTHROUGH' }),
  server(9000, 'tcp', 'TCP', '*'),
];

const RESOURCES = [
  resource('Service', 'web', 'shop', { clusterIP: '10.0.0.1', ports: [{ name: 'http', port: 80 }] }),
  resource('Gateway', 'gw', 'edge', { selector: { app: 'gw' }, servers: SERVERS }),
  resource('VirtualService', 'all', 'edge', {
    hosts: ['*'],
    gateways: ['gw'],
    http: [{ route: TO }],
    tcp: [{ route: TO }],
    tls: [{ match: [{ sniHosts: ['passed.example'] }], route: TO }],
  }),
  resource('AuthorizationPolicy', 'nobody', 'edge', {
    selector: { matchLabels: { app: 'gw' } },
    action: 'DENY',
    rules: [{ from: [{ source: { ipBlocks: ['203.0.113.0/24'] } }] }],
  }),
];

test('the filters of policies come first in every chain of a gateway', () => {
  const snapshot = meshOf(RESOURCES);
  const policies = snapshot.policiesOf('edge', { app: 'gw' });
  const view = viewOf({ policies, capabilities: { extensions: undefined, sds: true } });
  const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
  const firsts: string[] = [];
  for (const unit of gatewayListenerUnits(MeshReader.of(snapshot), view)) {
    const { resources, findings } = gatewayListeners(MeshReader.of(snapshot), view, unit);
    assert.deepEqual(findings, []);
    for (const { filterChains, defaultFilterChain } of resources.map(({ bytes }) =>
      envoy.config.listener.v3.Listener.decode(bytes),
    )) {
      assert.equal(defaultFilterChain ?? undefined, undefined);
      for (const { filters, filterChainMatch } of filterChains) {
        const [first] = filters;
        const manager =
          first?.name === 'envoy.filters.network.http_connection_manager'
            ? HttpConnectionManager.decode(first.typedConfig?.value ?? new Uint8Array())
            : undefined;
        const guard = manager === undefined ? first?.name : manager.httpFilters[0]?.name;
        firsts.push(`${unit} ${filterChainMatch?.serverNames.join() ?? ''} ${guard}`);
      }
    }
  }
  const http = 'envoy.filters.http.rbac';
  const network = 'envoy.filters.network.rbac';
  assert.deepEqual(firsts.sort(), [
    `443 bytes.example ${network}`,
    `443 mesh-bytes.example ${network}`,
    `443 mesh.example ${http}`,
    `443 mutual.example ${http}`,
    `443 optional.example ${http}`,
    `443 outbound_.80_._.web.shop.svc.cluster.local ${network}`,
    `443 passed.example ${network}`,
    `443 simple.example ${http}`,
    `80  ${http}`,
    `81  ${http}`,
    `82  ${http}`,
    `9000  ${network}`,
  ]);
});
