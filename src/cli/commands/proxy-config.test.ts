import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { certificateSet, testRoot } from '../../agent/identity/testing/certificates.ts';
import { FakePages } from '../testing/fake-pages.ts';

const TYPE = 'type.googleapis.com/envoy.admin.v3.';
const CONFIG = {
  filter_metadata: { istio: { config: '/apis/networking.istio.io/v1/namespaces/shop/destination-rule/web' } },
};
const HTTP = 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
const TCP = 'type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy';
const WEB = 'web.shop.svc.cluster.local';

const socket = (address: string, port_value: number) => ({ socket_address: { address, port_value } });
const CLUSTERS = [
  { name: `outbound|80|v1|${WEB}`, type: 'EDS', eds_cluster_config: { service_name: 'short' }, metadata: CONFIG },
  { name: `outbound|443||api.shop.svc.cluster.local`, type: 'EDS' },
  { name: 'PassthroughCluster', type: 'ORIGINAL_DST' },
];
const LISTENERS = [
  {
    name: '0.0.0.0_80',
    address: socket('0.0.0.0', 80),
    filter_chains: [
      {
        filter_chain_match: { transport_protocol: 'raw_buffer', application_protocols: ['http/1.1', 'h2c'] },
        filters: [{ name: 'http', typed_config: { '@type': HTTP, rds: { route_config_name: '80' } } }],
      },
    ],
    default_filter_chain: {
      filters: [{ name: 'tcp', typed_config: { '@type': TCP, cluster: 'PassthroughCluster' } }],
    },
  },
  {
    name: '10.0.0.1_443',
    address: socket('10.0.0.1', 443),
    filter_chains: [
      {
        filter_chain_match: { prefix_ranges: [{ address_prefix: '10.0.0.0', prefix_len: 8 }], server_names: ['a.b'] },
        filters: [
          {
            name: 'tcp',
            typed_config: {
              '@type': TCP,
              weighted_clusters: {
                clusters: [
                  { name: 'one', weight: 80 },
                  { name: 'two', weight: 20 },
                ],
              },
            },
          },
        ],
      },
    ],
  },
];
const ROUTES = [
  {
    name: '80',
    virtual_hosts: [
      {
        name: `${WEB}:80`,
        domains: [WEB, `${WEB}:80`, 'web.shop', 'web.shop.svc', '10.96.0.1'],
        routes: [
          { match: { path_separated_prefix: '/v1' }, route: { cluster: `outbound|80|v1|${WEB}` }, metadata: CONFIG },
          { match: { prefix: '/', headers: [{ name: 'x-user' }] }, redirect: { path_redirect: '/' } },
        ],
      },
      { name: 'block_all', domains: ['*'], routes: [] },
    ],
  },
];
const ENDPOINTS = [
  {
    cluster_name: 'short',
    endpoints: [
      {
        locality: { region: 'r', zone: 'z' },
        lb_endpoints: [
          { endpoint: { address: socket('10.1.0.1', 8080) } },
          { endpoint: { address: socket('fd00::1', 8080) }, health_status: 'UNHEALTHY' },
        ],
      },
    ],
  },
];

const KEY = '-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----';

function dump(certificate: string) {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const secret = {
    name: 'front',
    tls_certificate: {
      certificate_chain: { inline_bytes: base64(certificate) },
      private_key: { inline_bytes: base64(KEY) },
    },
  };
  return {
    configs: [
      { '@type': `${TYPE}ClustersConfigDump`, dynamic_active_clusters: CLUSTERS.map((cluster) => ({ cluster })) },
      {
        '@type': `${TYPE}ListenersConfigDump`,
        dynamic_listeners: LISTENERS.map((listener) => ({ name: listener.name, active_state: { listener } })),
      },
      { '@type': `${TYPE}RoutesConfigDump`, dynamic_route_configs: ROUTES.map((route_config) => ({ route_config })) },
      {
        '@type': `${TYPE}EndpointsConfigDump`,
        dynamic_endpoint_configs: ENDPOINTS.map((endpoint_config) => ({ endpoint_config })),
      },
      {
        '@type': `${TYPE}SecretsConfigDump`,
        dynamic_active_secrets: [{ name: 'front', secret }],
        dynamic_warming_secrets: [{ secret: { name: 'key', generic_secret: { secret: { inline_string: KEY } } } }],
      },
    ],
  };
}

