/**
 * Services, endpoints, pods, service entries, workload entries and Sidecars are edited while real Envoys run.
 */
import assert from 'node:assert/strict';
import { afterEach, before, test } from 'node:test';
import { exchange, startDns, startEcho } from '../harness/index.ts';
import { endpoints, pod, resource, service } from './support/config.ts';
import { type MeshProxy, sidecar } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll, tally } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh, webWorkloads } from './support/versions.ts';

/** Where clients use their sidecar as a proxy. */
const PROXY_PORT = 15080;
const DNS_PORT = 7453;

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

before(async () => {
  shared.set(
    await startVersionsMesh(owner, {
      env: { CTL_ENABLE_EDS_FOR_HEADLESS_SERVICES: 'true' },
      egress: [{ number: PROXY_PORT, protocol: 'HTTP_PROXY' }],
      dnsServer: (address) => ({ address: address(30), port: DNS_PORT }),
    }),
  );
});

afterEach(async () => {
  await mesh()
    .config.remove('edit')
    .catch(() => undefined);
});

const target = (client: MeshProxy, host = 'web') => ({ address: client.address, port: HTTP_PORT, host });

function eventually(check: (client: MeshProxy) => Promise<void>): Promise<void> {
  return eventuallyAll(mesh().clients, check);
}

/** The backends that answer six requests. */
async function answers(host: string, expected: readonly string[]): Promise<void> {
  await eventually(async (client) => {
    assert.deepEqual(Object.keys(await tally(target(client, host), 6)).sort(), expected);
  });
}

const status = (host: string, expected: number) =>
  eventually(async (client) => assert.equal((await call(target(client, host))).status, expected));

const HTTP = [{ name: 'http', port: HTTP_PORT }];

test('a service is added, changes its port and is removed', async () => {
  const { config, address } = mesh();
  await status('extra', 502);
  const workloads = endpoints('extra', [address(21)], HTTP);
  await config.apply('edit', service('extra', { clusterIP: '10.96.0.9', ports: HTTP }), workloads);
  await answers('extra', ['web-v1']);
  const moved = service('extra', { clusterIP: '10.96.0.9', ports: [{ name: 'http', port: HTTP_PORT + 1 }] });
  await config.apply('edit', moved, workloads);
  await status('extra', 502);
  await config.apply('edit', service('extra', { clusterIP: '10.96.0.9', ports: HTTP }), workloads);
  await answers('extra', ['web-v1']);
  await config.remove('edit');
  await status('extra', 502);
});

test('an HTTP_PROXY listener of a Sidecar serves the hosts and ports that requests name', async () => {
  const { config } = mesh();
  const through = async ({ address }: MeshProxy, authority: string): Promise<string> => {
    const head = `GET http://${authority}/x HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`;
    const answer = await exchange({ address, port: PROXY_PORT, send: head, until: '\r\n\r\n' });
    return `${/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]} ${/^x-echo: (\S+)/m.exec(answer)?.[1] ?? 'nobody'}`;
  };
  await eventually(async (client) => assert.match(await through(client, `web:${HTTP_PORT}`), /^200 web-v[12]$/));
  await eventually(async (client) => assert.equal(await through(client, 'web'), '502 nobody'));
  await eventually(async (client) => assert.equal(await through(client, `nobody.example:${HTTP_PORT}`), '502 nobody'));
  await config.apply('edit', resource('VirtualService', 'web', { hosts: ['web'], http: [{ route: [to('v2')] }] }));
  await eventually(async (client) => assert.equal(await through(client, `web:${HTTP_PORT}`), '200 web-v2'));
});

test('endpoints are removed and added again', async () => {
  const { config, address } = mesh();
  await answers('web', ['web-v1', 'web-v2']);
  const [v1, v2] = webWorkloads(address(21), address(22));
  assert.ok(v1 && v2);
  await config.apply('workloads', v1, v2, endpoints('web', { 'web-v2': address(22) }, HTTP));
  await answers('web', ['web-v2']);
  await config.apply('workloads', v1, v2, endpoints('web', {}, HTTP));
  await status('web', 503);
  await config.apply('workloads', ...webWorkloads(address(21), address(22)));
  await answers('web', ['web-v1', 'web-v2']);
});

