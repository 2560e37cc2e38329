/**
 * The demo mesh: ctl-discovery over a configuration directory, three agents with real Envoys, and the applications
 * behind them.
 *
 *   you ─▶ gateway ─┬─▶ hello-v1's sidecar ─▶ hello-v1
 *                   ├─▶ hello-v2 (has no sidecar)
 *                   └─▶ shop's sidecar ─▶ shop ─▶ shop's sidecar ─▶ hello, clock
 *
 * With root, redirection.ts adds two workloads in network namespaces. Agents get certificates from ctl-discovery with
 * tokens of a local issuer, so traffic between two Envoys is mutual TLS.
 */
import {
  type Agent,
  type Discovery,
  type Exit,
  eventually,
  GiveUp,
  type Owner,
  startAgent,
  startDiscovery,
} from '../../test/harness/index.ts';
import { startApplication } from './applications.ts';
import { type EndUsers, startEndUsers } from './end-users.ts';
import { createIdentity, type DemoIdentity } from './identity.ts';
import type { Places } from './ports.ts';
import { type Redirection, redirectionUnavailable, startRedirection } from './redirection.ts';

/** An agent of the demo with its Envoy. */
export interface DemoProxy {
  /** `<pod>.<namespace>`, the name in the debug interface. */
  readonly workload: string;
  readonly agent: Agent;
}

export interface DemoMesh {
  readonly places: Places;
  readonly configDir: string;
  readonly discovery: Discovery;
  readonly proxies: readonly DemoProxy[];
  /** The workloads in network namespaces, or why there are none. */
  readonly redirection: Redirection | string;
  /** The end users at the gateway. */
  readonly endUsers: EndUsers;
  /** Rejects with one line when a process of the mesh ends unexpectedly. Never resolves. */
  readonly broken: Promise<never>;
}

export interface MeshOptions {
  readonly places: Places;
  readonly configDir: string;
  /** Aborts the start. */
  readonly signal: AbortSignal;
  /** Called with the next step. */
  readonly progress: (line: string) => void;
}

/** The limit for a part of the mesh to become ready, milliseconds: enough for a busy machine. */
const START_TIMEOUT_MS = 60_000;

/** The demo does not wait for connections to drain. */
const DRAIN_ENV = { TERMINATION_DRAIN_DURATION_SECONDS: '0' };

/** The proxies on loopback, where nothing redirects traffic to them. */
function proxiesOf(places: Places) {
  return [
    {
      name: 'gateway',
      role: 'router',
      account: 'gateway',
      address: '127.0.0.1',
      labels: { app: 'gateway' },
      ports: agentPortsOf(places, 'gateway'),
      // State of the World here and Delta, the default, for the sidecars, to show both.
      env: { MESH_DELTA_XDS: 'false' },
    },
    {
      name: 'hello-v1',
      role: 'sidecar',
      account: 'hello',
      address: '127.0.11.1',
      labels: { app: 'hello', version: 'v1' },
      ports: agentPortsOf(places, 'hello'),
      env: {},
    },
    {
      name: 'shop',
      role: 'sidecar',
      account: 'shop',
      address: '127.0.13.1',
      labels: { app: 'shop' },
      ports: agentPortsOf(places, 'shop'),
      env: {},
    },
  ] as const;
}

function agentPortsOf(places: Places, proxy: 'gateway' | 'hello' | 'shop') {
  return {
    admin: places[`${proxy}Admin`].port,
    status: places[`${proxy}Status`].port,
    readiness: places[`${proxy}Readiness`].port,
    prometheus: places[`${proxy}Prometheus`].port,
  };
}

/**
 * Starts everything and waits until each Envoy has its configuration. The owner ends what was started, even after a
 * failure.
 */