describe('proxy-config', () => {
  let [certificate, dir] = ['', ''];
  const pages = new FakePages({
    config_dump: ({ proxyID }) => (proxyID === 'web.shop' ? dump(certificate) : undefined),
  });
  before(async () => {
    await pages.start();
    certificate = certificateSet(testRoot('test'), 'front.example', 10 * 86_400_000).leaf;
    dir = await mkdtemp(join(tmpdir(), 'proxy-config-'));
  });
  after(async () => {
    await pages.close();
    await rm(dir, { recursive: true });
  });
  const config = (...args: readonly string[]) => pages.run('proxy-config', ...args);
  /** Cells of the table, without its header. */
  async function rows(...args: readonly string[]): Promise<string[][]> {
    const { code, stdout, stderr } = await config(...args);
    assert.deepEqual([code, stderr], [0, '']);
    return stdout
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(/ {3,}/));
  }

  test('clusters have host, port, subset, direction, type and the rule that made them', async () => {
    assert.match(
      (await config('clusters', 'web.shop')).stdout,
      /^SERVICE FQDN +PORT +SUBSET +DIRECTION +TYPE +DESTINATION RULE\n/,
    );
    assert.deepEqual(await rows('clusters', 'web.shop'), [
      ['PassthroughCluster', '-', '-', '-', 'ORIGINAL_DST'],
      ['api.shop.svc.cluster.local', '443', '-', 'outbound', 'EDS'],
      [WEB, '80', 'v1', 'outbound', 'EDS', 'web.shop'],
    ]);
    assert.equal((await rows('cluster', 'web.shop', '--fqdn', WEB)).length, 1);
    assert.equal((await rows('cluster', 'web.shop', '--port', '443')).length, 1);
    assert.equal((await rows('cluster', 'web.shop', '--name', 'PassthroughCluster')).length, 1);
    assert.equal((await rows('cluster', 'web.shop', '--name', 'Pass')).length, 0);
  });

  test('listeners have one row for each filter chain', async () => {
    assert.deepEqual(await rows('listeners', 'web.shop'), [
      ['0.0.0.0', '80', 'Trans: raw_buffer; App: http/1.1,h2c', 'Route: 80'],
      ['0.0.0.0', '80', 'ALL', 'PassthroughCluster'],
      ['10.0.0.1', '443', 'SNI: a.b; Addr: 10.0.0.0/8', 'Cluster: one 80, two 20'],
    ]);
    assert.equal((await rows('listeners', 'web.shop', '--port', '443')).length, 1);
  });

  test('routes have their domains, matches and destinations', async () => {
    assert.deepEqual(await rows('routes', 'web.shop'), [
      ['80', `${WEB}:80`, 'web.shop, 10.96.0.1', '/v1/*', `outbound|80|v1|${WEB}`, 'web.shop'],
      ['80', `${WEB}:80`, 'web.shop, 10.96.0.1', '/* header x-user', 'redirect'],
      ['80', 'block_all', '*', '/*', '404'],
    ]);
    assert.equal((await rows('routes', 'web.shop', '--fqdn', 'web.shop')).length, 2);
    assert.equal((await rows('routes', 'web.shop', '--port', '443')).length, 0);
  });

  test('endpoints name their cluster, also where they have short names', async () => {
    assert.deepEqual(await rows('endpoints', 'web.shop', '--fqdn', WEB), [
      ['10.1.0.1:8080', 'HEALTHY', 'r/z', `outbound|80|v1|${WEB}`],
      ['[fd00::1]:8080', 'UNHEALTHY', 'r/z', `outbound|80|v1|${WEB}`],
    ]);
  });

  test('secrets have the days left, and never a key', async () => {
    const [front, key] = await rows('secrets', 'web.shop');
    assert.deepEqual([front?.[0], front?.[1], front?.[2], front?.at(-1)], ['front', 'Cert Chain', 'true', '9']);
    assert.deepEqual(key?.slice(0, 3), ['key', 'Other', 'false']);
    const shown = await Promise.all(
      ['table', 'json', 'yaml'].map((output) => config('secrets', 'web.shop', '-o', output)),
    );
    for (const { stdout } of shown) assert.doesNotMatch(stdout, /PRIVATE|c2VjcmV0|LS0tLS1CRUdJTiBQUklW/);
  });

  test('all sections together, from a file', async () => {
    const file = join(dir, 'dump.json');
    await writeFile(file, JSON.stringify(dump(certificate)));
    const { stdout } = await config('all', '--file', file, '-o', 'json');
    const all = JSON.parse(stdout) as Record<string, readonly { name?: string }[]>;
    assert.deepEqual(
      Object.entries(all).map(([section, found]) => [section, found.length]),
      [
        ['clusters', 3],
        ['listeners', 2],
        ['routes', 1],
        ['endpoints', 1],
        ['secrets', 2],
      ],
    );
    assert.equal(all.clusters?.[0]?.name, 'PassthroughCluster');
    assert.equal((await config('all', 'web.shop')).stdout.match(/^[A-Z ]+$/gm)?.length, 5);
  });

  test('a mistake is one line', async () => {
    for (const [args, message] of [
      [['clusters'], /needs the name of a proxy or --file/],
      [['clusters', 'web.shop', '--file', 'x'], /needs the name of a proxy or --file/],
      [['things', 'web.shop'], /expected all, clusters, .*got "things"/],
      [['clusters', 'no.body'], /returned HTTP 404: no page/],
      [['clusters', '-f', '/nosuch'], /^ctl-discovery: \/nosuch: expected a readable file: ENOENT\n$/],
      [['clusters', 'web.shop', '-o', 'xml'], /"xml" is not one of json, yaml, table/],
    ] as const) {
      const { code, stderr } = await config(...args);
      assert.equal(code, 1);
      assert.match(stderr, message);
      assert.match(stderr, /^ctl-discovery: [^\n]+\n$/);
    }
  });
});
