import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { discoveryProgram } from '../discovery.ts';
import { runProgram } from '../program.ts';

const ROUTE = `apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: cart, namespace: shop }
spec: { hosts: [cart], http: [{ route: [{ destination: { host: kart } }] }] }
`;
const LIST = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: { name: shop }
- apiVersion: v1
  kind: Pod
  metadata: { name: cart-1, namespace: shop, annotations: { sidecar.istio.io/logLevell: debug } }
  spec: { containers: [{ name: cart }] }
`;

describe('analyze', () => {
  const folder = mkdtempSync(join(tmpdir(), 'analyze-'));
  after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'route.yaml'), `# A comment\n---\n${ROUTE}`);
  writeFileSync(join(folder, 'list.yaml'), LIST);

  async function analyze(...args: readonly string[]) {
    const out: Record<'stdout' | 'stderr', string> = { stdout: '', stderr: '' };
    const to = (name: keyof typeof out) => ({ write: (text: string) => (out[name] += text) });
    const io = { stdout: to('stdout'), stderr: to('stderr'), env: {} };
    const code = await runProgram(discoveryProgram(), ['analyze', ...args], io);
    return { code, ...out };
  }

  test('a directory: one line for each finding with its place, the most severe first; errors give exit code 2', async () => {
    const { code, stdout, stderr } = await analyze(folder);
    assert.deepEqual([code, stderr], [2, '']);
    const lines = stdout.trim().split('\n');
    const place = `${folder}/route.yaml:3`;
    assert.equal(
      lines[0],
      `Error [IST0101] (VirtualService shop/cart ${place}) ${'http[0].route[0]: no service kart is visible in namespace shop'}`,
    );
    assert.deepEqual(
      lines.map((line) => line.slice(0, line.indexOf(']') + 1)),
      ['Error [IST0101]', 'Warning [IST0108]', 'Info [IST0102]'],
    );
    assert.ok(lines[1]?.includes(`(Pod shop/cart-1 ${folder}/list.yaml:7)`), lines[1]);
  });

  test('JSON and YAML have all fields; the threshold and the namespace decide what counts', async () => {
    const file = join(folder, 'list.yaml');
    const { code, stdout } = await analyze('-f', file, '-o', 'json', '--failure-threshold', 'Error');
    assert.equal(code, 0);
    const { findings } = JSON.parse(stdout);
    assert.deepEqual(findings[1], {
      code: 'IST0102',
      level: 'Info',
      name: 'NamespaceNotInjected',
      message: 'Pods of the namespace get no sidecar; label it mesh-injection=enabled, or =disabled if that is meant',
      resource: { kind: 'Namespace', namespace: '', name: 'shop' },
      origin: `${file}:4`,
      documentation: 'docs/reference/messages.md#ist0102-namespacenotinjected',
    });
    assert.equal((await analyze('-f', file, '--failure-threshold', 'Info')).code, 2);
    const { stdout: yaml } = await analyze('-f', file, '-o', 'yaml', '-n', 'shop', '--failure-threshold', 'None');
    assert.match(yaml, /code: IST0108/);
    assert.doesNotMatch(yaml, /IST0102/);
  });

  test('without files, the findings of a discovery service are shown', async () => {
    const finding = {
      code: 'IST0106',
      level: 'Error',
      name: 'x',
      message: 'refused',
      origin: 'a.yaml:1',
      documentation: '',
    };
    const server = createServer((request, response) => {
      const body = { findings: [{ ...finding, resource: { kind: 'Gateway', namespace: 'a', name: 'b' } }], omitted: 3 };
      response.end(request.url === '/debug/analysisz' ? JSON.stringify(body) : '{}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => server.close());
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    assert.deepEqual(await analyze('--httpAddr', address), {
      code: 2,
      stdout: 'Error [IST0106] (Gateway a/b a.yaml:1) refused\n',
      stderr: '3 more findings are not shown\n',
    });
  });

  test('a path that cannot be read is one line', async () => {
    const { code, stdout, stderr } = await analyze(join(folder, 'missing'));
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /missing: expected a readable file or directory: ENOENT\n$/);
  });
});