test('requests for names that match a wildcard go where the proxy resolves them', async () => {
  const { config, address } = mesh();
  const names = { 'one.wild.example': [address(21)], 'two.wild.example': [address(22)] };
  await startDns(owner, { address: address(30), port: DNS_PORT, names });
  const ports = [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }];
  const wild = { hosts: ['*.wild.example'], location: 'MESH_EXTERNAL', resolution: 'DYNAMIC_DNS', ports };
  await status('one.wild.example', 502);
  await config.apply('edit', resource('ServiceEntry', 'wild', wild));
  await answers('one.wild.example', ['web-v1']);
  await answers('two.wild.example', ['web-v2']);
  await answers(`two.wild.example:${HTTP_PORT}`, ['web-v2']);
  await status('none.wild.example', 503);
  await config.remove('edit');
  await status('one.wild.example', 502);
});

test('a pod that changes its label changes its subset', async () => {
  const { config, address } = mesh();
  await config.apply('edit', resource('VirtualService', 'web', { hosts: ['web'], http: [{ route: [to('v1')] }] }));
  await answers('web', ['web-v1']);
  const both = endpoints('web', { 'web-v1': address(21), 'web-v2': address(22) }, HTTP);
  const labelled = (version: string) => pod('web-v2', { ip: address(22), labels: { app: 'web', version } });
  const v1 = pod('web-v1', { ip: address(21), labels: { app: 'web', version: 'v1' } });
  await config.apply('workloads', v1, labelled('v1'), both);
  await answers('web', ['web-v1', 'web-v2']);
  await config.apply('workloads', v1, labelled('v2'), both);
  await answers('web', ['web-v1']);
});

test('a service entry with addresses follows its list of endpoints', async () => {
  const { config, address } = mesh();
  const entry = (...addresses: readonly string[]) =>
    resource('ServiceEntry', 'outside', {
      hosts: ['outside.example'],
      location: 'MESH_EXTERNAL',
      resolution: 'STATIC',
      ports: [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }],
      endpoints: addresses.map((each) => ({ address: each })),
    });
  await status('outside.example', 502);
  await config.apply('edit', entry(address(21)));
  await answers('outside.example', ['web-v1']);
  await config.apply('edit', entry(address(21), address(22)));
  await answers('outside.example', ['web-v1', 'web-v2']);
  await config.apply('edit', entry(address(22)));
  await answers('outside.example', ['web-v2']);
  await config.remove('edit');
  await status('outside.example', 502);
});

test('a service entry by DNS name is resolved by the proxies', async () => {
  // What `localhost` resolves to, everywhere.
  const local = await startEcho(owner, { name: 'by-name' });
  const entry = (name: string) =>
    resource('ServiceEntry', 'named', {
      hosts: ['named.example'],
      location: 'MESH_EXTERNAL',
      resolution: 'DNS',
      ports: [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }],
      endpoints: [{ address: name, ports: { http: local.port } }],
    });
  await mesh().config.apply('edit', entry('localhost'));
  await answers('named.example', ['by-name']);
  await mesh().config.apply('edit', entry('nowhere.invalid'));
  await status('named.example', 503);
});

test('workload entries join and leave the services that select them', async () => {
  const { config, address } = mesh();
  const workload = (name: string, at: string, app: string) =>
    resource('WorkloadEntry', name, { address: at, labels: { app } });
  const selecting = service('vms', { clusterIP: '10.96.0.7', ports: HTTP, selector: { app: 'vm' } });
  const entry = resource('ServiceEntry', 'machines', {
    hosts: ['machines.example'],
    location: 'MESH_INTERNAL',
    resolution: 'STATIC',
    ports: [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }],
    workloadSelector: { labels: { app: 'vm' } },
  });
  await config.apply('edit', selecting, entry, workload('vm-1', address(21), 'vm'));
  await answers('vms', ['web-v1']);
  await answers('machines.example', ['web-v1']);
  await config.apply(
    'edit',
    selecting,
    entry,
    workload('vm-1', address(21), 'vm'),
    workload('vm-2', address(22), 'vm'),
  );
  await answers('vms', ['web-v1', 'web-v2']);
  await answers('machines.example', ['web-v1', 'web-v2']);
  await config.apply(
    'edit',
    selecting,
    entry,
    workload('vm-1', address(21), 'other'),
    workload('vm-2', address(22), 'vm'),
  );
  await answers('vms', ['web-v2']);
  await answers('machines.example', ['web-v2']);
});

