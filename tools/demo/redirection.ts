/**
 * The part of the demo that needs root: two plain applications, `orders` and `stock`, in network namespaces.
 * `ctl-agent mesh-iptables` redirects their traffic to the Envoy of an agent in the same namespace.
 *
 *   orders.demo ─ application ⇄ Envoy ─┐
 *   stock.demo ── application ⇄ Envoy ─┼─ bridge ─ control: relay ─▶ ctl-discovery on the host's loopback
 */
import { execFile } from 'node:child_process';
import { constants, rmSync } from 'node:fs';
import { access, mkdir, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type Agent,
  type Child,
  createNetwork,
  envoyPath,
  type Namespace,
  netnsUnavailable,
  type Owner,
  redirectTraffic,
  startAgent,
  tempDir,
} from '../../test/harness/index.ts';
import type { DemoIdentity } from './identity.ts';
import { createRelay } from './relay.ts';

/** The user of agents and Envoys, whose traffic is not redirected. */
const PROXY_UID = 1337;
const CONTROL_PORT = 15_012;
const AGENT_SOURCE = join(import.meta.dirname, '../../src/ctl-agent.ts');

/** Names in /etc/hosts of the namespaces, with the addresses of the services in samples/demo/orders.yaml. */
const HOSTS = Object.entries({ orders: '10.97.0.1', stock: '10.97.0.2' }).map(
  ([name, address]) => `${address} ${name} ${name}.demo ${name}.demo.svc.cluster.local\n`,
);

export interface RedirectedWorkload {
  /** `<pod>.<namespace>`. */
  readonly workload: string;
  readonly netns: Namespace;
  readonly agent: Agent;
}

export interface Redirection {
  readonly orders: RedirectedWorkload;
  readonly stock: RedirectedWorkload;
  /** URLs of the services inside the namespaces. */
  readonly urls: { readonly orders: string; readonly stock: string };
  /** A namespace in the same network without a proxy. */
  readonly outside: Namespace;
  /** The processes beside the agents. */
  readonly helpers: readonly Child[];
}

/** Why redirection is not possible here; undefined when it is. */
export async function redirectionUnavailable(): Promise<string | undefined> {
  const reason = await netnsUnavailable();
  if (reason !== undefined) return reason;
  try {
    await access('/etc', constants.W_OK);
  } catch {
    return 'needs to write below /etc/netns';
  }
  const script = 'curl --version && test -x "$1" && test -r "$2" && test -x "$4" && exec "$3" --version';
  const user = ['--reuid', String(PROXY_UID), '--regid', String(PROXY_UID), '--clear-groups'];
  const paths = [envoyPath(), AGENT_SOURCE, process.execPath, tmpdir()];
  return await promisify(execFile)('setpriv', [...user, 'sh', '-c', script, 'sh', ...paths]).then(
    () => undefined,
    () => `user ${PROXY_UID} must be able to run curl, Envoy, Node.js and what is in ${join(AGENT_SOURCE, '..')}`,
  );
}

/**
 * Files of existing namespaces. A process that exits without running its hooks removes them at exit.
 */
const hostFolders = new Set<string>();
process.once('exit', () => {
  for (const folder of hostFolders) rmSync(folder, { recursive: true, force: true });
});

/** The /etc/hosts of a namespace under `ip netns exec`. */
async function nameServices(owner: Owner, netns: Namespace): Promise<void> {
  const folder = `/etc/netns/${netns.name}`;
  hostFolders.add(folder);
  owner.after(async () => {
    await rm(folder, { recursive: true, force: true });
    hostFolders.delete(folder);
    // Its owner is unknown; an empty file has no effect.
    await rmdir('/etc/netns').catch(() => {});
  });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'hosts'), `127.0.0.1 localhost\n${HOSTS.join('')}`);
}

/** Forwards port 15012 of a namespace to a loopback port of the host. */
async function openRelay(owner: Owner, netns: Namespace, port: number): Promise<Child> {
  const path = join(await tempDir(owner), 'relay');
  const outer = createRelay({ host: '127.0.0.1', port });
  await new Promise<void>((resolve, reject) => {
    outer.once('error', reject);
    outer.listen(path, resolve);
  });
  owner.after(() => {
    const closed = new Promise<void>((resolve) => outer.close(() => resolve()));
    outer.destroyAll();
    return closed;
  });
  const argv = [join(import.meta.dirname, 'relay-main.ts'), netns.address, String(CONTROL_PORT), path];
  return netns.start('the relay to ctl-discovery', [process.execPath, ...argv]);
}

export interface RedirectionOptions {
  readonly identity: DemoIdentity;
  /** The secured port of ctl-discovery on the loopback address of the host. */
  readonly securePort: number;
  /** Port of the services. */
  readonly servicePort: number;
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Starts network, applications and agents, without waiting for the agents. The owner ends everything, even after a
 * failure.
 */
export async function startRedirection(owner: Owner, options: RedirectionOptions): Promise<Redirection> {
  const { signal, servicePort } = options;
  const urls = { orders: `http://orders.demo:${servicePort}/`, stock: `http://stock.demo:${servicePort}/` };
  const network = await createNetwork(owner);
  // This order gives the namespaces the addresses in samples/demo/orders.yaml.
  const outside = await network.addNamespace('outside');
  const orders = await network.addNamespace('orders');
  const stock = await network.addNamespace('stock');
  signal.throwIfAborted();
  for (const netns of [outside, orders, stock]) await nameServices(owner, netns);
  await Promise.all([orders, stock].map((netns) => redirectTraffic(netns, { proxyUid: PROXY_UID })));
  const helpers = [
    await openRelay(owner, outside, options.securePort),
    await startApplicationIn(orders, 'orders', urls.stock),
    await startApplicationIn(stock, 'stock'),
  ];
  signal.throwIfAborted();
  const control = `${outside.address}:${CONTROL_PORT}`;
  return {
    orders: await startWorkload(owner, 'orders', orders, control, options),
    stock: await startWorkload(owner, 'stock', stock, control, options),
    urls,
    outside,
    helpers,
  };
}

function startApplicationIn(netns: Namespace, name: string, ...calls: readonly string[]): Promise<Child> {
  const argv = [join(import.meta.dirname, 'application-main.ts'), name, '8080', ...calls];
  return netns.start(`the application ${name}`, [process.execPath, ...argv]);
}

async function startWorkload(
  owner: Owner,
  name: string,
  netns: Namespace,
  discoveryAddress: string,
  { identity, env }: RedirectionOptions,
): Promise<RedirectedWorkload> {
  const agent = await startAgent(owner, {
    name,
    netns,
    podNamespace: 'demo',
    uid: PROXY_UID,
    discoveryAddress,
    proxyConfig: { interceptionMode: 'REDIRECT' },
    env: { ...env, ...(await identity.agentEnv(name, PROXY_UID)) },
    waitReady: false,
  });
  return { workload: `${name}.demo`, netns, agent };
}
