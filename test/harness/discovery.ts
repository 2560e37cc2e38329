/** `ctl-discovery discovery` in a process of its own, from its sources, on free loopback ports. */
import { join } from 'node:path';
import { programEnv, programFile } from './built.ts';
import { type Child, type Exit, startChild } from './child.ts';
import { eventually } from './eventually.ts';
import { freePorts, tempDir } from './files.ts';
import { type Response, request } from './http.ts';
import type { Owner } from './owner.ts';

export interface DiscoveryPorts {
  readonly grpc: number;
  readonly http: number;
  readonly monitoring: number;
  readonly introspection: number;
  /** Port of the secure gRPC address. Absent: any free port, which the test does not learn. */
  readonly secure?: number;
  /** Port of the webhooks. Absent: as of `secure`. */
  readonly https?: number;
}

export interface DiscoveryOptions {
  /** Left out: the configuration comes from the API server of `kubeconfig`. */
  readonly configDir?: string;
  /** Path of a file. */
  readonly kubeconfig?: string;
  /** Variables, merged over a SELF_SIGNED_CA_DIR and a CTL_STATE_DIR in a folder of the owner. */
  readonly env?: Readonly<Record<string, string>>;
  /** Appended to the harness' own flags, so that they take precedence: `['--log_output_level', 'ads:debug']`. */
  readonly flags?: readonly string[];
  /** Ports of an earlier process, for a restart on the same addresses. Default: free ports. */
  readonly ports?: DiscoveryPorts;
  /** Default: that of `programFile`. */
  readonly program?: string;
  /** `false` returns as soon as the process runs. Default true. */
  readonly waitReady?: boolean;
}

export interface Discovery {
  readonly ports: DiscoveryPorts;
  readonly pid: number;
  /** GET on the HTTP port (`/ready`, `/debug/…`). */
  http(path: string): Promise<Response>;
  /** The text of `/metrics` on the monitoring port. */
  metrics(): Promise<string>;
  /** The value of one sample, named as the text form writes it (`name` or `name{label="x"}`); undefined when absent. */
  metric(sample: string): Promise<number | undefined>;
  waitReady(timeoutMs?: number): Promise<void>;
  output(): string;
  readonly exited: Promise<Exit>;
  stop(): Promise<Exit>;
  kill(): Promise<Exit>;
}

/** Ports for a discovery process that are free now. */
export async function discoveryPorts(): Promise<DiscoveryPorts> {
  const [grpc = 0, http = 0, monitoring = 0, introspection = 0, secure = 0, https = 0] = await freePorts(6);
  return { grpc, http, monitoring, introspection, secure, https };
}

/**
 * The authority's directory, per owner and configuration directory, so that a restarted process finds its root.
 */
const caDirs = new WeakMap<Owner, Map<string, Promise<string>>>();

function caDirOf(owner: Owner, configDir: string): Promise<string> {
  const dirs = caDirs.get(owner) ?? new Map<string, Promise<string>>();
  caDirs.set(owner, dirs);
  const dir = dirs.get(configDir) ?? tempDir(owner);
  dirs.set(configDir, dir);
  return dir;
}

/** Starts a discovery process; it ends with its owner. */
export async function startDiscovery(owner: Owner, options: DiscoveryOptions): Promise<Discovery> {
  const ports = options.ports ?? (await discoveryPorts());
  const flags = [
    options.configDir === undefined ? [] : ['--configDir', options.configDir],
    options.kubeconfig === undefined ? [] : ['--kubeconfig', options.kubeconfig],
    ['--grpcAddr', `127.0.0.1:${ports.grpc}`],
    ['--httpAddr', `127.0.0.1:${ports.http}`],
    ['--monitoringAddr', `127.0.0.1:${ports.monitoring}`],
    ['--introspect_port', String(ports.introspection)],
    ['--secureGRPCAddr', `127.0.0.1:${ports.secure ?? 0}`],
    ['--httpsAddr', `127.0.0.1:${ports.https ?? 0}`],
  ].flat();
  const caDir = await caDirOf(owner, options.configDir ?? options.kubeconfig ?? '');
  const child = await startChild(owner, {
    name: 'ctl-discovery',
    command: process.execPath,
    args: [options.program ?? programFile('ctl-discovery'), 'discovery', ...flags, ...(options.flags ?? [])],
    env: { ...programEnv(), SELF_SIGNED_CA_DIR: caDir, CTL_STATE_DIR: join(caDir, 'state'), ...options.env },
  });
  const discovery = controlled(child, ports);
  if (options.waitReady !== false) await discovery.waitReady();
  return discovery;
}

function controlled(child: Child, ports: DiscoveryPorts): Discovery {
  const http = (path: string) => request({ port: ports.http, path });
  const metrics = async () => (await request({ port: ports.monitoring, path: '/metrics' })).body;
  return {
    ports,
    pid: child.pid,
    http,
    metrics,
    async metric(sample) {
      const line = (await metrics()).split('\n').find((text) => text.startsWith(`${sample} `));
      return line === undefined ? undefined : Number(line.slice(sample.length + 1));
    },
    async waitReady(timeoutMs = 60_000) {
      const ready = async () => {
        child.assertRunning();
        const { status } = await http('/ready');
        if (status !== 200) throw new Error(`/ready answered ${status}`);
      };
      await eventually(ready, { timeoutMs, what: 'ctl-discovery is ready' });
    },
    output: child.output,
    exited: child.exited,
    stop: child.stop,
    kill: child.kill,
  };
}
