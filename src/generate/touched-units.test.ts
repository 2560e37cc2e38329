import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyChanges } from '../model/testing/steps.ts';
import type { Snapshot } from '../model/types/types.ts';
import { type AnyResource, keyOf } from '../resources/kinds/types.ts';
import { defaultMeshConfig } from '../resources/mesh-config.ts';
import { affectedUnits } from './testing/affected-units.ts';
import { meshOf, parsed } from './testing/mesh.ts';
import { outboundView } from './testing/views.ts';
import type { UnitSelection } from './types.ts';
import type { GatewayView, InboundView, View } from './views.ts';

const WEB = 'web.default.svc.cluster.local';
const DB = 'db.default.svc.cluster.local';
/** The unit of the name table. */
const NAMES = ['names'];

function resource(kind: string, name: string, body: object, namespace = 'default'): AnyResource {
  const core = kind === 'Service' || kind === 'Endpoints' || kind === 'Pod';
  const security = kind === 'PeerAuthentication';
  const document = {
    apiVersion: core ? 'v1' : security ? 'security.mesh.io/v1beta1' : 'networking.mesh.io/v1alpha3',
    kind,
    metadata: { name, namespace, ...(kind === 'Pod' && { labels: { 'security.mesh.io/tlsMode': 'mesh' } }) },
    ...(core && kind === 'Endpoints' ? body : { spec: body }),
    ...(kind === 'Pod' && { status: { phase: 'Running', podIP: name } }),
  };
  return parsed(document);
}

const service = (name: string, ip: string, ports: readonly object[]) =>
  resource('Service', name, { clusterIP: ip, ports });
const endpoints = (name: string, ip: string, port: object) =>
  resource('Endpoints', name, { subsets: [{ addresses: [{ ip }], ports: [port] }] });
const rule = (host: string, trafficPolicy: object) => resource('DestinationRule', host, { host, trafficPolicy });
const routes = (spec: object) => resource('VirtualService', 'routes', spec);
const httpTo = (host: string) => [{ route: [{ destination: { host } }] }];

const MESH: readonly AnyResource[] = [
  service('web', '10.96.0.1', [{ name: 'http', port: 80 }]),
  service('db', '10.96.0.2', [{ name: 'tcp', port: 3306 }]),
  service('pods', 'None', [{ name: 'tcp', port: 7000 }]),
  endpoints('web', '10.0.0.1', { name: 'http', port: 80 }),
  endpoints('pods', '10.0.0.3', { name: 'tcp', port: 7000 }),
  resource('ServiceEntry', 'names', {
    hosts: ['api.example.com'],
    ports: [{ number: 8080, name: 'http', protocol: 'HTTP' }],
    resolution: 'DNS',
    endpoints: [{ address: 'one.example.com' }],
  }),
  resource('Gateway', 'edge', {
    selector: { app: 'edge' },
    servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
  }),
];

const OUTBOUND = outboundView();
const INBOUND: InboundView = {
  part: 'inbound',
  scope: 'default/',
  namespace: 'default',
  interception: 'REDIRECT',
  families: 'ipv4',
  ports: [],
  peerAuthentication: { mode: 'PERMISSIVE', ports: {} },
  policies: { authentication: [], authorization: [] },
  addresses: [],
  capabilities: { extensions: undefined, sds: false },
};
const GATEWAY: GatewayView = {
  part: 'gateway',
  namespace: 'default',
  gateways: ['default/edge'],
  credentialed: [],
  clientCredentials: false,
  policies: { authentication: [], authorization: [] },
  portMap: {},
  families: 'ipv4',
  endpointNames: 'cluster',
  capabilities: { extensions: undefined, sds: false },
};

/** The mesh with the given resources, seen once by a sidecar and a gateway of namespace `default`. */
function mesh(...more: readonly AnyResource[]): Snapshot {
  const snapshot = meshOf([...MESH, ...more]);
  snapshot.scopeById('default/');
  return snapshot;
}

