import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../test/harness/eventually.ts';
import { recordingLog } from '../testing/clients.ts';
import { followResolvConf, parseResolvConf } from './resolv-conf.ts';

test('servers, search domains and options', () => {
  const { conf, problems } = parseResolvConf(`
# a comment
; another
nameserver 10.0.0.10
nameserver fe80::1%eth0   # the C library ignores what follows
domain example.net
search Shop.svc.cluster.local. svc.cluster.local
options ndots:5 timeout:3 attempts:4
options rotate use-vc unknown
sortlist 130.155.160.0
`);
  assert.deepEqual(problems, []);
  assert.deepEqual(conf, {
    servers: ['10.0.0.10', 'fe80::1%eth0'],
    search: ['shop.svc.cluster.local', 'svc.cluster.local'],
    timeoutMs: 3000,
    attempts: 4,
    rotate: true,
    tcp: true,
  });
});

test('numbers out of range are limited as in the C library', () => {
  const { conf } = parseResolvConf('nameserver ::1\noptions timeout:999 attempts:999');
  assert.deepEqual([conf.timeoutMs, conf.attempts], [30_000, 5]);
  const { conf: invalid } = parseResolvConf('nameserver ::1\noptions timeout:x attempts:');
  assert.deepEqual([invalid.timeoutMs, invalid.attempts], [2000, 2]);
});

test('a server that is not an address is ignored and reported with its line', () => {
  const { conf, problems } = parseResolvConf('nameserver dns.example.com\nnameserver 10.0.0.10\nnameserver');
  assert.deepEqual(conf.servers, ['10.0.0.10']);
  assert.deepEqual(problems, [
    '1: nameserver dns.example.com: expected an IP address',
    '3: nameserver : expected an IP address',
  ]);
});

async function follow(t: TestContext, text: string | undefined) {
  const folder = await mkdtemp(join(tmpdir(), 'resolv-conf-'));
  const path = join(folder, 'resolv.conf');
  const write = async (content: string) => {
    await writeFile(`${path}.new`, content);
    await rename(`${path}.new`, path);
  };
  if (text !== undefined) await write(text);
  const log = recordingLog();
  const source = await followResolvConf({ path, log, intervalMs: 20 });
  t.after(async () => {
    source.close();
    await rm(folder, { recursive: true });
  });
  const warnings = () => log.lines.filter((line) => line.startsWith('warn'));
  return { path, source, write, warnings };
}

test('a file that is replaced is read again', async (t) => {
  const { source, write } = await follow(t, 'nameserver 10.0.0.1\n');
  assert.deepEqual(source.current().servers, ['10.0.0.1']);
  await write('nameserver 10.0.0.2\nsearch example.com\n');
  await eventually(() => assert.deepEqual(source.current().servers, ['10.0.0.2']));
  assert.deepEqual(source.current().search, ['example.com']);
});

test('a file without servers, or that is missing, changes nothing and is logged once', async (t) => {
  const { source, write, warnings, path } = await follow(t, 'nameserver 10.0.0.1\n');
  await write('search example.com\n');
  await source.reload();
  await source.reload();
  assert.deepEqual(source.current().servers, ['10.0.0.1']);
  assert.deepEqual(warnings(), [`warn: ${path}: no nameserver; its last good content is used`]);
  await rm(path);
  await source.reload();
  assert.deepEqual(source.current().servers, ['10.0.0.1']);
  assert.match(warnings()[1] ?? '', /cannot be read: ENOENT.*its last good content is used/);
});

test('a file that is missing at startup is used as soon as it exists', async (t) => {
  const { source, write, warnings } = await follow(t, undefined);
  assert.match(warnings()[0] ?? '', /only names of the mesh are resolved/);
  await write('nameserver 10.0.0.1\n');
  await eventually(() => assert.deepEqual(source.current().servers, ['10.0.0.1']));
});
