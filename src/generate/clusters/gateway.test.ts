import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { generate } from '../generate.ts';
import { viewOf } from '../testing/gateways.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';

const resource = (kind: string, name: string, spec: object) =>
  meshResource(kind, kind === 'Service' ? 'shop' : 'edge', name, spec);

const SERVICES = ['http', 'mirror', 'tcp', 'tls', 'passed', 'unused'];
const host = (name: string) => `${name}.shop.svc.cluster.local`;
const to = (name: string) => [{ destination: { host: host(name), port: { number: 80 } } }];

const MESH: readonly AnyResource[] = [
  ...SERVICES.map((name) => resource('Service', name, { ports: [{ name: 'http', port: 80 }] })),
  resource('Gateway', 'gw', {
    selector: { app: 'gw' },
    servers: [
      { port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] },
      {
        port: { number: 15443, name: 'tls', protocol: 'TLS' },
        hosts: [host('passed')],
        tls: { mode: 'AUTO_PASSTHROUGH' },
      },
    ],
  }),
  resource('VirtualService', 'bound', {
    hosts: ['*.example'],
    gateways: ['gw'],
    http: [{ route: to('http'), mirror: { host: host('mirror') } }],
    tcp: [{ route: to('tcp') }],
    tls: [{ match: [{ sniHosts: ['a.example'] }], route: to('tls') }],
  }),
  resource('VirtualService', 'elsewhere', {
    hosts: ['b.example'],
    gateways: ['other'],
    http: [{ route: to('unused') }],
  }),
];

/** Services for which the gateway has clusters. */
function clustered(filterGatewayClusters: boolean): string[] {
  const mesh = meshOf(MESH, { settings: { filterGatewayClusters } });
  const { units, failures } = generate(mesh, viewOf(), { cds: 'all' });
  assert.deepEqual(failures, []);
  return SERVICES.filter((name) => units.cds?.has(host(name)));
}

describe('clusters of a gateway', () => {
  test('of all services that its namespace sees', () => assert.deepEqual(clustered(false), SERVICES));

  test('filtered: of services that its routes of every kind, mirrors and passed connections lead to', () => {
    assert.deepEqual(clustered(true), ['http', 'mirror', 'tcp', 'tls', 'passed']);
  });
});