test('the pods of a headless service serve it', async () => {
  const { config, address } = mesh();
  const headless = service('peers', { clusterIP: 'None', ports: HTTP });
  await config.apply('edit', headless, endpoints('peers', [address(21), address(22)], HTTP));
  await answers('peers', ['web-v1', 'web-v2']);
  await config.apply('edit', headless, endpoints('peers', [address(22)], HTTP));
  await answers('peers', ['web-v2']);
});

test('an external name is resolved by the proxies, and follows an edit', async () => {
  const alias = (externalName: string) =>
    service('alias', { ports: HTTP, more: { type: 'ExternalName', externalName } });
  const resolves = (name: string) =>
    eventually(async (client) => {
      const { configs } = await client.configDump();
      const clusters = configs.flatMap(
        (each) =>
          (each.dynamic_active_clusters ?? []) as { cluster: { name: string; cluster_type?: { name: string } } }[],
      );
      const found = clusters.find(
        ({ cluster }) => cluster.name === `outbound|${HTTP_PORT}||alias.default.svc.cluster.local`,
      );
      assert.equal(found?.cluster.cluster_type?.name, 'envoy.cluster.dns');
      assert.match(JSON.stringify(found), new RegExp(`"address":"${name}"`));
    });
  await mesh().config.apply('edit', alias('localhost'));
  await resolves('localhost');
  await mesh().config.apply('edit', alias('elsewhere.invalid'));
  await resolves('elsewhere.invalid');
  await status('alias', 503);
});

test('a Sidecar limits the services that its proxies reach, and a service its visibility', async () => {
  const { config, clients, address } = mesh();
  const restore = clients.map((client) =>
    sidecar(client.name, { address: client.address, egress: [{ number: HTTP_PORT, protocol: 'HTTP' }] }),
  );
  const extra = (exportTo: readonly string[]) =>
    resource(
      'ServiceEntry',
      'extra',
      {
        hosts: ['extra.example'],
        resolution: 'STATIC',
        exportTo,
        ports: [{ number: HTTP_PORT, name: 'http', protocol: 'HTTP' }],
        endpoints: [{ address: address(21) }],
      },
      'other',
    );
  await config.apply('edit', extra(['*']));
  await answers('extra.example', ['web-v1']);
  await config.apply('edit', extra(['.']));
  await status('extra.example', 502);
  await config.apply('edit', extra(['default']));
  await answers('extra.example', ['web-v1']);
  const narrow = (client: MeshProxy) =>
    sidecar(client.name, {
      address: client.address,
      egress: [{ number: HTTP_PORT, protocol: 'HTTP', hosts: ['./*'] }],
    });
  await config.apply('clients', ...clients.map(narrow));
  await status('extra.example', 502);
  await answers('web', ['web-v1', 'web-v2']);
  await config.apply('clients', ...restore);
  await answers('extra.example', ['web-v1']);
});

test('a Sidecar that allows any destination forwards calls to unknown hosts', async () => {
  const { config, clients } = mesh();
  await status('unknown.example', 502);
  await config.apply(
    'clients',
    ...clients.map((client) =>
      sidecar(client.name, {
        address: client.address,
        policy: 'ALLOW_ANY',
        egress: [{ number: HTTP_PORT, protocol: 'HTTP', hosts: ['./*'] }],
      }),
    ),
  );
  await eventually(async (client) => {
    const { configs } = await client.configDump();
    assert.match(JSON.stringify(configs), /"cluster":"PassthroughCluster"/);
  });
  await answers('web', ['web-v1', 'web-v2']);
});
