import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { FakePages } from '../testing/fake-pages.ts';

const line = (proxy: string, more: object = {}) => ({
  proxy,
  id: `sidecar~10.0.0.1~${proxy}~cluster.local`,
  cluster_id: 'east',
  istio_version: '1.40.0',
  discovery: 'replica-1',
  ...Object.fromEntries(['cluster', 'listener', 'endpoint', 'route'].map((noun) => [`${noun}_state`, 'SYNCED'])),
  ...more,
});

const REJECTED = {
  listener_state: 'REJECTED',
  listener_sent: '3-2',
  listener_acked: '3-1',
  listener_rejected: { message: 'bad \u001b[31mfilter', resources: ['virtualInbound'] },
};

const cluster = (name: string, timeout: string) => ({
  version_info: '1',
  cluster: { name, connect_timeout: timeout, load_assignment: { cluster_name: name } },
});
const dump = (...clusters: readonly object[]) => ({
  configs: [
    { '@type': 'type.googleapis.com/envoy.admin.v3.ClustersConfigDump', dynamic_active_clusters: clusters },
    { '@type': 'type.googleapis.com/envoy.admin.v3.BootstrapConfigDump', bootstrap: {} },
  ],
});

describe('proxy-status', () => {
  const pages = new FakePages({
    syncz: ({ proxyID = '' }) =>
      [line('web.shop', REJECTED), line('api.shop', { extension_config_state: 'STALE' }), line('db.data')].filter(
        ({ proxy }) => proxyID === '' || proxy === proxyID,
      ),
    config_dump: () => dump(cluster('one', '1s'), cluster('two', '1s')),
  });
  const other = new FakePages({ syncz: () => [line('far.shop', { discovery: '' })] });
  let dir = '';
  before(async () => {
    await Promise.all([pages.start(), other.start()]);
    dir = await mkdtemp(join(tmpdir(), 'proxy-status-'));
  });
  after(async () => {
    await Promise.all([pages.close(), other.close()]);
    await rm(dir, { recursive: true });
  });
  const status = (...args: readonly string[]) => pages.run('proxy-status', ...args);

  test('lists every proxy with its state by type, and the replica that serves it', async () => {
    assert.deepEqual(await status(), {
      code: 0,
      stderr: '',
      stdout: [
        'NAME       CLUSTER   CDS      LDS        EDS      RDS      ECDS      DISCOVERY   VERSION',
        'api.shop   east      SYNCED   SYNCED     SYNCED   SYNCED   STALE     replica-1   1.40.0',
        'db.data    east      SYNCED   SYNCED     SYNCED   SYNCED   IGNORED   replica-1   1.40.0',
        'web.shop   east      SYNCED   REJECTED   SYNCED   SYNCED   IGNORED   replica-1   1.40.0',
        '',
      ].join('\n'),
    });
    assert.doesNotMatch((await status('-n', 'data')).stdout, /shop/);
    const { stdout } = await status('-o', 'json');
    assert.deepEqual(
      JSON.parse(stdout).map(({ proxy }: { proxy: string }) => proxy),
      ['web.shop', 'api.shop', 'db.data'],
    );
    assert.match((await status('-o', 'yaml')).stdout, /^- proxy: web\.shop$/m);
  });

  test('shows the last rejection of one proxy, without control characters of its message', async () => {
    const { code, stdout } = await status('web.shop');
    assert.equal(code, 0);
    assert.match(stdout, /^LDS +REJECTED +3-2 +3-1$/m);
    assert.match(stdout, /^Last rejection of LDS: +bad \?\[31mfilter\n +virtualInbound$/m);
    const absent = await status('nobody.shop');
    assert.deepEqual([absent.code, absent.stderr], [1, 'ctl-discovery: proxy nobody.shop is not connected\n']);
  });

  test('compares with the configuration of the Envoy, and returns 1 when it differs', async () => {
    const file = join(dir, 'envoy.json');
    await writeFile(file, JSON.stringify(dump(cluster('two', '1s'), cluster('one', '1s'))));
    const same = await status('web.shop', '--file', file);
    assert.deepEqual([same.code, same.stdout.endsWith('\nNo differences.\n')], [0, true]);
    await writeFile(file, JSON.stringify(dump(cluster('one', '2s'), cluster('three', '1s'))));
    const { code, stdout } = await status('web.shop', '--file', file, '-o', 'json');
    assert.deepEqual(
      [code, JSON.parse(stdout).differences],
      [
        1,
        [
          { section: 'clusters', name: 'one', kind: 'different', fields: ['connectTimeout'] },
          { section: 'clusters', name: 'two', kind: 'not in Envoy' },
          { section: 'clusters', name: 'three', kind: 'only in Envoy' },
        ],
      ],
    );
    await writeFile(file, '{"configs": 1}');
    assert.match(
      (await status('web.shop', '-f', file)).stderr,
      /^ctl-discovery: [^\n]*expected a config_dump[^\n]*\n$/,
    );
  });

  test('asks several replicas; one that does not respond is named and makes it fail', async () => {
    const both = await status('--httpAddr', `${pages.address},${other.address}`);
    assert.equal(both.code, 0);
    assert.match(both.stdout, new RegExp(`^far\\.shop .* ${other.address} +1\\.40\\.0$`, 'm'));
    const one = await status('--httpAddr', `${pages.address},127.0.0.1:1`);
    assert.equal(one.code, 1);
    assert.match(one.stdout, /^web\.shop /m);
    assert.match(one.stderr, /^cannot call 127\.0\.0\.1:1: [^\n]+\n$/);
  });
});
