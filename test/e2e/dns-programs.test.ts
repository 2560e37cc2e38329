/** The DNS server between programs that others wrote: dig as its client, dnsmasq as its upstream server. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { certificateSet, testRoot } from '../../src/agent/identity/testing/certificates.ts';
import {
  createForwarder,
  createNameTable,
  createTableResolver,
  type DnsResolver,
  type DnsServer,
  type Forwarder,
  resolvConfUpstream,
  startDnsServer,
} from '../../src/dns/index.ts';
import { startChild } from '../harness/child.ts';
import { eventually } from '../harness/eventually.ts';
import { freePort, tempDir } from '../harness/files.ts';
import { createScope } from '../harness/owner.ts';

const found = (program: string) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));
const missing = ['dig', 'dnsmasq'].filter((program) => !found(program));
const options = missing.length === 0 ? {} : { skip: `${missing.join(' and ')} not installed` };

const scope = createScope();
const TLS_NAME = 'dns.example.com';
const log = { debug() {}, info() {}, warn() {}, error: console.error };

let [server, tls, roots]: [DnsServer | undefined, DnsServer | undefined, string] = [undefined, undefined, ''];
let forwarder: Forwarder | undefined;

async function startDnsmasq(): Promise<number> {
  // It listens over UDP and TCP, and cannot choose a port.
  const port = await freePort();
  const hosts = join(await tempDir(scope), 'hosts');
  const many = Array.from({ length: 200 }, (_, index) => `10.9.0.${index + 1} many.example.com`);
  await writeFile(hosts, ['192.0.2.10 www.example.com', '2001:db8::10 www.example.com', ...many, ''].join('\n'));
  const args = [
    ...[
      '--no-daemon',
      '--no-resolv',
      '--no-hosts',
      `--port=${port}`,
      '--listen-address=127.0.0.1',
      '--bind-interfaces',
    ],
    ...[`--addn-hosts=${hosts}`, '--local=/example.com/example.org/', '--local-ttl=60', '--log-queries', '--user=root'],
    ...['--txt-record=text.example.com,first,second', '--srv-host=_http._tcp.example.com,www.example.com,80,1,2'],
    ...['--mx-host=example.com,mail.example.com,5', '--cname=alias.example.com,www.example.com'],
    '--pid-file=',
  ];
  const child = await startChild(scope, { name: 'dnsmasq', command: 'dnsmasq', args });
  await eventually(() => {
    child.assertRunning();
    assert.match(child.output(), /read .*hosts/);
  });
  return port;
}

before(async () => {
  if (missing.length > 0) return;
  const port = await startDnsmasq();
  const conf = { servers: ['127.0.0.1'], search: [], timeoutMs: 5000, attempts: 2, rotate: false, tcp: false };
  const upstream = resolvConfUpstream({ conf: { current: () => conf }, port, isOwn: () => false, log });
  forwarder = createForwarder({ upstream, log });
  const table = createNameTable([
    ['web.shop.svc.cluster.local', { ips: ['10.0.0.1', 'fd00::1'] }],
    ['example.com', { ips: ['240.240.0.1'] }],
    ['only.example.org', { ips: ['240.240.0.2'] }],
    ['pods.shop.svc.cluster.local', { ips: Array.from({ length: 150 }, (_, index) => `10.1.0.${index + 1}`) }],
  ]);
  const names = { table, namespace: 'shop', domain: 'svc.cluster.local', search: 'shop.svc.cluster.local' };
  const resolvers: DnsResolver[] = [createTableResolver({ scope: () => names }), forwarder];
  server = await startDnsServer({ listen: [{ host: '127.0.0.1', port: 0 }], clients: 'local', resolvers, log });
  const root = testRoot('mesh');
  const { key, leaf } = certificateSet(root, TLS_NAME);
  roots = join(await tempDir(scope), 'roots.pem');
  await writeFile(roots, root.pem);
  tls = await startDnsServer({
    listen: [
      { host: '127.0.0.1', port: 0, tls: { context: () => ({ key, cert: leaf }), onRenew: () => () => undefined } },
    ],
    clients: 'any',
    resolvers,
    log,
  });
});

after(async () => {
  await server?.close();
  await tls?.close();
  forwarder?.close();
  await scope.close();
});

async function dig(...args: readonly string[]): Promise<string> {
  const to = args.some((arg) => arg.startsWith('+tls')) ? tls : server;
  const port = to?.addresses[0]?.split(':')[1] ?? '';
  const { stdout } = await promisify(execFile)('dig', ['@127.0.0.1', '-p', port, '+time=10', '+tries=1', ...args]);
  return stdout.trim();
}

const short = async (...args: readonly string[]) => (await dig('+short', ...args)).split('\n').sort();

test('dig reads names of the mesh', options, async () => {
  assert.deepEqual(await short('web.shop.svc.cluster.local'), ['10.0.0.1']);
  assert.deepEqual(await short('WEB.shop', 'AAAA'), ['fd00::1']);
  assert.deepEqual(await short('example.com.shop.svc.cluster.local'), ['240.240.0.1', 'example.com.']);
  assert.match(await dig('web.shop.svc.cluster.local', 'TXT'), /status: NOERROR(.|\n)*flags: qr aa rd ra;.*ANSWER: 0/);
  assert.match(await dig('web.shop.svc.cluster.local', 'HTTPS'), /status: NOERROR(.|\n)*ANSWER: 0/);
  assert.equal((await short('web.shop.svc.cluster.local', 'ANY')).length, 2);
});

test('dig reads long responses over UDP, after truncation over TCP, and over TLS', options, async () => {
  const name = 'pods.shop.svc.cluster.local';
  for (const how of ['+bufsize=4096', '+noedns', '+tcp', '+keepopen'])
    assert.equal((await short(how, name)).length, 150, how);
  assert.match(await dig('+noedns', '+ignore', name), /flags: qr aa tc rd ra;.*ANSWER: \d\d,/);
  assert.equal((await short('+tls', `+tls-ca=${roots}`, `+tls-hostname=${TLS_NAME}`, name)).length, 150);
  assert.equal((await short('+tls', name, 'www.example.com')).length, 151);
});

test('dig understands what is refused', options, async () => {
  assert.match(await dig('+opcode=UPDATE', 'a.b'), /status: NOTIMP/);
  assert.match(await dig('CH', 'TXT', 'version.bind'), /status: REFUSED/);
  assert.match(await dig('+edns=1', '+noednsneg', 'a.b'), /status: BADVERS/);
  assert.match(await dig('+cookie', '+nsid', '+subnet=192.0.2.0/24', 'web.shop'), /status: NOERROR(.|\n)*ANSWER: 1/);
});

test('records of any type come from dnsmasq, and from the cache', options, async () => {
  for (let count = 0; count < 2; count++) {
    assert.deepEqual(await short('www.example.com'), ['192.0.2.10']);
    assert.deepEqual(await short('www.example.com', 'AAAA'), ['2001:db8::10']);
    assert.deepEqual(await short('alias.example.com'), ['192.0.2.10', 'www.example.com.']);
    assert.deepEqual(await short('text.example.com', 'TXT'), ['"first" "second"']);
    assert.deepEqual(await short('_http._tcp.example.com', 'SRV'), ['1 2 80 www.example.com.']);
    assert.deepEqual(await short('-x', '192.0.2.10'), ['www.example.com.']);
    assert.match(await dig('none.example.com'), /status: NXDOMAIN/);
  }
  assert.ok((forwarder?.stats.cacheHits ?? 0) >= 6, 'the second round is from the cache');
});

test('dnsmasq truncates a long response, and it is read over TCP', options, async () => {
  assert.equal((await short('+noedns', 'many.example.com')).length, 200);
});

test('a host of the mesh outside its domain keeps its other records', options, async () => {
  assert.deepEqual(await short('example.com'), ['240.240.0.1']);
  assert.deepEqual(await short('example.com', 'MX'), ['5 mail.example.com.']);
  assert.match(await dig('none.example.org', 'TXT'), /status: NXDOMAIN/);
  // dnsmasq answers NXDOMAIN; as a host of the mesh the name exists.
  assert.match(await dig('only.example.org', 'TXT'), /status: NOERROR(.|\n)*ANSWER: 0/);
});
