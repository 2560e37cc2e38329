/**
 * Captured DNS in network namespaces: what the rules of `ctl-agent mesh-iptables` do with queries to the name servers
 * of resolv.conf, with iptables-nft and iptables-legacy. A server as the proxy's user answers in place of the agent.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { before, describe, test } from 'node:test';
import {
  createNetwork,
  type DnsServerIn,
  type Namespace,
  netnsUnavailable,
  programFile,
  queryDns,
  startDnsIn,
  tempDir,
  writeResolvConf,
} from '../harness/index.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const unavailable = await netnsUnavailable();
const PROXY_UID = 1337;
const AGENT_PORT = 15053;
const ENVOY_PORT = 15013;
const NAME = 'who.example';
/** A resolver on the workload's machine, such as systemd-resolved. */
const STUB = '127.0.0.53';

const owner = suiteOwner();

/** What answers: the name has another address at each server. */
const ADDRESSES = {
  server: ['192.0.2.1', '2001:db8::1'],
  other: ['192.0.2.2', '2001:db8::2'],
  stub: ['192.0.2.3'],
  agent: ['192.0.2.4', '2001:db8::4'],
  envoy: ['192.0.2.5', '2001:db8::5'],
} as const;
type Answering = keyof typeof ADDRESSES;

function whoIs(addresses: readonly string[]): Answering {
  const names = Object.keys(ADDRESSES) as Answering[];
  const found = names.find((name) => ADDRESSES[name].some((address) => address === addresses[0]));
  assert.ok(found !== undefined, `nobody has ${addresses.join(', ')}`);
  return found;
}

