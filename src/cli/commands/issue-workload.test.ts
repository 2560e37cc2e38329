import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { discoveryProgram } from '../discovery.ts';
import { runProgram } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-issue-'));
after(() => rmSync(folder, { recursive: true }));

const [group, root, output] = ['group.yaml', 'root.pem', 'vm'].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
const GROUP = `apiVersion: networking.mesh.io/v1alpha3
kind: WorkloadGroup
metadata: { name: web, namespace: shop }
spec: { template: { serviceAccount: web } }
`;

async function issue(changes: Readonly<Record<string, string | undefined>> = {}, ...more: string[]) {
  writeFileSync(group, GROUP);
  const given = {
    file: group,
    namespace: 'shop',
    group: 'web',
    'issuer-dir': join(folder, 'issuer'),
    'root-cert': root,
    'discovery-address': 'meshd.example:15012',
    output,
    ...changes,
  };
  const args = Object.entries(given).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]));
  let stderr = '';
  const io = { stdout: { write: () => {} }, stderr: { write: (text: string) => (stderr += text) }, env: {} };
  const code = await runProgram(discoveryProgram(), ['issue-workload', ...args, ...more], io);
  return { code, stderr };
}

test('a mistake is one line that names what was expected, and exit code 1', async () => {
  writeFileSync(root, 'no certificate');
  const rows: readonly (readonly [changes: Readonly<Record<string, string | undefined>>, line: RegExp])[] = [
    [{ group: undefined }, /needs --group/],
    [{ output: undefined }, /needs --output/],
    [{ file: undefined }, /needs --file \(or --kubeconfig\)/],
    [{ 'discovery-address': 'meshd.example' }, /--discovery-address: expected host:port, got "meshd\.example"/],
    [{ address: 'vm1' }, /--address: expected an IP address, got "vm1"/],
    [{ group: 'api' }, /there is no WorkloadGroup shop\/api/],
    [{}, /root\.pem: .*expected certificates in PEM form/],
  ];
  for (const [changes, line] of rows) {
    const { code, stderr } = await issue(changes);
    assert.equal(code, 1, stderr);
    assert.match(stderr, line);
    assert.doesNotMatch(stderr, /\n +at /);
  }
});

test('the token is for the service account of the group, and DNS only where it is asked for', async () => {
  writeFileSync(root, '-----BEGIN CERTIFICATE-----\n');
  assert.deepEqual(await issue(), { code: 0, stderr: '' });
  const [, payload = ''] = readFileSync(join(output, 'token'), 'utf8').split('.');
  const { sub, aud } = JSON.parse(Buffer.from(payload, 'base64url').toString());
  assert.deepEqual([sub, aud], ['system:serviceaccount:shop:web', 'mesh-ca']);
  assert.doesNotMatch(readFileSync(join(output, 'cluster.env'), 'utf8'), /DNS/);
  assert.equal((await issue({}, '--dns')).code, 0);
  assert.match(readFileSync(join(output, 'cluster.env'), 'utf8'), /^DNS_AGENT=true$/m);
});