/** The units of `view` that one changed resource touches, as sorted lists. */
function affected(previous: Snapshot, after: AnyResource, view: View = OUTBOUND) {
  const { snapshot, changes } = applyChanges(previous, { changes: [{ key: keyOf(after), before: undefined, after }] });
  return readable(affectedUnits(previous, snapshot, changes, view));
}

function readable(selection: UnitSelection | undefined) {
  if (selection === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(selection).map(([type, units]) => [type, units === 'all' ? 'all' : [...units].sort()]),
  );
}

test('endpoints that are sent by EDS touch nothing that is generated', () => {
  assert.equal(affected(mesh(), endpoints('web', '10.0.0.2', { name: 'http', port: 80 })), undefined);
});

test('endpoints of a headless service touch its listeners and the names', () => {
  assert.deepEqual(affected(mesh(), endpoints('pods', '10.0.0.4', { name: 'tcp', port: 7000 })), {
    lds: ['7000'],
    nds: NAMES,
  });
});

test("host names of a service entry's endpoints touch its clusters", () => {
  const entry = resource('ServiceEntry', 'names', {
    hosts: ['api.example.com'],
    ports: [{ number: 8080, name: 'http', protocol: 'HTTP' }],
    resolution: 'DNS',
    endpoints: [{ address: 'two.example.com' }],
  });
  assert.deepEqual(affected(mesh(), entry), { cds: ['api.example.com'] });
  assert.deepEqual(affected(mesh(), entry, GATEWAY), { cds: ['api.example.com'] });
});

test('a service touches its clusters, the names, and listeners and routes of its ports before and after', () => {
  assert.deepEqual(affected(mesh(), service('web', '10.96.0.1', [{ name: 'http', port: 81 }])), {
    cds: [WEB],
    lds: ['80', '81'],
    rds: ['80', '81', `${WEB}:80`, `${WEB}:81`],
    nds: NAMES,
  });
});

test('a TCP service touches no routes', () => {
  assert.deepEqual(affected(mesh(), service('db', '10.96.0.9', [{ name: 'tcp', port: 3306 }])), {
    cds: [DB],
    lds: ['3306'],
    nds: NAMES,
  });
});

test('without protocol detection a TCP service touches the routes of its port', () => {
  const changed = service('db', '10.96.0.9', [{ name: 'tcp', port: 3306 }]);
  const unable = { ...OUTBOUND, capabilities: { extensions: [], sds: false } };
  assert.deepEqual(affected(mesh(), changed, unable)?.rds, ['3306']);
});

test('a service touches the routes that lead to it from other hosts', () => {
  const before = mesh(routes({ hosts: ['web'], http: httpTo('db') }));
  const changed = affected(before, service('db', '10.96.0.9', [{ name: 'tcp', port: 3307 }]));
  assert.deepEqual(changed?.rds, ['80']);
});

test('a service without HTTP touches the routes of its port where a wildcard covers it', () => {
  const udp = (name: string, namespace: string) =>
    resource(
      'Service',
      name,
      { clusterIP: '10.96.0.8', ports: [{ name: 'udp', port: 80, protocol: 'UDP' }] },
      namespace,
    );
  const before = mesh(routes({ hosts: ['*.other.svc.cluster.local'], http: httpTo('web') }));
  assert.deepEqual(affected(before, udp('x', 'other'))?.rds, ['80']);
  assert.equal(affected(mesh(), udp('x', 'other'))?.rds, undefined);
});

test('a destination rule touches its clusters, and routes only when they read it', () => {
  assert.deepEqual(affected(mesh(), rule('web', { loadBalancer: { simple: 'RANDOM' } })), { cds: [WEB] });
  const hashed = affected(mesh(), rule('web', { loadBalancer: { consistentHash: { httpHeaderName: 'x-user' } } }));
  assert.deepEqual(hashed?.rds, ['80']);
});

test('a virtual service touches the routes of its hosts, before and after', () => {
  const before = mesh(routes({ hosts: ['api.example.com'], http: httpTo('web') }));
  assert.deepEqual(affected(before, routes({ hosts: ['web'], http: httpTo('web') })), {
    rds: ['80', '8080'],
  });
});

