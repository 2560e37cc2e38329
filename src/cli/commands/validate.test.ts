import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { validateRequest } from '../../webhooks/validation/index.ts';
import { runDiscoveryCommand } from '../testing/fake-pages.ts';

const GOOD = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: web, namespace: shop }
spec:
  hosts: [web]
  http:
    - route: [{ destination: { host: web } }]
`;
const BAD = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: web, namespace: shop }
spec:
  hosts: [web]
  http:
    - timeout: soon
      route: [{ destination: { host: web } }]
`;

describe('validate', () => {
  let dir = '';
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'validate-'));
  });
  after(() => rm(dir, { recursive: true }));
  async function validate(text: string, ...args: readonly string[]) {
    const file = join(dir, 'mesh.yaml');
    await writeFile(file, text);
    const { code, stdout, stderr } = await runDiscoveryCommand(['validate', file, ...args]);
    return { code, stderr, stdout: stdout.replaceAll(`${dir}/`, '') };
  }

  test('good documents, and those of other kinds, are a success', async () => {
    assert.deepEqual(
      await validate(`${GOOD}---\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: { name: a }\n`),
      {
        code: 0,
        stderr: '',
        stdout: '1 documents checked, 1 of other kinds\n',
      },
    );
  });

  test('a mistake is named with file, line and field, as by the webhook, and makes it fail', async () => {
    const { code, stdout } = await validate(`${GOOD}---\n${BAD}`);
    assert.equal(code, 1);
    const [line = ''] = stdout.split('\n');
    assert.match(line, /^mesh\.yaml:15: error: VirtualService\/shop\/web: spec\.http\[0\]\.timeout: /);
    const { parse } = await import('yaml');
    const review = { operation: 'CREATE', subResource: '', namespace: 'shop', name: 'web' };
    const kind = { group: 'networking.istio.io', version: 'v1', kind: 'VirtualService' };
    const answer = validateRequest({ ...review, kind, object: parse(BAD) } as never);
    const message = line.replace(/^.*spec\.http/, 'spec.http');
    assert.ok(answer.refusal?.message.includes(message), JSON.stringify(answer));
  });

  test('YAML that cannot be read is a mistake of its document alone', async () => {
    const { code, stdout } = await validate(`${GOOD}---\na: [\n---\n${GOOD}`);
    assert.equal(code, 1);
    assert.match(stdout, /^mesh\.yaml:\d+: error: expected YAML: /);
    assert.match(stdout, /documents checked/);
  });

  test('findings as JSON', async () => {
    const { code, stdout } = await validate(BAD, '-o', 'json');
    const { findings, checked } = JSON.parse(stdout) as {
      findings: { level: string; line: number }[];
      checked: number;
    };
    assert.deepEqual([code, checked, findings.map(({ level, line }) => [level, line])], [1, 1, [['error', 7]]]);
  });

  test('needs a readable file', async () => {
    assert.match((await runDiscoveryCommand(['validate'])).stderr, /<file>\.\.\. is missing/);
    const { code, stderr } = await runDiscoveryCommand(['validate', '/nosuch']);
    assert.deepEqual([code, stderr], [1, 'ctl-discovery: /nosuch: expected a readable file: ENOENT\n']);
  });
});
