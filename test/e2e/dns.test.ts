/**
 * DNS of workloads whose queries are captured for their agent: clients with the resolvers of glibc and musl, and dig,
 * in network namespaces. A test server replaces the name server of /etc/resolv.conf.
 *
 *   application ─ :53 ─▶ agent ─┬─ names of the mesh: table of ctl-discovery
 *                              └─ all others ─▶ name server
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { streamEncode } from 'dns-packet';
import {
  type DnsServerIn,
  type EchoReply,
  eventually,
  type Namespace,
  netnsUnavailable,
  programFile,
  queryDns,
  startDnsIn,
  startDnsLoad,
  tempDir,
  writeResolvConf,
} from '../harness/index.ts';
import { endpoints, pod, resource, service } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const owner = suiteOwner();

const OUTSIDE = { 'outside.example': ['203.0.113.1', '2001:db8::71'], 'mail.example': ['203.0.113.2'] };
/** Not asked before the name server was away. */
const LATE = ['203.0.113.3'];
/** Too long for UDP. */
const LONG = Array.from({ length: 200 }, (_, index) => `203.0.113.${index + 1}`);
/** A host of a ServiceEntry, which no DNS server knows. Its address exists nowhere: Envoy leads to the endpoint. */
const VENDOR = 'api.vendor.example';
const VENDOR_ADDRESS = '240.1.0.1';
const WEB6 = 'fd00:96::1';

interface World {
  readonly world: IdentityWorld;
  readonly upstream: Namespace;
  readonly server: DnsServerIn;
  readonly client: Workload;
  readonly web: Workload;
  /** Writes the resolv.conf of a workload. */
  readonly prepare: (netns: Namespace) => Promise<void>;
}
const shared = lazy<World>();
const world = (): World => shared.get();

const CAPTURED = { DNS_AGENT: 'true' };

function startUpstream(upstream: Namespace): Promise<DnsServerIn> {
  const names = { ...OUTSIDE, 'long.example': LONG, 'late.example': LATE };
  return startDnsIn(owner, upstream, { label: 'upstream', addresses: [upstream.address, upstream.address6], names });
}

function resolvConf(upstream: Namespace): string {
  const search = ['shop.svc.cluster.local', 'svc.cluster.local', 'cluster.local'].join(' ');
  const servers = `nameserver ${upstream.address}\nnameserver ${upstream.address6}\n`;
  return `search ${search}\n${servers}options ndots:5 timeout:1\n`;
}

before(async () => {
  if (skip !== false) return;
  const started = lazy<{ upstream: Namespace; server: DnsServerIn }>();
  const mesh = await startIdentityWorld(owner, {
    env: CAPTURED,
    async prepare(network, control) {
      const added = await network.addNamespace('dns');
      await writeResolvConf(owner, control, resolvConf(added));
      started.set({ upstream: added, server: await startUpstream(added) });
    },
  });
  const { upstream, server } = started.get();
  const prepare = (netns: Namespace) => writeResolvConf(owner, netns, resolvConf(upstream));
  const web = await mesh.addWorkload({ name: 'web', namespace: 'shop', proxied: true, prepare });
  await mesh.config.apply(
    'names',
    resource(
      'ServiceEntry',
      'vendor',
      {
        hosts: [VENDOR],
        addresses: [VENDOR_ADDRESS],
        location: 'MESH_EXTERNAL',
        resolution: 'STATIC',
        ports: [{ number: 8088, name: 'http', protocol: 'HTTP' }],
        endpoints: [{ address: web.netns.address }],
      },
      'shop',
    ),
    service('web6', { namespace: 'shop', clusterIP: WEB6, ports: [{ name: 'http', port: 80 }] }),
    service('pods', { namespace: 'shop', clusterIP: 'None', ports: [{ name: 'tcp', port: 9000 }] }),
    pod('pods-0', { namespace: 'shop', labels: {}, ip: '198.18.0.200' }),
    endpoints('pods', { 'pods-0': '198.18.0.200', web: web.netns.address }, [{ name: 'tcp', port: 9000 }], 'shop'),
    service('api', { namespace: 'other', clusterIP: '10.96.7.1', ports: [{ name: 'http', port: 80 }] }),
  );
  const client = await mesh.addWorkload({ name: 'client', namespace: 'shop', proxied: true, prepare, env: CAPTURED });
  shared.set({ world: mesh, upstream, server, client, web, prepare });
});

const inClient = (...argv: readonly string[]) => world().client.netns.run(...argv);
const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

