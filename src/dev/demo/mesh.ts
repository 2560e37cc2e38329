/**
 * The demo mesh: ctl-discovery over a configuration directory, three real Envoys and the applications behind them.
 *
 *   you ─▶ gateway ─┬─▶ hello-v1's sidecar ─▶ hello-v1
 *                   ├─▶ hello-v2 (has no sidecar)
 *                   └─▶ shop's sidecar ─▶ shop ─▶ shop's sidecar ─▶ hello, clock
 */
import {
  type Discovery,
  type Envoy,
  type Exit,
  eventually,
  GiveUp,
  type Owner,
  startDiscovery,
  startEnvoy,
} from '../../../test/harness/index.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import { startApplication } from './applications.ts';
import type { Place, Places } from './ports.ts';

/** How an Envoy of the demo asks for its configuration. */
type Mode = 'sotw' | 'delta';

export interface DemoProxy {
  /** `<pod>.<namespace>`, as the debug interface names it. */
  readonly workload: string;
  readonly envoy: Envoy;
}

export interface DemoMesh {
  readonly places: Places;
  readonly configDir: string;
  readonly discovery: Discovery;
  readonly proxies: readonly DemoProxy[];
  /** Rejects with one line as soon as a process of the mesh has ended by itself; never resolves. */
  readonly broken: Promise<never>;
}

export interface MeshOptions {
  readonly places: Places;
  readonly configDir: string;
  /** Starting stops soon after this is aborted, with an error. */
  readonly signal: AbortSignal;
  /** Told what is done next. */
  readonly progress: (line: string) => void;
}

/** How long the parts of the mesh may take to become ready on a machine that is busy otherwise, milliseconds. */
const START_TIMEOUT_MS = 60_000;

function envoysOf(places: Places) {
  return [
    {
      name: 'gateway',
      type: 'router',
      mode: 'sotw',
      address: '127.0.0.1',
      labels: { app: 'gateway' },
      admin: places.gatewayAdmin,
    },
    {
      name: 'hello-v1',
      type: 'sidecar',
      mode: 'delta',
      address: '127.0.11.1',
      labels: { app: 'hello', version: 'v1' },
      admin: places.helloAdmin,
    },
    {
      name: 'shop',
      type: 'sidecar',
      mode: 'delta',
      address: '127.0.13.1',
      labels: { app: 'shop' },
      admin: places.shopAdmin,
    },
  ] as const satisfies readonly {
    readonly name: string;
    readonly type: 'router' | 'sidecar';
    readonly mode: Mode;
    readonly address: string;
    readonly labels: JsonObject;
    readonly admin: Place;
  }[];
}

/** Starts everything and waits until each Envoy has its configuration. What was started ends with its owner, also on failure. */
export async function startMesh(owner: Owner, options: MeshOptions): Promise<DemoMesh> {
  const { places, configDir, signal, progress } = options;
  await startApplication(owner, 'hello-v1', places.helloV1);
  await startApplication(owner, 'hello-v2', places.helloV2);
  await startApplication(owner, 'shop', places.shop);
  await startApplication(owner, 'clock', places.clock);

  progress('starting ctl-discovery');
  const discovery = await startDiscovery(owner, { configDir, ports: discoveryPorts(places), waitReady: false });
  const discoveryEnd = discovery.exited.then((exit) => ended('ctl-discovery', exit, discovery.output()));
  await ready('ctl-discovery is ready', [discoveryEnd], signal, async () => {
    const { status } = await discovery.http('/ready');
    if (status !== 200) throw new Error(`/ready answered ${status}`);
  });

  progress('starting three Envoys');
  const proxies: DemoProxy[] = [];
  const ends: Promise<Error>[] = [discoveryEnd];
  for (const { name, type, mode, address, labels, admin } of envoysOf(places)) {
    signal.throwIfAborted();
    const envoy = await startEnvoy(owner, {
      id: `${type}~${address}~${name}.demo~demo.svc.cluster.local`,
      metadata: { NAMESPACE: 'demo', LABELS: labels, INTERCEPTION_MODE: 'NONE' },
      mode,
      adminPort: admin.port,
      adsPort: places.grpc.port,
      waitLive: false,
    });
    proxies.push({ workload: `${name}.demo`, envoy });
    ends.push(envoy.exited.then((exit) => ended(`Envoy ${name}`, exit, envoy.output())));
  }
  await Promise.all(
    proxies.map(({ workload, envoy }) => ready(`Envoy ${workload} is live`, ends, signal, () => envoy.admin('/ready'))),
  );
  const broken = Promise.race(ends).then((error) => Promise.reject(error));
  // When the mesh is stopped on purpose, nobody may be listening any more.
  broken.catch(() => {});
  return { places, configDir, discovery, proxies, broken };
}

function discoveryPorts({ grpc, http, monitoring, introspection }: Places) {
  return { grpc: grpc.port, http: http.port, monitoring: monitoring.port, introspection: introspection.port };
}

/** One line saying how a process ended; if by itself, with the last thing it said. */
function ended(name: string, { code, signal }: Exit, output: string): Error {
  if (signal !== null) return new Error(`${name} ended with signal ${signal}`);
  const last = output.trim().split('\n').at(-1) ?? '';
  return new Error(`${name} ended with exit code ${code}${last === '' ? '' : `: ${last}`}`);
}

/** Asks until it answers; gives up as soon as a process has ended or the start is aborted. */
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
