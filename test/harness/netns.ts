/**
 * Network namespaces for tests of traffic redirection: each has an own loopback, a veth pair to a bridge that joins the
 * namespaces of one network, and iptables rules of its own. Addresses come from 198.18.0.0/15, which RFC 2544 reserves
 * for tests, and from fd00::/8, and exist only inside the namespaces: the bridge too stands in one, so that nothing of
 * the host changes.
 */
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Child, startChild } from './child.ts';
import type { Owner } from './owner.ts';

const execute = promisify(execFile);

const CTL_AGENT = join(import.meta.dirname, '../../src/ctl-agent.ts');

/** Why namespaces cannot be made here, or undefined when they can: for the `skip` of a test. */
export async function netnsUnavailable(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'needs root';
  const probe = `meshd-probe-${randomBytes(6).toString('hex')}`;
  try {
    await execute('ip', ['netns', 'add', probe]);
    await execute('ip', ['netns', 'exec', probe, 'iptables', '-w', '-t', 'nat', '-S']);
    return undefined;
  } catch (error) {
    return `cannot make network namespaces: ${lastLine(error)}`;
  } finally {
    await execute('ip', ['netns', 'delete', probe]).catch(() => undefined);
  }
}

/** What a program that failed said last: the message of its error ends in a line feed. */
function lastLine(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).split('\n').map((line) => line.trim());
  return lines.findLast((line) => line !== '') ?? 'no reason was given';
}

export interface Namespace {
  readonly name: string;
  /** Its addresses on the network. */
  readonly address: string;
  readonly address6: string;
  /** The command line that runs `argv` inside. */
  command(argv: readonly string[]): string[];
  /** Runs a program inside to its end and gives its stdout; throws when it fails. */
  run(...argv: readonly string[]): Promise<string>;
  /** Starts a program inside; it ends with the namespace's owner. */
  start(name: string, argv: readonly string[]): Promise<Child>;
}

/** A program that hangs; commands bound themselves far below it. */
const RUN_TIMEOUT_MS = 120_000;

export interface Network {
  /** A new namespace with the next free address of the network. */
  addNamespace(label: string): Promise<Namespace>;
}

function namespace(owner: Owner, name: string, number: number): Namespace {
  const command = (argv: readonly string[]) => ['ip', 'netns', 'exec', name, ...argv];
  return {
    name,
    address: `198.18.0.${number}`,
    address6: `fd00:c612::${number}`,
    command,
    async run(...argv) {
      const { stdout } = await execute('ip', command(argv).slice(1), { timeout: RUN_TIMEOUT_MS });
      return stdout;
    },
    start: (label, argv) => startChild(owner, { name: label, command: 'ip', args: command(argv).slice(1) }),
  };
}

/** Namespaces that exist. A process that exits without running its owners' hooks removes them on its way out. */
const alive = new Set<string>();
process.once('exit', () => {
  for (const name of alive) spawnSync('ip', ['netns', 'delete', name]);
});

async function createNamespace(owner: Owner, name: string, number: number): Promise<Namespace> {
  await execute('ip', ['netns', 'add', name]);
  // Deleting a namespace takes its veth ends, rules and bridge with it.
  alive.add(name);
  owner.after(async () => {
    alive.delete(name);
    await execute('ip', ['netns', 'delete', name]);
  });
  const created = namespace(owner, name, number);
  await created.run('ip', 'link', 'set', 'lo', 'up');
  return created;
}

/** An empty network; everything in it goes away with its owner, also when a later step failed. */
export async function createNetwork(owner: Owner): Promise<Network> {
  const id = randomBytes(6).toString('hex');
  const hub = await createNamespace(owner, `meshd-${id}-hub`, 1);
  await hub.run('ip', 'link', 'add', 'bridge', 'type', 'bridge');
  await hub.run('ip', 'addr', 'add', `${hub.address}/24`, 'dev', 'bridge');
  await hub.run('ip', 'addr', 'add', `${hub.address6}/64`, 'dev', 'bridge', 'nodad');
  await hub.run('ip', 'link', 'set', 'bridge', 'up');
  let next = 2;
  return {
    async addNamespace(label) {
      const number = next++;
      const added = await createNamespace(owner, `meshd-${id}-${label}`, number);
      const port = `port${number}`;
      await hub.run('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', added.name);
      await hub.run('ip', 'link', 'set', port, 'master', 'bridge', 'up');
      await added.run('ip', 'addr', 'add', `${added.address}/24`, 'dev', 'eth0');
      await added.run('ip', 'addr', 'add', `${added.address6}/64`, 'dev', 'eth0', 'nodad');
      await added.run('ip', 'link', 'set', 'eth0', 'up');
      // A default route, so that connections to addresses that nobody has still leave through the redirection rules.
      await added.run('ip', 'route', 'add', 'default', 'via', hub.address);
      await added.run('ip', '-6', 'route', 'add', 'default', 'via', hub.address6);
      return added;
    },
  };
}

export interface RedirectOptions {
  /** The proxy's user: what it sends itself is not redirected back to it. */
  readonly proxyUid: number;
  /** Ports that are not redirected inbound, such as the proxy's own admin port. */
  readonly excludeInboundPorts?: readonly number[];
  /** Default REDIRECT. */
  readonly mode?: 'REDIRECT' | 'TPROXY';
}

/** Runs a command of ctl-agent inside a namespace; rejects when it fails. Gives its stdout. */
export function runCtlAgent(target: Namespace, ...args: readonly string[]): Promise<string> {
  return target.run(process.execPath, CTL_AGENT, ...args);
}

/** Redirects what leaves a namespace to port 15001 and what enters it to port 15006, by `ctl-agent mesh-iptables`. */
export async function redirectTraffic(target: Namespace, options: RedirectOptions): Promise<void> {
  const { proxyUid, excludeInboundPorts = [], mode = 'REDIRECT' } = options;
  const flags = ['-b', '*', '-i', '*', '-u', String(proxyUid), '-d', excludeInboundPorts.join(','), '-m', mode];
  await runCtlAgent(target, 'mesh-iptables', ...flags);
}