/** Whether a program is there; `npm test` installs it where it can. */
function has(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

/** Answers of dig to a query at the first name server. */
async function dig(...words: readonly string[]): Promise<readonly string[]> {
  return lines(await inClient('dig', '+short', '+time=5', '+tries=1', ...words));
}

async function digStatus(...words: readonly string[]): Promise<string> {
  return /status: (\w+)/.exec(await inClient('dig', '+time=9', '+tries=1', ...words))?.[1] ?? '';
}

/** The addresses that the C library finds. */
async function getent(name: string, database = 'ahostsv4'): Promise<readonly string[]> {
  const found = lines(await inClient('getent', database, name)).map((line) => line.split(/\s+/)[0] ?? '');
  return [...new Set(found)].sort();
}

async function curl(url: string): Promise<EchoReply> {
  return JSON.parse(await inClient('curl', '-sS', '--fail', '--max-time', '10', url)) as EchoReply;
}

describe('captured DNS', { skip }, () => {
  const noDig = has('dig') ? false : 'dig is not installed';

  test('dig gets names of the mesh over UDP and TCP, with and without EDNS', { skip: noDig }, async () => {
    const { web, upstream } = world();
    const name = 'web.shop.svc.cluster.local';
    for (const options of [[], ['+tcp'], ['+noedns'], ['+bufsize=512'], [`@${upstream.address6}`]]) {
      assert.deepEqual(await dig(...options, name), [web.serviceAddress], options.join());
    }
    const whole = await inClient('dig', name);
    assert.match(whole, /flags: qr aa rd/);
    assert.match(whole, /^web\.shop\.svc\.cluster\.local\.\s+30\s+IN\s+A\s/m);
    assert.deepEqual(await dig('web6.shop.svc.cluster.local', 'AAAA'), [WEB6]);
    assert.equal(await digStatus(name, 'AAAA'), 'NOERROR');
    assert.deepEqual(await dig(name, 'AAAA'), []);
  });

  test('names outside come from the name server, even when they do not fit into UDP', { skip: noDig }, async () => {
    assert.deepEqual(await dig('outside.example'), OUTSIDE['outside.example'].slice(0, 1));
    assert.deepEqual(await dig('outside.example', 'AAAA'), OUTSIDE['outside.example'].slice(1));
    assert.deepEqual([...(await dig('long.example'))].sort(), [...LONG].sort());
    assert.match(await inClient('dig', '+ignore', '+noedns', 'long.example'), /flags: qr[a-z ]* tc/);
    assert.equal(await digStatus('nothing.example'), 'NXDOMAIN');
  });

  test('the names of a headless service are those of its pods', { skip: noDig }, async () => {
    const pods = ['198.18.0.200', world().web.netns.address].sort();
    assert.deepEqual([...(await dig('pods.shop.svc.cluster.local'))].sort(), pods);
  });

  test('glibc resolves short names, hosts of ServiceEntries and names outside', async () => {
    const { web } = world();
    for (const name of ['web', 'web.shop', 'web.shop.svc', 'web.shop.svc.cluster.local']) {
      assert.deepEqual(await getent(name), [web.serviceAddress], name);
    }
    assert.deepEqual(await getent('api.other'), ['10.96.7.1']);
    assert.deepEqual(await getent(VENDOR), [VENDOR_ADDRESS]);
    assert.deepEqual(await getent('web6', 'ahostsv6'), [WEB6]);
    assert.deepEqual(await getent('outside.example'), ['203.0.113.1']);
    await assert.rejects(getent('nothing.example'), { code: 2 });
  });

  const noMusl = has('musl-gcc') && has('gcc') ? false : 'musl-gcc is not installed';

  test('musl resolves the same', { skip: noMusl }, async () => {
    const folder = await tempDir(owner);
    const source = join(folder, 'getaddrinfo.c');
    await copyFile(join(import.meta.dirname, 'support/getaddrinfo.c'), source);
    const program = join(folder, 'getaddrinfo');
    execFileSync('musl-gcc', ['-static', '-O1', '-o', program, source]);
    const resolved = async (name: string) => lines(await inClient(program, name));
    const { web } = world();
    for (const name of ['web', 'web.shop', 'web.shop.svc.cluster.local']) {
      assert.deepEqual(await resolved(name), [web.serviceAddress], name);
    }
    assert.deepEqual(await resolved('api.other'), ['10.96.7.1']);
    assert.deepEqual(await resolved(VENDOR), [VENDOR_ADDRESS]);
    assert.deepEqual([...(await resolved('outside.example'))].sort(), [...OUTSIDE['outside.example']].sort());
    await assert.rejects(resolved('nothing.example'), { code: 2 });
  });

  test('calls by name go through Envoy to services and to hosts that no DNS server knows', async () => {
    assert.equal((await curl('http://web/')).name, 'web.shop');
    assert.equal((await curl(`http://${VENDOR}:8088/`)).name, 'web.shop');
    assert.ok(
      !world()
        .server.queries()
        .some((query) => query.includes('vendor')),
      'the name server was asked',
    );
  });

  test('queries of a workload without captured DNS go to the name server', { skip: noDig }, async () => {
    const text = await world().web.netns.run('dig', '+time=5', '+tries=1', 'web.shop.svc.cluster.local');
    assert.match(text, /status: NXDOMAIN/);
  });

  test('metrics count queries and names', async () => {
    const text = await inClient('curl', '-sS', 'http://127.0.0.1:15020/stats/prometheus');
    const value = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
    assert.ok(value('dns_requests_total\\{protocol="udp"\\}') > 0);
    assert.ok(value('dns_responses_total\\{code="NOERROR"\\}') > 0);
    assert.ok(value('dns_upstream_requests_total') > 0);
    assert.ok(value('dns_names') >= 5);
  });
});

describe('DNS over TLS', { skip }, () => {
  test('names outside are asked of the control plane, with the certificate of the workload', async () => {
    const { world: mesh, prepare, server } = world();
    // Its names arrive on the stream of its Envoy, which the agent relays.
    const env = { ...CAPTURED, XDS_LOCAL: ':15999', DNS_SERVER: `tcp-tls:${mesh.control.address}:15053` };
    const { netns } = await mesh.addWorkload({ name: 'private', namespace: 'shop', proxied: true, prepare, env });
    const before = server.queries().length;
    const query = { server: world().upstream.address, name: 'mail.example', protocol: 'udp' } as const;
    assert.deepEqual(await queryDns(netns, query), { code: 'NOERROR', addresses: OUTSIDE['mail.example'] });
    assert.deepEqual(await queryDns(netns, { ...query, name: 'web.shop' }), {
      code: 'NOERROR',
      addresses: [world().web.serviceAddress],
    });
    assert.deepEqual(server.queries().slice(before), ['udp mail.example A']);
  });

  test('a caller without a certificate of the mesh gets no answer from the control plane', async () => {
    const { world: mesh, upstream } = world();
    const query = streamEncode({ type: 'query', id: 1, flags: 256, questions: [{ type: 'A', name: 'web.shop' }] });
    const connect = `timeout 30 openssl s_client -quiet -connect ${mesh.control.address}:15053`;
    const text = await upstream.run(
      'sh',
      '-c',
      `(echo ${query.toString('base64')} | base64 -d; sleep 1) | ${connect} 2>&1; true`,
    );
    assert.match(text, /meshd|verify/, 'the handshake');
    assert.ok(!text.includes('\u0003web\u0004shop'), 'there is an answer');
  });

  test('a server without a valid certificate is not asked, and the log says why', async () => {
    const { world: mesh, prepare, upstream } = world();
    const folder = await tempDir(owner);
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const subject = ['-subj', '/CN=dns.example', '-addext', `subjectAltName=IP:${upstream.address}`];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
    const made = [...kind, '-nodes', '-days', '1', '-keyout', key, '-out', certificate];
    execFileSync('openssl', ['req', '-x509', ...made, ...subject], { stdio: 'ignore' });
    const files = ['-key', key, '-cert', certificate];
    const impostor = await upstream.start('impostor', ['openssl', 's_server', '-accept', '853', '-quiet', ...files]);
    const env = { ...CAPTURED, DNS_SERVER: `tcp-tls:${upstream.address}` };
    const workload = await mesh.addWorkload({ name: 'careful', namespace: 'shop', proxied: true, prepare, env });
    const query = { server: upstream.address, name: 'mail.example', protocol: 'udp' } as const;
    assert.equal((await queryDns(workload.netns, query)).code, 'SERVFAIL');
    const web = await queryDns(workload.netns, { ...query, name: 'web.shop.svc.cluster.local' });
    assert.deepEqual(web.addresses, [world().web.serviceAddress]);
    assert.match(workload.agent?.output() ?? '', /warn\t.*over TLS cannot be used: .*self.signed certificate/);
    assert.doesNotMatch(impostor.output(), /mail/);
  });
});

const MANY = 500;

/** Hosts with one address, which is another one in each round. */
function manyHosts(round: number) {
  const hosts = Array.from({ length: MANY }, (_, index) => `h${index}.many.example`);
  const ports = [{ number: 9999, name: 'tcp', protocol: 'TCP' }];
  const spec = { hosts, addresses: [`240.2.0.${round}`], location: 'MESH_EXTERNAL', resolution: 'NONE', ports };
  return resource('ServiceEntry', 'many', spec, 'shop');
}

describe('DNS while something changes or fails', { skip }, () => {
  const WEB = 'web.shop.svc.cluster.local';
  const ask = (name: string, timeoutMs?: number) =>
    queryDns(world().client.netns, { server: world().upstream.address, name, protocol: 'udp', timeoutMs });
  const addressesOf = async (name: string) => (await ask(name)).addresses;
  const codeOf = async (name: string) => (await ask(name)).code;

  test('a name table that changes under queries loses none of them', async () => {
    const { world: mesh, client, upstream } = world();
    await mesh.config.apply('many', manyHosts(1));
    const last = `h${MANY - 1}.many.example`;
    await eventually(async () => assert.deepEqual(await addressesOf(last), ['240.2.0.1']));
    const names = [WEB, 'h0.many.example', 'h7.many.example', last];
    const load = await startDnsLoad(owner, client.netns, { server: upstream.address, names, loops: 8 });
    for (const round of [2, 3, 4]) {
      await load.more(100);
      await mesh.config.apply('many', manyHosts(round));
      await eventually(async () => assert.deepEqual(await addressesOf(last), [`240.2.0.${round}`]));
    }
    await load.more(100);
    assert.deepEqual(load.report().failures, []);
    await load.stop();
    await mesh.config.remove('many');
    await eventually(async () => assert.equal(await codeOf(last), 'NXDOMAIN'));
  });

  test('names of the mesh are answered while the name server is slow or away, and others when it is back', async () => {
    const { server, upstream, web } = world();
    server.signal('SIGSTOP');
    const outside = inClient('dig', '+time=12', '+tries=1', 'slow.example');
    assert.deepEqual(await addressesOf(WEB), [web.serviceAddress]);
    assert.match(await outside, /status: SERVFAIL/);
    await server.kill();
    assert.equal(await codeOf('gone.example'), 'SERVFAIL');
    assert.deepEqual(await addressesOf(WEB), [web.serviceAddress]);
    await startUpstream(upstream);
    await eventually(async () => assert.deepEqual(await addressesOf('late.example'), LATE));
  });

  test('without the control plane the names stay, and an agent that restarts answers the names outside', async () => {
    const { world: mesh, client, web } = world();
    await mesh.stopDiscovery();
    assert.deepEqual(await addressesOf(WEB), [web.serviceAddress]);
    await client.agent?.stop();
    await assert.rejects(ask('outside.example', 1_000), /no answer/);
    const agent = await mesh.startAgent(client, { ...client, proxied: true, env: CAPTURED, waitReady: false });
    // The name server says that the name of the mesh does not exist, and the agent does not know. It says so for 5 s
    // only, so both are asked at once, and again soon where nobody listens yet.
    await eventually(async () => {
      const [late, known] = await Promise.all(['late.example', WEB].map((name) => ask(name, 1_000)));
      assert.deepEqual([late?.addresses, known?.code], [LATE, 'SERVFAIL']);
    });
    assert.equal(await agent.readiness(), 503);
    await mesh.startDiscovery();
    await agent.waitReady(60_000);
    assert.deepEqual(await addressesOf(WEB), [web.serviceAddress]);
  });

  test('a workload with IPv6 alone resolves names', async () => {
    const { world: mesh, upstream } = world();
    const prepare = (netns: Namespace) => writeResolvConf(owner, netns, `nameserver ${upstream.address6}\n`);
    // Its control plane sends one table, as older ones do.
    const env = { ...CAPTURED, MESH_META_NAME_TABLE_PIECES: 'false' };
    const options = { name: 'six', namespace: 'shop', proxied: true, ipv6Only: true, prepare, env };
    const { netns } = await mesh.addWorkload(options);
    for (const protocol of ['udp', 'tcp'] as const) {
      const query = { server: upstream.address6, protocol };
      assert.deepEqual((await queryDns(netns, { ...query, name: 'web6.shop' })).addresses, [WEB6]);
      const outside = await queryDns(netns, { ...query, name: 'outside.example' });
      assert.deepEqual(outside.addresses, OUTSIDE['outside.example'].slice(1));
    }
  });

  test('an invalid variable ends the program with one line', () => {
    const run = (
      variables: Readonly<Record<string, string>>,
      program: 'ctl-agent' | 'ctl-discovery',
      command: string[],
    ) =>
      spawnSync(process.execPath, [programFile(program), ...command], {
        env: { ...process.env, INSTANCE_IP: '192.0.2.1', ...variables },
        encoding: 'utf8',
      });
    const agent = run({ DNS_ADDR: '15053' }, 'ctl-agent', ['proxy', 'sidecar']);
    const address = 'invalid value "15053" of variable DNS_ADDR: not an address like :8080 or 127.0.0.1:8080';
    assert.deepEqual([agent.status, agent.stderr], [1, `ctl-agent: ${address}\n`]);
    const other = run({ DNS_AGENT: 'true', DNS_SERVER: 'udp:192.0.2.1' }, 'ctl-agent', ['proxy', 'sidecar']);
    const server = 'invalid value "udp:192.0.2.1" of variable DNS_SERVER: ';
    assert.equal(other.status, 1);
    assert.match(other.stderr, new RegExp(`^ctl-agent: ${server}[^\\n]*tcp-tls:HOST:PORT\\n$`));
  });
});
