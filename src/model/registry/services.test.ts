/** Services, endpoints and instances: resources in, expected snapshot out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { workloadLabels } from '../../resources/kinds/aliases.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { emptyMesh, endpoints, fqdn, meshOf, pod, resource, service, step } from '../testing/build.ts';
import type { Snapshot } from '../types/types.ts';

const KEY = `a/${fqdn('web.a')}`;

const addressesOf = (resources: readonly AnyResource[], key = KEY) =>
  (meshOf(resources).endpoints.get(key) ?? []).map(({ address, port }) => `${address}:${port}`);

test('an orchestrator service has its full name, addresses, and protocols by appProtocol, then name, then number', () => {
  const ports = [
    { name: 'http-web', port: 80 },
    { name: 'grpc-web', port: 81 },
    { name: 'grpc', port: 82 },
    { name: 'http', port: 83, appProtocol: 'kubernetes.io/h2c' },
    { name: 'whatever', port: 3306 },
    { name: 'plain', port: 84 },
    { name: 'constructor', port: 85 },
    { name: 'dns', port: 53, protocol: 'UDP' },
  ];
  const made = meshOf([service('a/web', { ports, clusterIPs: ['10.96.0.1', 'fd00::1'] })]).services.get(KEY);
  assert.equal(made?.hostname, fqdn('web.a'));
  assert.deepEqual(made?.addresses, ['10.96.0.1', 'fd00::1']);
  assert.deepEqual(
    made?.ports.map(({ protocol }) => protocol),
    ['HTTP', 'GRPC-Web', 'GRPC', 'HTTP2', 'TCP', 'Unsupported', 'Unsupported', 'UDP'],
  );
  assert.equal(made?.resolution, 'eds');
});

test('headless and ExternalName services', () => {
  const snapshot = meshOf([
    service('a/web', { clusterIP: 'None' }),
    service('a/ext', { type: 'ExternalName', externalName: 'example.com', clusterIP: undefined }),
  ]);
  const headless = snapshot.services.get(KEY);
  assert.deepEqual([headless?.headless, headless?.resolution, headless?.addresses], [true, 'passthrough', []]);
  const external = snapshot.services.get(`a/${fqdn('ext.a')}`);
  assert.deepEqual([external?.externalName, external?.resolution], ['example.com', 'dns']);
  assert.equal(snapshot.endpoints.get(`a/${fqdn('ext.a')}`)?.[0]?.address, 'example.com');
});

test('an endpoint gets data from its pod, the pod’s node, and the service port with its port name', () => {
  const snapshot = meshOf([
    service('a/web'),
    endpoints('a/web', ['10.0.0.1=p1']),
    pod(
      'a/p1',
      '10.0.0.1',
      { labels: { app: 'web', 'security.istio.io/tlsMode': 'istio', 'topology.istio.io/network': 'n1' } },
      { nodeName: 'node', serviceAccountName: 'sa', hostname: 'web-0', subdomain: 'web' },
    ),
    resource(
      'Node',
      '/node',
      {},
      {
        labels: { 'topology.kubernetes.io/region': 'r', 'failure-domain.beta.kubernetes.io/zone': 'z' },
      },
    ),
  ]);
  const [endpoint, ...others] = snapshot.endpoints.get(KEY) ?? [];
  assert.deepEqual(others, []);
  assert.ok(endpoint);
  const { labels, ...rest } = endpoint;
  assert.equal(labels.app, 'web');
  assert.deepEqual(rest, {
    address: '10.0.0.1',
    port: 8080,
    servicePort: 'http',
    locality: 'r/z/',
    network: 'n1',
    weight: undefined,
    serviceAccount: 'sa',
    health: 'healthy',
    workload: { namespace: 'a', name: 'p1' },
    hostname: 'web-0',
    tlsReady: true,
  });
});

test('the locality label of a pod overrides its node', () => {
  const labels = { 'istio-locality': 'r2.z2' };
  const snapshot = meshOf([service('a/web'), endpoints('a/web', ['10.0.0.1']), pod('a/p', '10.0.0.1', { labels })]);
  assert.equal(snapshot.endpoints.get(KEY)?.[0]?.locality, 'r2/z2/');
});

test('an endpoint is left out until the pod that it names is known', () => {
  const waiting = meshOf([service('a/web'), endpoints('a/web', ['10.0.0.1=p1', '10.0.0.2'])]);
  assert.deepEqual(
    waiting.endpoints.get(KEY)?.map(({ address }) => address),
    ['10.0.0.2'],
  );
  assert.equal(waiting.findings().endpointsPendingPod, 1);
  assert.equal(waiting.findings().endpointsWithoutPod, 1);
  const { snapshot, changes } = step(waiting, [pod('a/p1', '10.0.0.1')]);
  assert.deepEqual(
    snapshot.endpoints.get(KEY)?.map(({ address }) => address),
    ['10.0.0.1', '10.0.0.2'],
  );
  assert.deepEqual([...changes.endpoints], [KEY]);
  assert.deepEqual([...changes.addresses], ['/10.0.0.1']);
  assert.equal(snapshot.findings().endpointsPendingPod, 0);
});

test('health of endpoints and slices', () => {
  const slice = (conditions: Record<string, boolean>, address: string) => ({ addresses: [address], conditions });
  const slices = resource(
    'EndpointSlice',
    'a/web-1',
    {
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: [
        slice({ ready: true }, '10.0.0.1'),
        slice({ ready: false, serving: true, terminating: true }, '10.0.0.2'),
        slice({ ready: false, serving: false, terminating: true }, '10.0.0.3'),
      ],
    },
    { labels: { 'kubernetes.io/service-name': 'web' } },
  );
  const healthOf = (useEndpointSlice: boolean, resources: readonly AnyResource[]) =>
    meshOf(resources, { settings: { useEndpointSlice } })
      .endpoints.get(KEY)
      ?.map(({ address, health }) => `${address} ${health}`);
  const object = endpoints('a/web', ['10.0.0.8'], ['10.0.0.9']);
  const fromSlices = ['10.0.0.1 healthy', '10.0.0.2 draining', '10.0.0.3 unhealthy'];
  const fromObject = ['10.0.0.8 healthy', '10.0.0.9 unhealthy'];
  // The two sources exclude each other, even where only the other one says something.
  assert.deepEqual(healthOf(true, [service('a/web'), slices, object]), fromSlices);
  assert.deepEqual(healthOf(true, [service('a/web'), object]), undefined);
  assert.deepEqual(healthOf(false, [service('a/web'), slices, object]), fromObject);
  assert.deepEqual(healthOf(false, [service('a/web'), slices]), undefined);
});

test('UDP ports are in the service and have no endpoints', () => {
  const ports = [
    { name: 'http', port: 53 },
    { name: 'dns', port: 53, protocol: 'UDP' },
  ];
  const subsets = [
    {
      addresses: [{ ip: '10.0.0.1' }],
      ports: [
        { name: 'http', port: 53 },
        { name: 'dns', port: 53, protocol: 'UDP' },
      ],
    },
  ];
  const snapshot = meshOf([service('a/web', { ports }), resource('Endpoints', 'a/web', { subsets })]);
  assert.deepEqual(
    snapshot.instancesAt('', '10.0.0.1').map(({ port }) => port.name),
    ['http'],
  );
});

test('what serves an address in a second cluster too changes nothing at that address', () => {
  const near = meshOf([service('a/web'), endpoints('a/web', ['10.0.0.1'])]);
  const ports = [{ name: 'http', port: 8080 }];
  const subsets = [{ addresses: [{ ip: '10.0.0.1' }], ports }];
  const far = (port: number) =>
    resource(
      'Endpoints',
      'a/web',
      { subsets: [{ ...subsets[0], ports: [{ name: 'http', port }] }] },
      { cluster: 'far' },
    );
  const both = step(near, [far(8080)]);
  assert.deepEqual([...both.changes.addresses], []);
  assert.equal(both.snapshot.instancesAt('', '10.0.0.1').length, 1);
  assert.deepEqual([...step(both.snapshot, [far(8081)]).changes.addresses], ['/10.0.0.1']);
});

const entry = (spec: Record<string, unknown>, path = 'a/ext', created?: number) =>
  resource(
    'ServiceEntry',
    path,
    { hosts: ['api.example.com'], ports: [{ number: 443, name: 'tls', protocol: 'TLS' }], ...spec },
    created === undefined ? {} : { created },
  );

test('a workload entry with an identity takes mutual TLS unless its label says otherwise', () => {
  const tls = 'security.istio.io/tlsMode';
  const rows: [serviceAccount: string | undefined, mode: string | undefined, ready: boolean][] = [
    [undefined, undefined, false],
    ['', undefined, false],
    ['vm', undefined, true],
    ['vm', 'disabled', false],
    ['vm', 'istio', true],
    [undefined, 'istio', true],
    ['vm', '', false],
  ];
  for (const [serviceAccount, mode, ready] of rows) {
    const labels = mode === undefined ? {} : workloadLabels({ [tls]: mode });
    const spec = { address: '10.0.0.1', ...(serviceAccount !== undefined && { serviceAccount }), labels };
    const selecting = service('a/web', { selector: { app: 'web' } });
    const workload = resource('WorkloadEntry', 'a/vm', { ...spec, labels: { ...labels, app: 'web' } });
    const inline = entry({ resolution: 'STATIC', endpoints: [spec] });
    const snapshot = meshOf([selecting, workload, inline]);
    for (const key of [KEY, 'a/api.example.com']) {
      const [endpoint] = snapshot.endpoints.get(key) ?? [];
      assert.equal(endpoint?.tlsReady, ready, `${key}: account ${serviceAccount}, mode ${mode}`);
    }
  }
});

test('service entries: resolution, target ports, sockets, own ports of endpoints', () => {
  const endpointsOf = (spec: Record<string, unknown>) => addressesOf([entry(spec)], 'a/api.example.com');
  const resolutionOf = (spec: Record<string, unknown>) =>
    meshOf([entry(spec)]).services.get('a/api.example.com')?.resolution;
  assert.deepEqual(endpointsOf({ resolution: 'DNS' }), ['api.example.com:443']);
  const ports = [{ number: 443, name: 'tls', protocol: 'TLS', targetPort: 8443 }];
  const addresses = [
    { address: '1.1.1.1' },
    { address: '1.1.1.2', ports: { tls: 9443 } },
    { address: 'unix:///run/a' },
  ];
  assert.deepEqual(endpointsOf({ resolution: 'STATIC', ports, endpoints: addresses }), [
    '/run/a:0',
    '1.1.1.1:8443',
    '1.1.1.2:9443',
  ]);
  assert.equal(resolutionOf({}), 'passthrough');
  assert.equal(resolutionOf({ resolution: 'NONE' }), 'passthrough');
  assert.equal(resolutionOf({ endpoints: [{ address: '1.1.1.1' }] }), 'eds');
  assert.equal(resolutionOf({ endpoints: [{ address: 'a.example.com' }] }), 'dns');
});

test('a service entry selects workload entries and pods of its namespace', () => {
  const resources = [
    entry({ resolution: 'STATIC', workloadSelector: { labels: { app: 'x' } } }),
    resource('WorkloadEntry', 'a/vm', { address: '2.2.2.2', labels: { app: 'x' }, ports: { tls: 9000 } }),
    resource('WorkloadEntry', 'b/vm', { address: '2.2.2.3', labels: { app: 'x' } }),
    pod('a/p', '10.0.0.1', { labels: { app: 'x' } }),
  ];
  assert.deepEqual(addressesOf(resources, 'a/api.example.com'), ['10.0.0.1:443', '2.2.2.2:9000']);
  const without = meshOf(resources, { settings: { serviceEntrySelectsPods: false } });
  assert.equal(without.endpoints.get('a/api.example.com')?.length, 1);
  assert.equal(meshOf(resources).instancesAt('', '2.2.2.2')[0]?.hostname, 'api.example.com');
});

test('a service entry whose selector has no labels selects all workloads of its namespace', () => {
  const resources = [
    entry({ resolution: 'STATIC', workloadSelector: { labels: {} } }),
    resource('WorkloadEntry', 'a/vm', { address: '2.2.2.2', labels: { app: 'x' }, ports: { tls: 9000 } }),
    resource('WorkloadEntry', 'b/vm', { address: '2.2.2.3', labels: { app: 'x' } }),
    pod('a/p', '10.0.0.1', { labels: { app: 'y' } }),
  ];
  assert.deepEqual(addressesOf(resources, 'a/api.example.com'), ['10.0.0.1:443', '2.2.2.2:9000']);
});

test('a workload entry that is not reported healthy is an unhealthy endpoint', () => {
  const selecting = service('a/web', { selector: { app: 'x' } });
  const healthOf = (fields: { unhealthy?: true }) => {
    const vm = resource('WorkloadEntry', 'a/vm', { address: '2.2.2.2', labels: { app: 'x' } }, fields);
    return meshOf([selecting, vm])
      .endpoints.get(KEY)
      ?.map(({ health }) => health);
  };
  assert.deepEqual([healthOf({}), healthOf({ unhealthy: true })], [['healthy'], ['unhealthy']]);
});

test('a service entry of a registry of machines: unhealthy endpoints stay, and those at the address of a Pod are not used', () => {
  const spec = {
    hosts: ['web.service.consul'],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    resolution: 'STATIC',
    endpoints: [{ address: '10.0.0.1', labels: { app: 'web' } }, { address: '10.0.0.2' }, { address: '10.0.0.3' }],
  };
  const entry = resource('ServiceEntry', 'a/web', spec, { ofMachines: true, unhealthyEndpoints: [0, 2] });
  const found = (snapshot: Snapshot) =>
    snapshot.endpoints.get('a/web.service.consul')?.map(({ address, health }) => `${address} ${health}`);
  const before = meshOf([entry]);
  assert.deepEqual(found(before), ['10.0.0.1 unhealthy', '10.0.0.2 healthy', '10.0.0.3 unhealthy']);
  assert.deepEqual(before.workloadAt('', '10.0.0.1', 'a')?.labels, { app: 'web' }, 'selectors continue to apply');
  const taken = step(before, [pod('b/p', '10.0.0.2')]).snapshot;
  assert.deepEqual(found(taken), ['10.0.0.1 unhealthy', '10.0.0.3 unhealthy']);
  assert.deepEqual(found(meshOf([pod('b/p', '10.0.0.2'), entry])), found(taken));
  assert.deepEqual(found(step(taken, [], ['Pod/b/p']).snapshot), found(before));
});

test('an orchestrator service selects workload entries, named target ports first', () => {
  const ports = [{ name: 'http', port: 80, targetPort: 'web' }];
  const resources = [
    service('a/web', { ports, selector: { app: 'x' } }),
    resource('WorkloadEntry', 'a/vm', { address: '2.2.2.2', labels: { app: 'x' }, ports: { web: 9000 } }),
  ];
  assert.deepEqual(addressesOf(resources), ['2.2.2.2:9000']);
  const without = meshOf(resources, { settings: { serviceSelectsWorkloadEntries: false } });
  assert.equal(without.endpoints.has(KEY), false);
});

test('one host in several service entries of a namespace: the oldest defines it, others add ports and endpoints', () => {
  const snapshot = meshOf([
    entry({ resolution: 'STATIC', endpoints: [{ address: '1.1.1.2' }], location: 'MESH_INTERNAL' }, 'a/new', 2000),
    entry({ resolution: 'STATIC', endpoints: [{ address: '1.1.1.1' }] }, 'a/old', 1000),
    entry({ resolution: 'DNS' }, 'a/other', 3000),
  ]);
  const made = snapshot.services.get('a/api.example.com');
  assert.deepEqual([made?.source, made?.meshExternal], ['ServiceEntry/a/old', true]);
  assert.deepEqual(
    snapshot.endpoints.get('a/api.example.com')?.map(({ address }) => address),
    ['1.1.1.1', '1.1.1.2'],
  );
  assert.equal(snapshot.findings().duplicateClusters, 2);
});

test('one host in several namespaces: two services, oldest first', () => {
  const snapshot = meshOf([entry({}, 'a/e', 2000), entry({}, 'b/e', 1000)]);
  assert.deepEqual(
    snapshot.servicesByHost('api.example.com').map(({ namespace }) => namespace),
    ['b', 'a'],
  );
});

test('a network that names a registry has all of its addresses, even in ranges of other networks', () => {
  const networks = {
    networks: {
      range: { endpoints: [{ fromCidr: '10.0.0.0/8' }], gateways: [] },
      home: { endpoints: [{ fromRegistry: 'Orchestrator' }], gateways: [] },
    },
  };
  const snapshot = meshOf([service('a/web'), endpoints('a/web', ['10.0.0.1', '192.168.0.1'])], { networks });
  assert.deepEqual(
    snapshot.endpoints.get(KEY)?.map(({ network }) => network),
    ['home', 'home'],
  );
});

test('where no network names the registry, the longest CIDR range decides', () => {
  const networks = {
    networks: {
      wide: { endpoints: [{ fromCidr: '10.0.0.0/8' }], gateways: [] },
      narrow: { endpoints: [{ fromCidr: '10.0.0.0/30' }, { fromCidr: 'fd00::/8' }], gateways: [] },
      other: { endpoints: [{ fromRegistry: 'far' }], gateways: [] },
    },
  };
  const addresses = ['10.0.0.1', '10.0.0.9', '192.168.0.1', 'fd00::1'];
  const snapshot = meshOf([service('a/web'), endpoints('a/web', addresses)], { networks });
  const found = (snapshot.endpoints.get(KEY) ?? []).map(({ address, network }) => `${address} ${network}`);
  assert.deepEqual(found, ['10.0.0.1 narrow', '10.0.0.9 wide', '192.168.0.1 ', 'fd00::1 narrow']);
});

test('changes of fields that nothing reads change no snapshot', () => {
  const before = meshOf([service('a/web'), endpoints('a/web', ['10.0.0.1', '10.0.0.2']), pod('a/p', '10.0.0.1')]);
  const scope = before.scopeOf('a', {});
  const { snapshot, changes } = step(before, [
    endpoints('a/web', ['10.0.0.2', '10.0.0.1']),
    pod('a/p', '10.0.0.1', { annotations: { note: 'x' } }),
    resource('Node', '/n', {}, { labels: { other: 'x' } }),
  ]);
  const { services, endpoints: changed, addresses, configs, scopes, everything } = changes;
  assert.deepEqual(
    [services.size, changed.size, addresses.size, configs.size, scopes.size, everything],
    [0, 0, 0, 0, 0, false],
  );
  assert.equal(snapshot.scopeOf('a', {}), scope);
  assert.equal(snapshot.endpoints, before.endpoints);
});

test('pods without a service at their address are counted', () => {
  const { snapshot } = step(emptyMesh(), [service('a/web'), endpoints('a/web', ['10.0.0.1']), pod('a/p', '10.0.0.1')]);
  assert.equal(snapshot.findings().podsWithoutService, 0);
  assert.equal(step(snapshot, [], ['Endpoints/a/web']).snapshot.findings().podsWithoutService, 1);
});

test('clusters without instances are counted by port and subset', () => {
  const { snapshot } = step(emptyMesh(), [service('a/web'), endpoints('a/web', ['10.0.0.1']), pod('a/p', '10.0.0.1')]);
  assert.equal(snapshot.clustersWithoutInstances(), 0);
  const ports = [80, 81, 82].map((port) => ({ name: `http-${port}`, port }));
  ports.push({ ...{ protocol: 'UDP' }, name: 'udp', port: 53 });
  const wide = step(snapshot, [service('a/wide', { ports })]).snapshot;
  assert.equal(wide.clustersWithoutInstances(), 3);
  const subsets = [
    { name: 'all', labels: {} },
    { name: 'none', labels: { version: 'v9' } },
  ];
  const rules = ['a', 'b'].map((namespace) =>
    resource('DestinationRule', `${namespace}/web`, { host: 'web.a.svc.cluster.local', subsets }),
  );
  const ruled = step(wide, rules).snapshot;
  // Two namespaces have a subset of the name: it is one cluster.
  assert.equal(ruled.clustersWithoutInstances(), 4);
  assert.equal(step(ruled, [], ['Endpoints/a/web']).snapshot.clustersWithoutInstances(), 6);
});