test('a virtual service with TCP routes touches listeners', () => {
  assert.deepEqual(affected(mesh(), routes({ hosts: ['db'], tcp: httpTo('db') })), { lds: ['3306'] });
});

test('a virtual service of a gateway touches that gateway and no sidecar', () => {
  const bound = routes({ hosts: ['*'], gateways: ['edge'], http: httpTo('web') });
  assert.equal(affected(mesh(), bound), undefined);
  assert.deepEqual(affected(mesh(), bound, GATEWAY), { rds: ['http.80'] });
  assert.equal(affected(mesh(), bound, { ...GATEWAY, gateways: ['default/other'] }), undefined);
});

test('a gateway resource touches the listeners and routes of the proxies that it selects', () => {
  const gateway = resource('Gateway', 'edge', {
    selector: { app: 'edge' },
    servers: [{ port: { number: 81, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
  });
  assert.deepEqual(affected(mesh(), gateway, GATEWAY), { lds: 'all', rds: 'all' });
  assert.equal(affected(mesh(), gateway), undefined);
});

test('only changes of its view touch the inbound part', () => {
  for (const changed of [
    service('web', '10.96.0.1', []),
    rule('web', { tls: { mode: 'SIMPLE' } }),
    routes({ hosts: ['web'], http: httpTo('db') }),
  ]) {
    assert.equal(affected(mesh(), changed, INBOUND), undefined);
  }
});

test('a changed mesh configuration touches everything', () => {
  const previous = mesh();
  const { snapshot, changes } = applyChanges(previous, {
    changes: [],
    mesh: { ...defaultMeshConfig(), connectTimeout: 1 },
  });
  const all = { cds: 'all', sds: 'all', ecds: 'all', lds: 'all', rds: 'all', vhds: 'all', nds: 'all' };
  for (const view of [OUTBOUND, INBOUND, GATEWAY]) {
    assert.deepEqual(readable(affectedUnits(previous, snapshot, changes, view)), all);
  }
});

describe('with certificates of the mesh', () => {
  const secure = <V extends View>(view: V): V => ({ ...view, capabilities: { extensions: undefined, sds: true } });
  const pod = (ip: string, account: string) => resource('Pod', ip, { serviceAccountName: account });
  const policy = (mode: string, selector = {}) =>
    resource('PeerAuthentication', 'policy', { mtls: { mode }, selector: { matchLabels: selector } });

  test('new identities of a service touch its clusters, where they are verified', () => {
    for (const view of [OUTBOUND, GATEWAY]) {
      assert.deepEqual(affected(mesh(), pod('10.0.0.1', 'web'), secure(view)), { cds: [WEB] });
      assert.equal(affected(mesh(), pod('10.0.0.1', 'web'), view), undefined);
    }
  });

  test('more endpoints of the same identity touch nothing', () => {
    const before = mesh(pod('10.0.0.1', 'web'), pod('10.0.0.2', 'web'));
    assert.equal(
      affected(before, endpoints('web', '10.0.0.2', { name: 'http', port: 80 }), secure(OUTBOUND)),
      undefined,
    );
  });

  test('a policy touches no clients while mutual TLS stays on; switched off, it touches dependent clusters', () => {
    const before = mesh(pod('10.0.0.1', 'web'));
    for (const view of [OUTBOUND, GATEWAY, INBOUND]) {
      assert.equal(affected(before, policy('STRICT'), secure(view)), undefined);
      assert.equal(affected(before, policy('DISABLE', { app: 'x' }), secure(view)), undefined);
    }
    assert.deepEqual(affected(before, policy('DISABLE'), secure(OUTBOUND)), { cds: [WEB] });
    assert.equal(affected(before, policy('DISABLE'), secure(INBOUND)), undefined);
  });

  test('a destination rule that originates TLS touches TCP proxies, which may override protocol names', () => {
    assert.deepEqual(affected(mesh(), rule('db', { tls: { mode: 'SIMPLE' } })), { cds: [DB] });
    const changed = affected(mesh(), rule('db', { tls: { mode: 'SIMPLE' } }), secure(OUTBOUND));
    assert.deepEqual(changed, { cds: [DB], lds: ['3306'] });
  });
});
