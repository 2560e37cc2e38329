/** `ctl-discovery discovery` as its own process: as built, or from its sources, with a profiler when asked. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';
import { buildAside, programEnv } from '../test/harness/built.ts';
import { type Child, startChild } from '../test/harness/child.ts';
import { eventually } from '../test/harness/eventually.ts';
import { tempDir } from '../test/harness/files.ts';
import { request } from '../test/harness/http.ts';
import { createScope, type Owner } from '../test/harness/owner.ts';
import { readSamples, type Samples } from './metrics.ts';
import type { BenchOptions } from './options.ts';
import { type ServerPorts, serverPorts } from './ports.ts';
import { cpuSeconds, type Memory, memoryOf } from './process-stats.ts';
import { monotonicMs } from './world/clock.ts';

const REPOSITORY = join(import.meta.dirname, '..');
const READY_TIMEOUT_MS = 60_000;

/**
 * The program that is measured. It is built into a folder of its own, so that another build does not replace it during
 * the run, or was built for all tests (`TEST_PROGRAMS`).
 */
export async function programFor(
  owner: Owner,
  { server, peer }: Pick<BenchOptions, 'server' | 'peer'>,
): Promise<string> {
  if (peer !== '') return resolve(peer);
  if (server === 'sources') return join(REPOSITORY, 'src/ctl-discovery.ts');
  return join(process.env.TEST_PROGRAMS ?? (await buildAside(owner)), 'ctl-discovery.js');
}

/** The program of another checkout, which was built there. */
export function programOf(checkout: string): string {
  const program = resolve(checkout, 'dist/ctl-discovery.js');
  if (!existsSync(program)) throw new Error(`--against: there is no ${program}; run "npm run build" in that checkout`);
  return program;
}

export interface ServerTls {
  readonly certificate: string;
  readonly key: string;
  /** The authority of the clients' certificates. */
  readonly ca: string;
}

export interface ServerOptions {
  readonly program: string;
  /** One of these two. */
  readonly configDir?: string;
  readonly kubeconfig?: string;
  /** The file of the mesh configuration; default: none. */
  readonly meshConfig?: string;
  /** Further flags. */
  readonly flags?: readonly string[];
  /** Added to the environment of the server. */
  readonly env?: Readonly<Record<string, string>>;
  /** Ports of an earlier process, for a restart on the same addresses. */
  readonly ports?: ServerPorts;
  /** Files for the secure gRPC address; without them there is none. */
  readonly tls?: ServerTls;
  /** Serves webhooks, with the files of `tls`. */
  readonly webhooks?: boolean;
  /** Folder for CPU profiles, written when the server stops. */
  readonly profiles?: string;
}

export interface Server {
  readonly pid: number;
  readonly ports: ServerPorts;
  /** Monotonic ms at which the process was started, and at which it reported that it is ready. */
  readonly startedAt: number;
  readonly readyAt: number;
  samples(): Promise<Samples>;
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** By configuration directory, so that a restarted server finds the state of the one before. */
const keptFolders = new WeakMap<Owner, Map<string, Promise<string>>>();

/** A state directory that no other server uses. */
function keptFolder(owner: Owner, configDir: string): Promise<string> {
  const folders = keptFolders.get(owner) ?? new Map<string, Promise<string>>();
  keptFolders.set(owner, folders);
  const folder = folders.get(configDir) ?? tempDir(owner);
  folders.set(configDir, folder);
  return folder;
}

export async function startServer(owner: Owner, options: ServerOptions): Promise<Server> {
  const ports = options.ports ?? (await serverPorts());
  const isPeer = extname(options.program) === '';
  const profiling = options.profiles === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', options.profiles];
  const flags = [
    options.configDir === undefined ? [] : ['--configDir', options.configDir],
    options.kubeconfig === undefined ? [] : ['--kubeconfig', options.kubeconfig],
    options.meshConfig === undefined ? [] : ['--meshConfig', options.meshConfig],
    ['--grpcAddr', `127.0.0.1:${ports.grpc}`],
    ['--httpAddr', `127.0.0.1:${ports.http}`],
    ['--monitoringAddr', `127.0.0.1:${ports.monitoring}`],
    isPeer ? await peerFlags(owner, ports) : ['--introspect_port', String(ports.introspection)],
    // A log line for each connection would distort the measurement.
    ['--log_output_level', 'default:info,ads:warn'],
    ['--secureGRPCAddr', `127.0.0.1:${ports.secure}`],
    ['--httpsAddr', options.webhooks === true ? `127.0.0.1:${ports.https}` : ''],
    ...tlsFlags(options.tls),
    options.flags ?? [],
  ].flat();
  const folder = await keptFolder(owner, options.configDir ?? options.kubeconfig ?? '');
  const startedAt = monotonicMs();
  const child = await startChild(owner, {
    name: isPeer ? 'peer' : 'ctl-discovery',
    command: isPeer ? options.program : process.execPath,
    args: isPeer ? ['discovery', ...flags] : [...profiling, options.program, 'discovery', ...flags],
    // The push engine is measured. Making a CA key at startup would add 0.1 to 2 CPU s at random. So there is no
    // authority, and no TLS without files for it.
    env: {
      ...programEnv(),
      ENABLE_CA_SERVER: 'false',
      CTL_CERT_PROVIDER: 'none',
      PILOT_CERT_PROVIDER: 'none',
      SELF_SIGNED_CA_DIR: join(folder, 'ca'),
      CTL_STATE_DIR: join(folder, 'state'),
      ...options.env,
    },
  });
  await waitReady(child, ports);
  const readyAt = monotonicMs();
  return {
    pid: child.pid,
    ports,
    startedAt,
    readyAt,
    samples: async () => readSamples((await request({ port: ports.monitoring, path: '/metrics' })).body),
    stop: async () => void (await child.stop()),
    kill: async () => void (await child.kill()),
  };
}

/** What a start costs until the server is ready. */
export interface StartCost extends Pick<Memory, 'rssMiB' | 'peakMiB'> {
  readonly milliseconds: number;
  readonly cpu: number;
}

/** One start until ready, in a process of its own. */
export async function measureStart(start: (owner: Owner) => Promise<Server>): Promise<StartCost> {
  const scope = createScope();
  try {
    const { pid, readyAt, startedAt } = await start(scope);
    const { rssMiB, peakMiB } = memoryOf(pid);
    return { milliseconds: readyAt - startedAt, cpu: cpuSeconds(pid), rssMiB, peakMiB };
  } finally {
    await scope.close();
  }
}

/** Without the files it would wait for ConfigMaps; it has the introspection port under another name. */
async function peerFlags(owner: Owner, ports: ServerPorts): Promise<string[]> {
  const file = join(await tempDir(owner), 'empty.yaml');
  await writeFile(file, '{}');
  return [
    ['--meshConfig', file],
    ['--networksConfig', file],
    ['--ctrlz_port', String(ports.introspection)],
  ].flat();
}

function tlsFlags(tls: ServerTls | undefined): string[][] {
  if (tls === undefined) return [];
  return [
    ['--tlsCertFile', tls.certificate],
    ['--tlsKeyFile', tls.key],
    ['--caCertFile', tls.ca],
  ];
}

function waitReady(child: Child, ports: ServerPorts): Promise<void> {
  const ready = async (): Promise<void> => {
    child.assertRunning();
    const { status } = await request({ port: ports.http, path: '/ready' });
    if (status !== 200) throw new Error(`/ready answered ${status}`);
  };
  return eventually(ready, { timeoutMs: READY_TIMEOUT_MS, intervalMs: 5, what: 'ctl-discovery is ready' });
}
