import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import { createModel, replay } from '../../model/testing/steps.ts';
import { defaultMeshConfig, defaultMeshNetworks } from '../../resources/mesh-config.ts';
import { parseResource } from '../../resources/parse.ts';
import type { AnyResource } from '../../resources/types.ts';
import { generate } from '../generate.ts';
import { viewOf } from '../testing/gateways.ts';

function resource(kind: string, name: string, spec: object): AnyResource {
  const apiVersion = kind === 'Service' ? 'v1' : 'networking.mesh.io/v1alpha3';
  const metadata = { name, namespace: kind === 'Service' ? 'shop' : 'edge' };
  const parsed = parseResource({ apiVersion, kind, metadata, spec }, { source: 'test' }, () => {});
  if (!('resource' in parsed)) throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

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
  const empty = createModel({ ...DEFAULT_SETTINGS, filterGatewayClusters }, defaultMeshConfig(), defaultMeshNetworks());
  const { units, failures } = generate(replay(empty, MESH), viewOf(), { cds: 'all' });
  assert.deepEqual(failures, []);
  return SERVICES.filter((name) => units.cds?.has(host(name)));
}

describe('clusters of a gateway', () => {
  test('of all services that its namespace sees', () => assert.deepEqual(clustered(false), SERVICES));

  test('filtered: of services that its routes of every kind, mirrors and passed connections lead to', () => {
    assert.deepEqual(clustered(true), ['http', 'mirror', 'tcp', 'tls', 'passed']);
  });
});
