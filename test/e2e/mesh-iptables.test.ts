/**
 * `ctl-agent mesh-iptables` and `mesh-clean-iptables` in network namespaces: the effect of the rules on connections,
 * with Envoys that only forward bytes, and the state after cleaning.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import {
  createNetwork,
  type EchoReply,
  type Envoy,
  type Namespace,
  netnsUnavailable,
  programFile,
  redirectTraffic,
  runCtlAgent,
  startEchoIn,
  tempDir,
} from '../harness/index.ts';
import { type Mode, startPassingProxy } from './support/passing-proxy.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

const PROXY_UID = 1337;
const APP_PORT = 8080;
/** The agent's own port, which no rule redirects. */
const STATUS_PORT = 15020;
const MODES: readonly Mode[] = ['REDIRECT', 'TPROXY'];

interface World {
  readonly client: Namespace;
  readonly server: Namespace;
  readonly clientProxy: Envoy;
  readonly serverProxy: Envoy;
}

const owner = suiteOwner();
const shared = lazy<World>();
const world = (): World => shared.get();

/** Connections that a proxy's listener has accepted so far. */
async function taken(proxy: Envoy, name: string): Promise<number> {
  return (await proxy.stats(`^tcp\\.${name}\\.downstream_cx_total$`))[`tcp.${name}.downstream_cx_total`] ?? 0;
}

/** A request from inside a namespace, by an application or by the proxy's user. */
async function call(from: Namespace, address: string, port: number, as: 'application' | 'proxy' = 'application') {
  const user = as === 'proxy' ? ['setpriv', `--reuid=${PROXY_UID}`, `--regid=${PROXY_UID}`, '--clear-groups'] : [];
  const host = address.includes(':') ? `[${address}]` : address;
  const text = await from.run(...user, 'curl', '-sS', '--fail', '--max-time', '20', `http://${host}:${port}/`);
  return (JSON.parse(text) as EchoReply).remote.replace(/^::ffff:/, '');
}

for (const mode of MODES) {
  describe(`redirection by ${mode}`, { skip }, () => {
    before(async () => {
      const network = await createNetwork(owner);
      const [client, server] = [await network.addNamespace('client'), await network.addNamespace('server')];
      for (const port of [APP_PORT, STATUS_PORT]) {
        await startEchoIn(owner, server, { name: 'app', protocol: 'http', address: '::', port });
      }
      for (const namespace of [client, server]) await redirectTraffic(namespace, { proxyUid: PROXY_UID, mode });
      const clientProxy = await startPassingProxy(owner, { namespace: client, name: 'client', mode, uid: PROXY_UID });
      const serverProxy = await startPassingProxy(owner, { namespace: server, name: 'server', mode, uid: PROXY_UID });
      shared.set({ client, server, clientProxy, serverProxy });
    });

    for (const family of ['4', '6'] as const) {
      const source = family === '4' ? '127.0.0.6' : '::6';
      const addressOf = ({ address, address6 }: Namespace) => (family === '4' ? address : address6);

      test(`a call goes through both proxies over IPv${family}`, async () => {
        const { client, server, clientProxy, serverProxy } = world();
        const before = [await taken(clientProxy, `out${family}`), await taken(serverProxy, `in${family}`)] as const;
        assert.equal(await call(client, addressOf(server), APP_PORT), source);
        const after = [await taken(clientProxy, `out${family}`), await taken(serverProxy, `in${family}`)];
        assert.deepEqual(after, [before[0] + 1, before[1] + 1]);
      });

      test(`the agent's own port is reached directly over IPv${family}`, async () => {
        const { client, server, serverProxy } = world();
        const before = await taken(serverProxy, `in${family}`);
        assert.equal(await call(client, addressOf(server), STATUS_PORT), addressOf(client));
        assert.equal(await taken(serverProxy, `in${family}`), before);
      });

      test(`a call of the proxy to its own workload is redirected inbound, over IPv${family}`, async () => {
        const { server, serverProxy } = world();
        const before = await taken(serverProxy, `in${family}`);
        assert.equal(await call(server, addressOf(server), APP_PORT, 'proxy'), source);
        assert.equal(await taken(serverProxy, `in${family}`), before + 1);
      });

      test(`localhost is not redirected, for applications and for the proxy, over IPv${family}`, async () => {
        const { server, serverProxy } = world();
        const before = await Promise.all(['in', 'out'].map((way) => taken(serverProxy, `${way}${family}`)));
        const loopback = family === '4' ? '127.0.0.1' : '::1';
        for (const as of ['application', 'proxy'] as const) {
          assert.equal(await call(server, loopback, APP_PORT, as), loopback);
        }
        const after = await Promise.all(['in', 'out'].map((way) => taken(serverProxy, `${way}${family}`)));
        assert.deepEqual(after, before);
      });
    }
  });
}

