/**
 * Network namespaces for tests: each has a loopback interface of its own, a veth pair to a bridge that joins the
 * namespaces of one network, and its own iptables rules. Addresses come from 198.18.0.0/15, which RFC 2544 reserves for
 * tests, and from fd00::/8, and exist only inside the namespaces: the bridge too is in one, so that nothing of the host
 * changes.
 */
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readlinkSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { programFile } from './built.ts';
import { type Child, startChild } from './child.ts';
import { claimNumber } from './claims.ts';
import type { Owner } from './owner.ts';

const execute = promisify(execFile);

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

/** The last line of output of a failed program: the message of its error ends with it. */
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
  start(name: string, argv: readonly string[], onOutput?: (text: string) => void): Promise<Child>;
}

/** After this time a program hangs. Commands have much lower limits of their own. */
const RUN_TIMEOUT_MS = 120_000;

export interface Network {
  /** A new namespace with the next free address of the network. It ends with the network's owner, or with another. */
  addNamespace(label: string, owner?: Owner): Promise<Namespace>;
}

/** Addresses of one network: number 1 is the bridge's. */
const addressOf = (network: number, number: number) => `198.18.${network}.${number}`;
const address6Of = (network: number, number: number) =>
  network === 0 ? `fd00:c612::${number}` : `fd00:c612:${network}::${number}`;

function namespace(owner: Owner, name: string, network: number, number: number): Namespace {
  const command = (argv: readonly string[]) => ['ip', 'netns', 'exec', name, ...argv];
  return {
    name,
    address: addressOf(network, number),
    address6: address6Of(network, number),
    command,
    async run(...argv) {
      const { stdout } = await execute('ip', command(argv).slice(1), { timeout: RUN_TIMEOUT_MS });
      return stdout;
    },
    start: (label, argv, onOutput) => {
      const output = onOutput === undefined ? {} : { onOutput };
      return startChild(owner, { name: label, command: 'ip', args: command(argv).slice(1), ...output });
    },
  };
}

/**
 * Runs commands of ip(8) in a namespace, or in that of this process: all of them by one program, which ends with the
 * first that fails.
 */
async function runIp(name: string | undefined, commands: readonly string[]): Promise<void> {
  const running = execute('ip', [...(name === undefined ? [] : ['-n', name]), '-batch', '-'], {
    timeout: RUN_TIMEOUT_MS,
  });
  running.child.stdin?.end(`${commands.join('\n')}\n`);
  await running;
}

/** Existing namespaces. A process that exits without running its owners' hooks removes them on its way out. */
const alive = new Set<string>();
process.once('exit', () => {
  for (const name of alive) {
    killAll(spawnSync('ip', ['netns', 'pids', name], { encoding: 'utf8' }).stdout);
    spawnSync('ip', ['netns', 'delete', name]);
  }
});

/** Ends processes that outlived their parent, such as the Envoy of an agent that was killed. */
function killAll(pids: string): void {
  for (const pid of pids.split('\n').filter((line) => line !== '')) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}

async function createNamespace(owner: Owner, name: string, network: number, number: number): Promise<Namespace> {
  await execute('ip', ['netns', 'add', name], { timeout: RUN_TIMEOUT_MS });
  // Deleting a namespace also deletes its veth ends, rules and bridge.
  alive.add(name);
  owner.after(async () => {
    alive.delete(name);
    killAll((await execute('ip', ['netns', 'pids', name], { timeout: RUN_TIMEOUT_MS })).stdout);
    await execute('ip', ['netns', 'delete', name], { timeout: RUN_TIMEOUT_MS });
  });
  return namespace(owner, name, network, number);
}

/** The bridge of a network. */
interface Hub {
  readonly network: number;
  readonly bridge: string;
  /** The namespace that it is in; undefined: that of this process. */
  readonly namespace: string | undefined;
}

/**
 * The address of the link of a bridge, locally administered (RFC 7042). Without one, a bridge has the lowest of its
 * ports: a namespace that is added can change it, and answers to the address before are lost for up to a minute.
 */
export const bridgeLinkAddress = (network: number): string => `02:00:c6:12:${network.toString(16).padStart(2, '0')}:01`;

function addBridge({ network, bridge, namespace: name }: Hub): Promise<void> {
  return runIp(name, [
    'link set lo up',
    `link add ${bridge} address ${bridgeLinkAddress(network)} type bridge`,
    `addr add ${addressOf(network, 1)}/24 dev ${bridge}`,
    `addr add ${address6Of(network, 1)}/64 dev ${bridge} nodad`,
    `link set ${bridge} up`,
  ]);
}

/** The last number of an address in a network. */
const LAST_ADDRESS = 254;