interface World {
  readonly workload: Namespace;
  readonly plain: Namespace;
  readonly server: Namespace;
  readonly other: Namespace;
  readonly upstream: DnsServerIn;
  readonly agent: DnsServerIn;
  /** Runs ctl-agent in a namespace with the iptables of the variant and these variables. */
  run(variables: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<string>;
  /** Everything that redirection may change. */
  snapshot(): Promise<string>;
}

/** Programs that `mesh-iptables` calls, as links to those of a variant. */
async function iptablesOf(variant: string): Promise<string> {
  const folder = await tempDir(owner);
  for (const program of ['iptables', 'ip6tables']) {
    for (const suffix of ['', '-save', '-restore']) {
      const target = execFileSync('sh', ['-c', `command -v ${program}-${variant}${suffix}`], { encoding: 'utf8' });
      await symlink(target.trim(), join(folder, `${program}${suffix}`));
    }
  }
  return folder;
}

function hasVariant(variant: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v iptables-${variant}-save && command -v ip6tables-${variant}-save`]);
    return true;
  } catch {
    return false;
  }
}

async function createWorld(variant: string): Promise<World> {
  const network = await createNetwork(owner);
  const [workload, plain] = [await network.addNamespace('work'), await network.addNamespace('plain')];
  const [server, other] = [await network.addNamespace('server'), await network.addNamespace('other')];
  const lines = [STUB, server.address, server.address6].map((address) => `nameserver ${address}\n`);
  for (const namespace of [workload, plain]) await writeResolvConf(owner, namespace, lines.join(''));
  const start = (namespace: Namespace, label: Answering, addresses: readonly string[], uid = 0, port = 53) =>
    startDnsIn(owner, namespace, { label, addresses, port, uid, names: { [NAME]: ADDRESSES[label] } });
  const upstream = await start(server, 'server', [server.address, server.address6]);
  await start(other, 'other', [other.address]);
  await start(workload, 'stub', [STUB]);
  const agent = await start(workload, 'agent', ['127.0.0.1', '::1'], PROXY_UID, AGENT_PORT);
  await start(workload, 'envoy', ['127.0.0.1', '::1'], PROXY_UID, ENVOY_PORT);
  const path = `${await iptablesOf(variant)}${delimiter}${process.env.PATH}`;
  const env = (variables: Readonly<Record<string, string>>) => [
    'env',
    `PATH=${path}`,
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
  ];
  const run: World['run'] = (variables, ...args) =>
    workload.run(...env(variables), process.execPath, programFile('ctl-agent'), ...args);
  const snapshot = async () => {
    const commands = [['iptables-save'], ['ip6tables-save'], ['ip', 'rule'], ['ip', '-6', 'addr', 'show', 'dev', 'lo']];
    const texts: string[] = [];
    for (const command of commands) texts.push(await workload.run(...env({}), ...command));
    // Built-in chains without rules exist once a table was looked at.
    const lines = texts
      .flatMap((text) => text.split('\n'))
      .filter((line) => !/^(#|\*|:\S+ ACCEPT|COMMIT|$)/.test(line));
    return lines.map((line) => line.replace(/\[\d+:\d+\]/, '[]').trimEnd()).join('\n');
  };
  return { workload, plain, server, other, upstream, agent, run, snapshot };
}

const FLAGS = ['mesh-iptables', '-b', '*', '-i', '*'];
const AGENT = { DNS_AGENT: 'true' };

for (const variant of ['nft', 'legacy']) {
  const skip = unavailable ?? (hasVariant(variant) ? false : `there is no iptables-${variant}`);
  describe(`captured DNS, iptables-${variant}`, { skip }, () => {
    const shared = lazy<World>();
    const world = () => shared.get();
    const ask = async (server: string, protocol: 'udp' | 'tcp', uid = 0, from = world().workload) =>
      whoIs((await queryDns(from, { server, name: NAME, protocol }, uid)).addresses);

    before(async () => {
      const made = await createWorld(variant);
      shared.set(made);
      await made.run(AGENT, ...FLAGS);
    });

    test('queries to the name servers of resolv.conf arrive at the agent, over UDP and TCP, IPv4 and IPv6', async () => {
      const { server } = world();
      for (const address of [server.address, server.address6, STUB]) {
        for (const protocol of ['udp', 'tcp'] as const) assert.equal(await ask(address, protocol), 'agent', address);
      }
    });

    test('queries of the proxy’s user are not captured, also to a name server on this machine', async () => {
      const { server } = world();
      for (const protocol of ['udp', 'tcp'] as const) {
        for (const address of [server.address, server.address6]) {
          assert.equal(await ask(address, protocol, PROXY_UID), 'server', address);
        }
        assert.equal(await ask(STUB, protocol, PROXY_UID), 'stub');
      }
    });

    test('queries to another server are not captured', async () => {
      assert.equal(await ask(world().other.address, 'udp'), 'other');
    });

    test('queries of another workload are not captured', async () => {
      const { plain, server } = world();
      assert.equal(await ask(server.address, 'udp', 0, plain), 'server');
    });

    test('a query of the agent from the port of a captured one goes to the name server', async () => {
      const { workload, server } = world();
      for (const address of [server.address, server.address6]) {
        const query = { server: address, name: NAME, protocol: 'udp', sourcePort: 40_000 } as const;
        for (let i = 0; i < 3; i++) {
          assert.equal(whoIs((await queryDns(workload, query)).addresses), 'agent');
          assert.equal(whoIs((await queryDns(workload, query, PROXY_UID)).addresses), 'server');
        }
      }
    });

    test('validation proves that queries arrive, and fails with one line when they do not', async () => {
      const { run, server } = world();
      // A free port: the command itself answers there.
      const flags = ['--skip-rule-apply', '--run-validation', '--probe-timeout', '3s'];
      const text = await run({ ...AGENT, DNS_ADDR: ':15054' }, ...FLAGS, '--run-validation');
      assert.match(text, /DNS: queries go from 127\.0\.0\.53 port 53 to port 15054/);
      assert.match(text, new RegExp(`DNS: queries go from ${server.address6} port 53 to port 15054`));
      await assert.rejects(
        run({ ...AGENT, DNS_ADDR: ':15055' }, ...FLAGS, ...flags),
        /ctl-agent: redirection does not work: DNS, from 127\.0\.0\.53 port 53 to port 15055: nothing answered\n$/,
      );
      assert.match(await run(AGENT, ...FLAGS, '--run-validation'), /DNS: queries to 127\.0\.0\.53 are answered/);
    });

    test('cleaning restores the state before, a second run changes nothing, and TPROXY captures as well', async () => {
      const { run, snapshot, server } = world();
      await run({}, 'mesh-clean-iptables');
      const clean = await snapshot();
      assert.doesNotMatch(clean, /MESH_|15053/);
      assert.equal(await ask(server.address, 'udp'), 'server');
      const ways = [
        [AGENT, '-m', 'REDIRECT'],
        [AGENT, '-m', 'TPROXY'],
        [{ MESH_META_DNS_CAPTURE: 'true' }, '-m', 'REDIRECT'],
      ] as const;
      for (const [variables, ...mode] of ways) {
        await run(variables, ...FLAGS, ...mode);
        const once = await snapshot();
        assert.equal(await ask(server.address6, 'udp'), 'DNS_AGENT' in variables ? 'agent' : 'envoy');
        await run(variables, ...FLAGS, ...mode);
        assert.equal(await snapshot(), once, 'a second time');
      }
      // Envoy has no DNS over TCP.
      assert.equal(await ask(STUB, 'tcp'), 'stub');
      await run({}, 'mesh-clean-iptables');
      assert.equal(await snapshot(), clean);
    });

    test('printed rules are those that are applied, and a dry run changes nothing', async () => {
      const { run, snapshot, workload } = world();
      const before = await snapshot();
      const commands = await run(AGENT, ...FLAGS, '--dry-run');
      const restore = await run(AGENT, ...FLAGS, '--dry-run', '--restore-format');
      assert.equal(await snapshot(), before);
      await run(AGENT, ...FLAGS);
      const applied = await snapshot();
      await run({}, 'mesh-clean-iptables');
      const file = join(await tempDir(owner), 'commands');
      await writeFile(file, commands);
      const path = await iptablesOf(variant);
      await workload.run('env', `PATH=${path}${delimiter}${process.env.PATH}`, 'sh', '-e', file);
      // A jump that is inserted later precedes the others.
      const sorted = (text: string) => text.split('\n').sort();
      assert.deepEqual(sorted(await snapshot()), sorted(applied));
      await run({}, 'mesh-clean-iptables');
      // iptables-restore adds no addresses: the printed rules have it as a comment.
      await workload.run('ip', '-6', 'addr', 'add', '::6/128', 'dev', 'lo');
      const [ipv4 = '', ipv6 = ''] = restore.split('# ip6tables-restore');
      for (const [program, text] of [
        ['iptables', ipv4],
        ['ip6tables', `#${ipv6}`],
      ] as const) {
        await writeFile(file, text);
        await workload.run(join(path, `${program}-restore`), '--noflush', file);
      }
      assert.deepEqual(sorted(await snapshot()), sorted(applied));
    });
  });
}