/** Everything that redirection may change, as text. */
async function snapshot(namespace: Namespace): Promise<string> {
  const texts = [
    await namespace.run('iptables-save'),
    await namespace.run('ip6tables-save'),
    await namespace.run('ip', 'rule', 'show'),
    await namespace.run('ip', '-6', 'rule', 'show'),
    await namespace.run('ip', 'route', 'show', 'table', 'all'),
    await namespace.run('ip', '-6', 'route', 'show', 'table', 'all'),
    await namespace.run('ip', '-o', 'addr', 'show', 'dev', 'lo'),
  ];
  const lines = texts.join('\n').split('\n');
  // Times, packet counts and link-local addresses change by themselves.
  return lines
    .filter((line) => !line.startsWith('#') && !line.includes('fe80:'))
    .map((line) => line.replace(/\[\d+:\d+\]/, '[]').trimEnd())
    .join('\n');
}

async function addForeignRules(namespace: Namespace): Promise<void> {
  for (const iptables of ['iptables', 'ip6tables']) {
    await namespace.run(iptables, '-t', 'nat', '-N', 'FOREIGN');
    await namespace.run(iptables, '-t', 'nat', '-A', 'FOREIGN', '-p', 'tcp', '--dport', '99', '-j', 'RETURN');
    await namespace.run(iptables, '-t', 'nat', '-A', 'OUTPUT', '-p', 'tcp', '-j', 'FOREIGN');
    await namespace.run(iptables, '-t', 'mangle', '-A', 'PREROUTING', '-p', 'udp', '-j', 'ACCEPT');
  }
  await namespace.run('ip', 'rule', 'add', 'fwmark', '1337', 'lookup', '200');
  await namespace.run('ip', 'route', 'add', 'local', '203.0.113.0/24', 'dev', 'lo', 'table', '133');
}