function network(owner: Owner, id: string, hub: Hub): Network {
  let next = 2;
  /** Of namespaces that have ended, in their order: an address is used again as late as possible. */
  const freed: number[] = [];
  return {
    async addNamespace(label, itsOwner = owner) {
      const number = next <= LAST_ADDRESS ? next++ : freed.shift();
      if (number === undefined) throw new Error('no address of the network is free');
      itsOwner.after(() => void freed.push(number));
      const added = await createNamespace(itsOwner, `meshd-${id}-${label}`, hub.network, number);
      const port = `p${hub.network}-${number}`;
      await runIp(hub.namespace, [
        `link add ${port} type veth peer name eth0 netns ${added.name}`,
        `link set ${port} master ${hub.bridge} up`,
      ]);
      await runIp(added.name, [
        'link set lo up',
        `addr add ${added.address}/24 dev eth0`,
        `addr add ${added.address6}/64 dev eth0 nodad`,
        'link set eth0 up',
        // Default routes, so that connections to unused addresses also pass the redirection rules.
        `route add 0.0.0.0/0 via ${addressOf(hub.network, 1)}`,
        `route add ::/0 via ${address6Of(hub.network, 1)}`,
      ]);
      return added;
    },
  };
}

/** An empty network. Everything in it is removed with its owner, even when a later step failed. */
export async function createNetwork(owner: Owner): Promise<Network> {
  const id = randomBytes(6).toString('hex');
  const { name } = await createNamespace(owner, `meshd-${id}-hub`, 0, 1);
  const hub = { network: 0, bridge: 'bridge', namespace: name };
  await addBridge(hub);
  return network(owner, id, hub);
}

/** Networks that one namespace can have side by side. */
const NETWORKS = { from: 1, end: 256 };

/** Holds the network namespace of the host, for programs that were started in another one; see {@link ownNetwork}. */
const HOST_NETWORK = 'MESHD_HOST_NETWORK';

const currentNetwork = () => readlinkSync('/proc/self/ns/net');

/** The addresses of a loopback interface are local as a whole network: every one of them can be bound at once. */
const ENTER = 'ip link set lo up && ip address add 10.244.0.1/16 dev lo && exec "$@"';

/**
 * The command line that runs `argv` in a new network namespace where 10.244.0.0/16 is local, and the variables that it
 * needs. The namespace has no name and ends with its last process.
 */
export function ownNetwork(argv: readonly string[]): { command: string; args: string[]; env: Record<string, string> } {
  // `unshare` is in util-linux, which every Linux distribution has.
  const args = ['--net', '--', 'sh', '-c', ENTER, 'sh', ...argv];
  return { command: 'unshare', args, env: { [HOST_NETWORK]: currentNetwork() } };
}

/** Whether this process runs in a namespace other than that of the host, by {@link ownNetwork}. */
export function inOwnNetwork(): boolean {
  const host = process.env[HOST_NETWORK];
  return host !== undefined && host !== currentNetwork();
}

/** Whether this process may make a namespace of its own. */
export function canOwnNetwork(): boolean {
  const { command, args } = ownNetwork(['true']);
  return spawnSync(command, args).status === 0;
}

/**
 * A network whose bridge is in the namespace of this process, which reaches it at the first address. Throws where that
 * is the namespace of the host, whose interfaces are not for tests.
 */
export async function createNetworkHere(owner: Owner): Promise<Network & { readonly address: string }> {
  if (!inOwnNetwork())
    throw new Error('expected a network namespace of its own, as the stage `kubernetes` of `npm test` has');
  const number = claimNumber('bridge', NETWORKS.from, NETWORKS.end);
  const bridge = `bridge${number}`;
  const hub = { network: number, bridge, namespace: undefined };
  owner.after(() => runIp(undefined, [`link delete ${bridge}`]));
  await addBridge(hub);
  return { ...network(owner, randomBytes(6).toString('hex'), hub), address: addressOf(number, 1) };
}

export interface RedirectOptions {
  /** The proxy's user, whose own traffic is not redirected back to the proxy. */
  readonly proxyUid: number;
  /** Ports that are not redirected inbound, such as the proxy's own admin port. */
  readonly excludeInboundPorts?: readonly number[];
  /** Default REDIRECT. */
  readonly mode?: 'REDIRECT' | 'TPROXY';
  /** Environment of `mesh-iptables`. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a command of ctl-agent inside a namespace; rejects when it fails. Gives its stdout. */
export function runCtlAgent(target: Namespace, ...args: readonly string[]): Promise<string> {
  return target.run(process.execPath, programFile('ctl-agent'), ...args);
}

/** Redirects what leaves a namespace to port 15001 and what enters it to port 15006, by `ctl-agent mesh-iptables`. */
export async function redirectTraffic(target: Namespace, options: RedirectOptions): Promise<void> {
  const { proxyUid, excludeInboundPorts = [], mode = 'REDIRECT', env = {} } = options;
  const flags = ['-b', '*', '-i', '*', '-u', String(proxyUid), '-d', excludeInboundPorts.join(','), '-m', mode];
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  await target.run('env', ...variables, process.execPath, programFile('ctl-agent'), 'mesh-iptables', ...flags);
}

/** Programs inside the namespace see this text as /etc/resolv.conf: see `ip netns exec` in ip-netns(8). */
export async function writeResolvConf(owner: Owner, target: Namespace, text: string): Promise<void> {
  const folder = join('/etc/netns', target.name);
  await mkdir(folder, { recursive: true });
  owner.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'resolv.conf'), text);
}