export async function startMesh(owner: Owner, options: MeshOptions): Promise<DemoMesh> {
  const { places, configDir, signal, progress } = options;
  await startApplication(owner, 'hello-v1', places.helloV1);
  await startApplication(owner, 'hello-v2', places.helloV2);
  await startApplication(owner, 'shop', places.shop);
  await startApplication(owner, 'clock', places.clock);
  const endUsers = await startEndUsers(owner, places.keys);

  const identity = await createIdentity(owner);
  progress('starting ctl-discovery');
  const discovery = await startDiscovery(owner, {
    configDir,
    ports: discoveryPorts(places),
    env: identity.discoveryEnv,
    waitReady: false,
  });
  const discoveryEnd = discovery.exited.then((exit) => ended('ctl-discovery', exit, discovery.output()));
  await ready('ctl-discovery is ready', [discoveryEnd], signal, async () => {
    const { status } = await discovery.http('/ready');
    if (status !== 200) throw new Error(`/ready answered ${status}`);
  });

  const proxies = await startProxies(owner, options, identity);
  const redirection = await startRedirectionIfPossible(owner, options, identity);
  const all = [...proxies, ...(typeof redirection === 'string' ? [] : [redirection.orders, redirection.stock])];
  // Hooks run one after the other, so one hook ends all agents at the same time.
  owner.after(async () => void (await Promise.all(all.map(({ agent }) => agent.stop()))));
  const ends = [discoveryEnd, ...all.map(agentEnd), ...helpersEnd(redirection)];
  await Promise.all(all.map(({ workload, agent }) => ready(`${workload} is ready`, ends, signal, readyAt(agent))));
  const broken = Promise.race(ends).then((error) => Promise.reject(error));
  // After an intended stop there may be no handler.
  broken.catch(() => {});
  return { places, configDir, discovery, proxies: all, redirection, endUsers, broken };
}

async function startProxies(
  owner: Owner,
  { places, signal, progress }: MeshOptions,
  identity: DemoIdentity,
): Promise<DemoProxy[]> {
  progress('starting three agents with their Envoys');
  const proxies: DemoProxy[] = [];
  for (const { account, env, ...proxy } of proxiesOf(places)) {
    signal.throwIfAborted();
    const agent = await startAgent(owner, {
      ...proxy,
      podNamespace: 'demo',
      discoveryAddress: `127.0.0.1:${places.secure.port}`,
      env: { ...DRAIN_ENV, ...(await identity.agentEnv(account)), ...env },
      waitReady: false,
    });
    proxies.push({ workload: `${proxy.name}.demo`, agent });
  }
  return proxies;
}

async function startRedirectionIfPossible(
  owner: Owner,
  { places, signal, progress }: MeshOptions,
  identity: DemoIdentity,
): Promise<Redirection | string> {
  const reason = await redirectionUnavailable();
  signal.throwIfAborted();
  if (reason !== undefined) {
    progress(`no workloads in network namespaces: ${reason}; going on with plain loopback`);
    return reason;
  }
  progress('starting two workloads in network namespaces');
  // Services of the samples have one port, which the Sidecar of shop also binds.
  const ports = { securePort: places.secure.port, servicePort: places.shopOutbound.port };
  return await startRedirection(owner, { identity, ...ports, env: DRAIN_ENV, signal });
}

function helpersEnd(redirection: Redirection | string): Promise<Error>[] {
  if (typeof redirection === 'string') return [];
  return redirection.helpers.map((child) => child.exited.then((exit) => ended(child.name, exit, child.output())));
}

function agentEnd({ workload, agent }: DemoProxy): Promise<Error> {
  return agent.exited.then((exit) => ended(`the agent of ${workload}`, exit, agent.output()));
}

const readyAt = (agent: Agent) => async (): Promise<void> => {
  const status = await agent.readiness();
  if (status !== 200) throw new Error(`/healthz/ready answered ${status}`);
};

function discoveryPorts({ grpc, secure, http, monitoring, introspection }: Places) {
  return {
    grpc: grpc.port,
    secure: secure.port,
    http: http.port,
    monitoring: monitoring.port,
    introspection: introspection.port,
  };
}

/** One line about the end of a process, with its last line of output. */
function ended(name: string, { code, signal }: Exit, output: string): Error {
  if (signal !== null) return new Error(`${name} ended with signal ${signal}`);
  const last = output.trim().split('\n').at(-1) ?? '';
  return new Error(`${name} ended with exit code ${code}${last === '' ? '' : `: ${last}`}`);
}

/** Repeats a request until it succeeds. Rejects when a process has ended or the start is aborted. */
async function ready(
  what: string,
  ends: readonly Promise<Error>[],
  signal: AbortSignal,
  attempt: () => Promise<unknown>,
): Promise<void> {
  let end: Error | undefined;
  for (const each of ends) void each.then((error) => (end ??= error));
  await eventually(
    () => {
      if (signal.aborted) throw new GiveUp('stopped while starting');
      if (end !== undefined) throw new GiveUp(end.message);
      return attempt();
    },
    { what, timeoutMs: START_TIMEOUT_MS, intervalMs: 50 },
  );
}
