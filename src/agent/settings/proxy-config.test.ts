import assert from 'node:assert/strict';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseProxyConfig } from '../../resources/index.ts';
import { loadMeshConfig, parseData, readProxyConfig, UNUSED_FIELDS } from './proxy-config.ts';

const ALL = {
  configPath: './etc',
  binaryPath: '/bin/envoy',
  serviceCluster: 'web',
  drainDuration: '45s',
  terminationDrainDuration: '1m30s',
  discoveryAddress: 'meshd:15012',
  proxyAdminPort: 15000,
  statusPort: 15020,
  concurrency: 2,
  controlPlaneAuthPolicy: 'MUTUAL_TLS',
  proxyBootstrapTemplatePath: '/t.json',
  interceptionMode: 'TPROXY',
  statsdUdpAddress: '127.0.0.1:8125',
  proxyMetadata: { A: 'b' },
  extraStatTags: ['a', 'b'],
  tracing: { zipkin: { address: 'zipkin:9411' }, sampling: 5 },
  envoyAccessLogService: { address: 'als:9000' },
  envoyMetricsService: { address: 'metrics:9000' },
  readinessProbe: { periodSeconds: 5, httpGet: { path: '/ready', port: 8080 } },
} as const;

describe('readProxyConfig', () => {
  test('reads every field like the control plane', () => {
    const whole = parseProxyConfig(ALL);
    assert.ok('value' in whole && whole.warning === undefined);
    assert.deepEqual(readProxyConfig(ALL, 'x'), whole.value);
  });

  test('refuses what the control plane refuses, with the name of the field', () => {
    const wrong: Readonly<Record<string, unknown>> = {
      configPath: 1,
      drainDuration: 'soon',
      proxyAdminPort: 'x',
      concurrency: 1.5,
      interceptionMode: 'redirect',
      controlPlaneAuthPolicy: 'TLS',
      proxyMetadata: { A: 1 },
      extraStatTags: 'a',
      tracing: 'a',
      envoyAccessLogService: 'a',
      envoyMetricsService: 'a',
      readinessProbe: 'a',
    };
    for (const [field, value] of Object.entries(wrong)) {
      assert.ok('problem' in parseProxyConfig({ [field]: value }), field);
      assert.throws(() => readProxyConfig({ [field]: value }, 'FILE'), { location: { file: 'FILE', field } });
    }
  });

  test('ignores fields that it does not use, and treats empty ones as absent', () => {
    assert.deepEqual(readProxyConfig({ statNameLength: 1, configPath: '', statusPort: null, more: 1 }, 'x'), {});
    assert.deepEqual(readProxyConfig(undefined, 'x'), {});
  });
});

describe('loadMeshConfig', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'meshd-proxy-config-'));
  });
  after(() => rm(folder, { recursive: true }));

  test('PROXY_CONFIG overrides the mesh configuration field by field', async () => {
    const mesh = join(folder, 'mesh');
    await writeFile(
      mesh,
      'trustDomain: td\ndefaultConfig:\n  concurrency: 4\n  statusPort: 1\n  proxyMetadata: {A: a, B: b}\n',
    );
    assert.deepEqual(await loadMeshConfig(mesh, 'concurrency: 2\nproxyMetadata: {B: c}'), {
      trustDomain: 'td',
      warnings: [],
      proxyConfig: { concurrency: 2, statusPort: 1, proxyMetadata: { A: 'a', B: 'c' } },
    });
  });

  test('fields that are unknown or without effect are reported', async () => {
    for (const field of UNUSED_FIELDS) {
      const read = parseProxyConfig({ [field]: {} });
      assert.ok('problem' in read || read.warning === undefined, field);
    }
    const mesh = join(folder, 'odd');
    await writeFile(mesh, 'defaultConfig:\n  concurency: 4\n  gatewayTopology: {numTrustedProxies: 1}\n');
    const { warnings } = await loadMeshConfig(
      mesh,
      '{"discoverAddress": "x", "statNameLength": 100, "concurrency": 1}',
    );
    assert.deepEqual(warnings, [
      `${mesh}: defaultConfig: unknown fields are ignored: "concurency"`,
      'PROXY_CONFIG: unknown fields are ignored: "discoverAddress"',
      'PROXY_CONFIG: fields without effect: "statNameLength"',
    ]);
  });

  test('a missing mesh configuration is the default mesh, and an unreadable one is named in the error', async () => {
    assert.deepEqual(await loadMeshConfig(join(folder, 'none'), ''), {
      proxyConfig: {},
      trustDomain: undefined,
      warnings: [],
    });
    await assert.rejects(loadMeshConfig(folder, ''), /EISDIR/);
    await symlink('nowhere', join(folder, 'dangling'));
    await assert.rejects(loadMeshConfig(join(folder, 'dangling'), ''), /cannot be read: ENOENT/);
    await writeFile(join(folder, 'list'), '- trustDomain: td\n');
    await assert.rejects(loadMeshConfig(join(folder, 'list'), ''), /expected a mesh configuration/);
    await writeFile(join(folder, 'latin'), Buffer.from('trustDomain: \xe4\n', 'latin1'));
    await assert.rejects(loadMeshConfig(join(folder, 'latin'), ''), /expected UTF-8/);
    await writeFile(join(folder, 'two'), 'trustDomain: td\n---\ntrustDomain: other\n');
    await assert.rejects(loadMeshConfig(join(folder, 'two'), ''), /cannot be read as YAML/);
    await assert.rejects(parseData('PROXY_CONFIG', 'a: [x'), {
      code: 'invalid_argument',
      message: /^cannot be read as YAML/,
    });
  });
});
