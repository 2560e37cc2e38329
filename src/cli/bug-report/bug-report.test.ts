import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { bugReportCommand } from '../commands/bug-report.ts';
import { runProgram } from '../program.ts';
import type { ReportLimits } from './collect.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-report-'));
after(() => rmSync(folder, { recursive: true }));

const LIMITS: ReportLimits = { partBytes: 10_000, totalBytes: 30_000, partMs: 300, totalMs: 60_000 };

/** The files of an archive, with their contents. */
function unpacked(archive: string): ReadonlyMap<string, string> {
  const tar = gunzipSync(readFileSync(archive));
  const files = new Map<string, string>();
  for (let at = 0; tar[at] !== 0; ) {
    const text = (from: number, length: number): string =>
      tar.toString('latin1', at + from, at + from + length).replace(/\0.*$/s, '');
    const size = Number.parseInt(text(124, 12), 8);
    files.set(text(0, 100), tar.toString('utf8', at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

/** Runs the command against a stand-in for the service. */
async function report(
  answer: (path: string, response: ServerResponse) => void,
  { limits = LIMITS, env = {}, host = '127.0.0.1' } = {},
) {
  const asked: string[] = [];
  const withToken: string[] = [];
  const server = createServer(({ url = '', headers }, response) => {
    asked.push(url);
    if (headers.authorization !== undefined) withToken.push(url);
    answer(url, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const archive = join(mkdtempSync(join(folder, 'r-')), 'report.tar.gz');
  const out = { stdout: '', stderr: '' };
  const to = (name: keyof typeof out) => ({ write: (text: string) => (out[name] += text) });
  const program = {
    name: 'ctl-discovery',
    summary: '',
    flags: {},
    commands: [bugReportCommand(limits)],
  } as const;
  const address = `127.0.0.1:${port}`;
  const addresses = ['--httpAddr', `${host}:${port}`, '--monitoringAddr', address];
  const flags = ['--archive', archive, ...addresses, '--profileSeconds', '1'];
  const introspection = ['--introspect_address', host, '--introspect_port', String(port)];
  const args = ['bug-report', ...flags, ...introspection, 'web.shop'];
  const code = await runProgram(program, args, { stdout: to('stdout'), stderr: to('stderr'), env });
  server.closeAllConnections();
  server.close();
  return { code, ...out, files: unpacked(archive), asked, withToken };
}

test('a stand-in service without some parts: the report names them, and has all others', async () => {
  const { code, stderr, files, asked } = await report((path, response) => {
    if (path === '/debug/syncz') return void response.writeHead(403).end('not\nfor you\u001b[2J\n');
    // Never ends.
    if (path === '/debug/configz') return void response.write('{');
    if (path === '/debug/registryz') return void response.end(`"${'x'.repeat(20_000)}"`);
    if (path === '/debug/mesh') return void response.end('no JSON');
    if (path.startsWith('/debug/pprof')) return void response.writeHead(404).end('no profiles');
    return void response.end('{"events":[]}');
  });
  assert.equal(code, 0);
  const expected = [
    'configuration/documents.json: no response within 300 ms',
    'configuration/mesh.json: Unexpected token',
    'configuration/services.json: longer than 10000 bytes',
    'profiles/heap.pprof: HTTP 404: no profiles',
    'profiles/profile.pprof: HTTP 404: no profiles',
    'status/sync.json: HTTP 403: not for you',
  ];
  const lines = stderr.trimEnd().split('\n').sort();
  assert.equal(lines.length, expected.length, stderr);
  for (const [index, line] of lines.entries()) assert.ok(line.startsWith(`missing: ${expected[index]}`), line);
  assert.ok(files.has('metrics.txt'));
  assert.ok(asked.includes('/debug/config_dump?proxyID=web.shop'));
  assert.ok(files.has('proxies/web.shop.json'));
  const { parts } = JSON.parse(files.get('manifest.json') ?? '') as { parts: { file: string; missing?: string }[] };
  const reason = parts.find(({ file }) => file === 'status/sync.json')?.missing;
  assert.match(reason ?? '', /^HTTP 403: not for you/);
});

test('a stand-in service with large parts: the report ends when it is full', async () => {
  const { stderr, files } = await report((_path, response) => void response.end(JSON.stringify('x'.repeat(9000))));
  assert.match(stderr, /the archive is full/);
  const bytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  assert.ok(bytes < 40_000, `${bytes} bytes`);
});

test('a stand-in service that is slow: the report ends in time', async () => {
  const limits = { ...LIMITS, totalMs: 500 };
  const { code, stderr, asked, files } = await report(() => {}, { limits });
  assert.match(stderr, /no time is left/);
  assert.ok(asked.length < 5, asked.join());
  assert.equal(code, 1);
  assert.match(stderr, /is empty: is 127\.0\.0\.1:\d+ a discovery service\?\n$/);
  assert.ok(files.has('manifest.json'));
});

test('the token is sent to this machine, except to the metrics, and nowhere else without TLS', async () => {
  const token = join(folder, 'token');
  writeFileSync(token, 'S3cret\n');
  const env = { CTL_DEBUG_TOKEN_FILE: token };
  const here = await report((_path, response) => void response.end('{"events":[]}'), { env });
  for (const path of ['/metrics', '/debug/syncz', '/procj']) assert.ok(here.asked.includes(path), path);
  for (const path of ['/debug/syncz', '/procj']) assert.ok(here.withToken.includes(path), path);
  assert.ok(!here.withToken.includes('/metrics'));
  // An address for documentation (RFC 5737): nothing is sent to it.
  const elsewhere = await report((_path, response) => void response.end('{}'), { env, host: '192.0.2.1' });
  assert.deepEqual(elsewhere.asked, ['/metrics']);
  for (const file of ['status/sync.json', 'process/procj.json']) {
    const line = `^missing: ${file}: the token of CTL_DEBUG_TOKEN_FILE is not sent to 192.0.2.1:\\d+ without TLS`;
    assert.match(elsewhere.stderr, new RegExp(line, 'm'));
  }
});
