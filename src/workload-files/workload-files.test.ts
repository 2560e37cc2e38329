import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parse } from 'yaml';
import { parseWorkloadProbe } from '../agent/health/workload-probe.ts';
import { loadMeshConfig } from '../agent/settings/proxy-config.ts';
import { groupInFile, type WorkloadFilesInput, workloadFiles, writeFiles } from './index.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-workload-'));
after(() => rmSync(folder, { recursive: true }));

const INPUT: WorkloadFilesInput = {
  namespace: 'shop',
  group: 'web',
  spec: {
    metadata: { labels: { app: 'web' } },
    template: { serviceAccount: 'web', network: 'dmz', labels: { tier: 'front' } },
    probe: { periodSeconds: 5, httpGet: { path: '/healthz', port: 8080, scheme: 'http' } },
  },
  token: 'a.b.c',
  tokenEnds: 0,
  rootCertificate: 'roots\n',
  discoveryAddress: 'meshd.example:15012',
  discoveryIp: '192.0.2.1',
  address: '',
  trustDomain: '',
  dns: false,
};

const textOf = (name: string, input: WorkloadFilesInput = INPUT) =>
  workloadFiles(input).find((file) => file.name === name)?.text ?? '';

test('the files are written with their modes, the token for its owner only', async () => {
  const output = join(folder, 'out');
  writeFileSync(join(folder, 'file'), '');
  await writeFiles(output, workloadFiles(INPUT));
  const modes = workloadFiles(INPUT).map(({ name }) => [name, statSync(join(output, name)).mode & 0o777]);
  assert.deepEqual(Object.fromEntries(modes), {
    token: 0o600,
    'root-cert.pem': 0o644,
    'cluster.env': 0o644,
    'mesh.yaml': 0o644,
    hosts: 0o644,
    'ctl-agent.service': 0o644,
    'ctl-agent-redirect.service': 0o644,
    'README.md': 0o644,
  });
  await assert.rejects(writeFiles(join(folder, 'file'), workloadFiles(INPUT)), /cannot be written: E/);
});

test('a file that exists is replaced, not written through: it may be a link, or readable by others', async () => {
  const output = join(folder, 'again');
  const elsewhere = join(folder, 'elsewhere');
  writeFileSync(elsewhere, 'theirs');
  mkdirSync(output);
  symlinkSync(elsewhere, join(output, 'token'));
  await writeFiles(output, workloadFiles(INPUT));
  assert.equal(readFileSync(elsewhere, 'utf8'), 'theirs');
  assert.equal(readFileSync(join(output, 'token'), 'utf8'), 'a.b.c\n');
  assert.deepEqual(
    readdirSync(output).sort(),
    workloadFiles(INPUT)
      .map(({ name }) => name)
      .sort(),
  );
});

test('the agent reads group, network, labels and probe from mesh.yaml', async () => {
  const file = join(folder, 'mesh.yaml');
  writeFileSync(file, textOf('mesh.yaml'));
  const { proxyConfig, warnings } = await loadMeshConfig(file, '');
  assert.deepEqual(warnings, []);
  assert.equal(proxyConfig.discoveryAddress, 'meshd.example:15012');
  const { MESH_METAJSON_LABELS: labels = '', ...metadata } = proxyConfig.proxyMetadata ?? {};
  assert.deepEqual(metadata, { MESH_META_AUTO_REGISTER_GROUP: 'web', MESH_META_NETWORK: 'dmz' });
  assert.deepEqual(JSON.parse(labels), { tier: 'front', app: 'web' });
  assert.equal(parseWorkloadProbe(proxyConfig.readinessProbe, '127.0.0.1')?.periodMs, 5000);
});

test('the address of the control plane is written to hosts where it has a name', () => {
  assert.equal(textOf('hosts'), '192.0.2.1 meshd.example\n');
  assert.match(textOf('README.md'), /\/etc\/hosts/);
  assert.equal(textOf('hosts', { ...INPUT, discoveryAddress: '192.0.2.1:15012' }), '');
  assert.equal(textOf('hosts', { ...INPUT, discoveryIp: '' }), '');
  assert.equal(parse(textOf('mesh.yaml', { ...INPUT, trustDomain: 'a.example' })).trustDomain, 'a.example');
});

test('a service account that would add a variable is refused', () => {
  const spec = { template: { serviceAccount: 'web\nLD_PRELOAD=/tmp/x' } };
  assert.throws(() => workloadFiles({ ...INPUT, spec }), { code: 'invalid_argument', message: /is not a valid name/ });
});

test('systemd accepts the units', {
  skip: spawnSync('systemd-analyze', ['--version']).status === 0 ? false : 'systemd-analyze is not installed',
}, async () => {
  const output = join(folder, 'units');
  // The program that the units start is not here; /bin/true is.
  const files = workloadFiles(INPUT).map((file) => ({
    ...file,
    text: file.text.replaceAll(/^(Exec\w+=\+?)node /gm, '$1/bin/true '),
  }));
  await writeFiles(output, files);
  const units = ['ctl-agent.service', 'ctl-agent-redirect.service'].map((name) => join(output, name));
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', ...units], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
});

test('a group is found among other documents, or the error names file and line', async () => {
  const file = join(folder, 'groups.yaml');
  const document = (name: string, spec: string) =>
    `apiVersion: networking.istio.io/v1beta1\nkind: WorkloadGroup\nmetadata: { name: ${name}, namespace: shop }\nspec: ${spec}\n`;
  const service = 'apiVersion: v1\nkind: Service\nmetadata: { name: web }\nspec: {}\n';
  const good = document('web', '{ template: { serviceAccount: web } }');
  writeFileSync(file, [service, good, document('bad', '{}')].join('---\n'));
  assert.deepEqual(await groupInFile(file, 'shop', 'web'), { template: { serviceAccount: 'web' } });
  await assert.rejects(groupInFile(file, 'shop', 'bad'), { location: { file, line: 11, field: 'spec.template' } });
  await assert.rejects(groupInFile(file, 'other', 'web'), /there is no WorkloadGroup other\/web/);
  await assert.rejects(groupInFile(join(folder, 'none'), 'shop', 'web'), /expected a readable file: ENOENT/);
});