describe('cleaning', { skip }, () => {
  const WAYS: readonly (readonly [string, readonly string[]])[] = [
    ['REDIRECT', ['-b', '*', '-i', '*', '-x', '10.1.0.0/16', '-o', '25', '-k', 'net1', '-u', '1337,1338']],
    ['loopback', ['-b', '*', '-i', '127.1.2.3/32,10.0.0.0/8', '-o', '25', '-u', '1337', '-g', '7,8']],
    ['TPROXY', ['-b', '80,443', '-i', '10.0.0.0/8,fd00::/8', '-q', '8080', '-m', 'TPROXY', '-t', '7', '-r', '133']],
  ];

  test('cleaning restores the state before, and a second run changes nothing', async (t) => {
    const network = await createNetwork(t);
    const namespace = await network.addNamespace('one');
    await addForeignRules(namespace);
    const clean = await snapshot(namespace);
    for (const [name, flags] of WAYS) {
      await runCtlAgent(namespace, 'mesh-iptables', ...flags);
      const once = await snapshot(namespace);
      assert.notEqual(once, clean, name);
      await runCtlAgent(namespace, 'mesh-iptables', ...flags);
      assert.equal(await snapshot(namespace), once, `${name}, a second time`);
      await runCtlAgent(namespace, 'mesh-clean-iptables');
      assert.equal(await snapshot(namespace), clean, name);
      await runCtlAgent(namespace, 'mesh-clean-iptables');
      assert.equal(await snapshot(namespace), clean, `${name}, cleaned twice`);
    }
  });

  test('cleaning leaves no empty tables and chains, whose hooks the kernel would run for each packet', {
    skip: spawnSync('nft', ['--version']).status === 0 ? false : 'nft is not installed',
  }, async (t) => {
    const namespace = await (await createNetwork(t)).addNamespace('one');
    for (const [name, flags] of WAYS) {
      await runCtlAgent(namespace, 'mesh-iptables', ...flags);
      await runCtlAgent(namespace, 'mesh-clean-iptables');
      assert.equal(await namespace.run('nft', 'list', 'ruleset'), '', name);
    }
    // An empty chain that does not accept is somebody's.
    await namespace.run('iptables', '-t', 'mangle', '-P', 'OUTPUT', 'DROP');
    await runCtlAgent(namespace, 'mesh-iptables', ...(WAYS.at(-1)?.[1] ?? []));
    await runCtlAgent(namespace, 'mesh-clean-iptables');
    assert.match(await namespace.run('nft', 'list', 'ruleset'), /chain OUTPUT \{\s*[^;]*; policy drop;\s*\}/);
  });

  test('a change that fails halfway leaves the redirection that was there', async (t) => {
    const network = await createNetwork(t);
    const namespace = await network.addNamespace('one');
    const folder = await tempDir(t);
    // The rules of IPv4 are replaced before those of IPv6.
    const restore = '#!/bin/sh\ngrep -q MESH_REDIRECT && { echo broken >&2; exit 1; }\n';
    await writeFile(join(folder, 'ip6tables-restore'), restore, { mode: 0o755 });
    const failing = ['env', `PATH=${folder}:${process.env.PATH}`, process.execPath, programFile('ctl-agent')];
    for (const [name, flags] of WAYS) {
      await runCtlAgent(namespace, 'mesh-iptables', '-b', '*', '-m', name === 'TPROXY' ? 'REDIRECT' : 'TPROXY');
      const before = await snapshot(namespace);
      const { stderr } = await failureOf(namespace.run(...failing, 'mesh-iptables', ...flags));
      assert.match(stderr, /^ctl-agent: ip6tables-restore [^\n]*broken\n$/, name);
      assert.equal(await snapshot(namespace), before, name);
    }
  });

  test('a change of the redirection mode leaves nothing of the old one', async (t) => {
    const network = await createNetwork(t);
    const [first, second] = [await network.addNamespace('a'), await network.addNamespace('b')];
    const [[, redirect = []] = [], , [, tproxy = []] = []] = WAYS;
    for (const flags of [redirect, tproxy, redirect]) await runCtlAgent(first, 'mesh-iptables', ...flags);
    await runCtlAgent(second, 'mesh-iptables', ...redirect);
    const rules = async (namespace: Namespace) => {
      const text = `${await namespace.run('iptables-save', '-t', 'nat')}${await namespace.run('ip', 'rule', 'show')}`;
      return text.replace(/^#.*$/gm, '').replace(/\[\d+:\d+\]/g, '[]');
    };
    assert.equal(await rules(first), await rules(second));
    assert.doesNotMatch(await first.run('iptables-save'), /MESH_(DIVERT|TPROXY)/);
  });
});

/** The output of a command that must fail, without its stack of causes. */
async function failureOf(promise: Promise<string>): Promise<{ code: number; stderr: string; stdout: string }> {
  try {
    await promise;
  } catch (error) {
    const { code, stderr, stdout } = error as { code: number; stderr: string; stdout: string };
    return { code, stderr, stdout };
  }
  throw new Error('it did not fail');
}

describe('on a host', { skip }, () => {
  test('validation proves redirection, and fails with one line without it', async (t) => {
    const network = await createNetwork(t);
    const namespace = await network.addNamespace('one');
    for (const mode of MODES) {
      const text = await runCtlAgent(namespace, 'mesh-iptables', '-b', '*', '-i', '*', '-m', mode, '--run-validation');
      for (const way of ['inbound ipv4', 'outbound ipv4', 'inbound ipv6', 'outbound ipv6']) {
        assert.match(text, new RegExp(`${way}: connections go from \\S+ port 15002 to port 150`), mode);
      }
    }
    const loopback = ['-i', '127.1.2.3/32', '-x', '10.1.0.0/16', '--run-validation'];
    const text = await runCtlAgent(namespace, 'mesh-iptables', ...loopback);
    assert.match(text, /outbound ipv4: connections go from 127\.1\.2\.3 port 15002 to port 15001/);
    assert.match(text, /warn\t.*--mesh-service-exclude-cidr applies only .* 10\.1\.0\.0\/16 is not excluded/);
    await runCtlAgent(namespace, 'mesh-clean-iptables');
    const flags = ['--skip-rule-apply', '--run-validation', '--probe-timeout', '3s'];
    const { code, stderr } = await failureOf(runCtlAgent(namespace, 'mesh-iptables', ...flags));
    assert.equal(code, 126);
    assert.match(
      stderr,
      /^ctl-agent: redirection does not work: inbound ipv4, from \S+ port 15002 to port 15006: refused\n$/,
    );
  });

  test('dry runs and printed rules change nothing, and iptables-restore accepts the printed rules', async (t) => {
    const network = await createNetwork(t);
    const [namespace, other] = [await network.addNamespace('a'), await network.addNamespace('b')];
    const before = await snapshot(namespace);
    const flags = ['-b', '*', '-i', '*', '-m', 'TPROXY'];
    const commands = await runCtlAgent(namespace, 'mesh-iptables', ...flags, '--dry-run');
    const restore = await runCtlAgent(namespace, 'mesh-iptables', ...flags, '--dry-run', '--restore-format');
    await runCtlAgent(namespace, 'mesh-clean-iptables', '-n');
    await runCtlAgent(namespace, 'mesh-iptables', ...flags, '--skip-rule-apply');
    assert.equal(await snapshot(namespace), before);

    await namespace.run('sh', '-ec', commands);
    await runCtlAgent(other, 'mesh-iptables', ...flags);
    const rules = async (from: Namespace) =>
      (await snapshot(from)).replaceAll(from.address, 'A').replaceAll(from.address6, 'A');
    const sorted = (text: string) =>
      text
        .split('\n')
        .filter((line) => /MESH_|15006/.test(line))
        .sort();
    assert.deepEqual(sorted(await rules(namespace)), sorted(await rules(other)));
    const [ipv4 = ''] = restore.split('# ip6tables-restore');
    await other.run('sh', '-ec', `iptables-restore --test --noflush <<'END'\n${ipv4}END\n`);
  });

  test('without permission, or without iptables, one line says so', async (t) => {
    const network = await createNetwork(t);
    const namespace = await network.addNamespace('one');
    const program = [process.execPath, programFile('ctl-agent')];
    for (const command of [['mesh-iptables', '-b', '*'], ['mesh-clean-iptables']]) {
      const nobody = ['setpriv', '--reuid=65534', '--clear-groups', ...program, ...command];
      const denied = await failureOf(namespace.run(...nobody));
      assert.deepEqual([denied.code, denied.stdout], [1, '']);
      assert.match(denied.stderr, /^ctl-agent: iptables-save -t nat: not permitted, [^\n]*NET_ADMIN[^\n]*\n$/);
      const missing = await failureOf(namespace.run('env', 'PATH=/nowhere', ...program, ...command));
      assert.deepEqual(missing, { code: 1, stdout: '', stderr: 'ctl-agent: iptables-save is not installed\n' });
    }
  });
});
