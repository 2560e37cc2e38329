import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { discoveryProgram } from '../discovery.ts';
import { runProgram } from '../program.ts';

const POD = `apiVersion: v1
kind: Pod
metadata: { name: web }
spec:
  containers:
  - { name: app, image: app }
`;

describe('inject', () => {
  const folder = mkdtempSync(join(tmpdir(), 'inject-'));
  after(() => rmSync(folder, { recursive: true }));

  function file(name: string, text: string): string {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  }

  async function inject(...args: readonly string[]) {
    const out: Record<'stdout' | 'stderr', string> = { stdout: '', stderr: '' };
    const to = (name: keyof typeof out) => ({ write: (text: string) => (out[name] += text) });
    const io = { stdout: to('stdout'), stderr: to('stderr'), env: {} };
    const code = await runProgram(discoveryProgram(), ['inject', ...args], io);
    return { code, ...out };
  }

  test('configuration, values, mesh configuration and revision come from files and flags', async () => {
    const config = file(
      'config.yaml',
      'templates: { mine: "metadata: { annotations: { mine: {{ values.color }} } }" }\ndefaultTemplates: [sidecar, mine]\n',
    );
    const values = file(
      'values.yaml',
      'color: blue\nglobal: { hub: registry.example, tag: "2.0", proxy: { image: agent } }\n',
    );
    const mesh = file('mesh.yaml', 'defaultConfig: { concurrency: 3 }\n');
    const output = join(folder, 'out.yaml');
    const flags = ['--injectConfigFile', config, '--valuesFile', values, '--meshConfigFile', mesh];
    const result = await inject('-f', file('pod.yaml', POD), ...flags, '--revision', 'canary', '-o', output);
    assert.deepEqual(result, { code: 0, stdout: '', stderr: '' });
    const text = readFileSync(output, 'utf8');
    for (const part of ['mine: blue', 'image: registry.example/agent:2.0', '"concurrency":3', 'mesh.io/rev: canary']) {
      assert.ok(text.includes(part), part);
    }
    assert.ok(text.includes('"discoveryAddress":"meshd-canary.mesh-system.svc:15012"'));
  });

  test('reads the standard input', () => {
    const program = join(import.meta.dirname, '../../ctl-discovery.ts');
    const { status, stdout } = spawnSync(process.execPath, [program, 'inject', '-f', '-'], {
      input: POD,
      encoding: 'utf8',
    });
    assert.equal(status, 0);
    assert.ok(stdout.startsWith('apiVersion: v1\nkind: Pod\n') && stdout.includes('name: mesh-proxy'));
  });

  test('several files are written one after the other', async () => {
    const service = file('service.yaml', 'kind: Service');
    const { code, stdout, stderr } = await inject('-f', service, '-f', file('pod.yaml', POD));
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok(stdout.startsWith('kind: Service\n---\napiVersion: v1\nkind: Pod\n'), stdout.slice(0, 80));
    assert.ok(stdout.includes('name: mesh-proxy'));
  });

  test('says why a Pod is not injected', async () => {
    const path = file('host.yaml', POD.replace('spec:\n', 'spec:\n  hostNetwork: true\n'));
    const { code, stdout, stderr } = await inject('-f', path);
    assert.equal(code, 0);
    assert.equal(stdout, readFileSync(path, 'utf8'));
    assert.match(stderr, /host\.yaml:1: Pod web: not injected: spec\.hostNetwork: .*\n$/);
  });

  test('a mistake is one line with file, line and field, and nothing is written', async () => {
    const pod = file('pod.yaml', POD);
    const cases: readonly (readonly [line: RegExp, ...args: string[]])[] = [
      [/inject needs --file/],
      [/missing\.yaml: expected a readable file: ENOENT/, '-f', join(folder, 'missing.yaml')],
      [/bytes\.yaml: expected UTF-8/, '-f', join(folder, 'bytes.yaml')],
      [/c1\.yaml:2: polic: unknown field/, '-f', pod, '--injectConfigFile', file('c1.yaml', '# c\npolic: enabled\n')],
      [
        /v1\.yaml:1: global\.proxy\.logLevl: unknown field, did you mean logLevel\?/,
        '-f',
        pod,
        '--valuesFile',
        file('v1.yaml', 'global: { proxy: { logLevl: debug } }\n'),
      ],
      [
        /m1\.yaml:1: defaultConfig\.concurrency: expected/,
        '-f',
        pod,
        '--meshConfigFile',
        file('m1.yaml', 'defaultConfig: { concurrency: many }\n'),
      ],
      [
        /c2\.yaml: templates\.t: line 2: tag "include" not found/,
        '-f',
        pod,
        '--injectConfigFile',
        file('c2.yaml', 'templates:\n  t: |\n    a: b\n    {% include "x" %}\n'),
      ],
    ];
    writeFileSync(join(folder, 'bytes.yaml'), Buffer.from([0x61, 0xff, 0x0a]));
    for (const [line, ...args] of cases) {
      const { code, stdout, stderr } = await inject(...args);
      assert.equal(code, 1, String(line));
      assert.equal(stdout, '');
      assert.match(stderr, line);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
    }
  });
});
