/**
 * The state of the mesh that the demo shows, read from the debug interface and metrics of ctl-discovery.
 */
import { relative, resolve } from 'node:path';
import type { Discovery } from '../../test/harness/index.ts';

/** How many resources of each type a proxy should have. */
export interface Held {
  readonly clusters: number;
  readonly listeners: number;
  readonly routes: number;
  readonly endpoints: number;
}

export interface ProxyState {
  readonly workload: string;
  /** `sotw` or `delta`; undefined while it is not connected. */
  readonly protocol: string | undefined;
  readonly sync: 'synced' | 'waiting' | 'rejected' | 'not connected';
  /** Envoy's message for a rejection. */
  readonly rejection?: string;
  readonly held?: Held;
}

/**
 * Convergence since the start of ctl-discovery: the number of updated proxies and the sum of their times, seconds.
 */
export interface Convergence {
  readonly count: number;
  readonly sum: number;
}

export interface MeshState {
  readonly proxies: readonly ProxyState[];
  readonly convergence: Convergence;
  /** Documents that were refused, one line each. */
  readonly problems: readonly string[];
}

interface SyncLine {
  readonly proxy: string;
  readonly [key: string]: unknown;
}

interface AdszClient {
  /** Node id. */
  readonly proxy: string;
  readonly protocol: string;
}

interface Problem {
  readonly key?: string;
  readonly origin: { readonly file?: string; readonly line?: number };
  readonly field: string;
  readonly message: string;
}

interface ConfigDump {
  readonly configs: readonly Readonly<Record<string, unknown>>[];
}

const TYPES = ['cluster', 'listener', 'route', 'endpoint'] as const;

/** The sync state of a proxy, from its entry in `/debug/syncz`. */
export function syncOf(line: SyncLine): Pick<ProxyState, 'sync' | 'rejection'> {
  for (const type of TYPES) {
    const rejected = line[`${type}_rejected`] as { readonly message?: string } | undefined;
    if (line[`${type}_state`] === 'REJECTED') return { sync: 'rejected', rejection: rejected?.message ?? type };
  }
  const states = TYPES.map((type) => line[`${type}_state`]);
  const synced = states.includes('SYNCED') && !states.includes('STALE');
  return { sync: synced ? 'synced' : 'waiting' };
}

/** Counts the resources of a configuration dump. */
export function heldOf({ configs }: ConfigDump): Held {
  const count = (list: string) => configs.reduce((sum, config) => sum + lengthOf(config[list]), 0);
  return {
    clusters: count('dynamic_active_clusters'),
    listeners: count('dynamic_listeners'),
    routes: count('dynamic_route_configs'),
    endpoints: count('dynamic_endpoint_configs'),
  };
}

const lengthOf = (value: unknown): number => (Array.isArray(value) ? value.length : 0);

/** Sum and count of `ctl_proxy_convergence_time` in Prometheus text, over all labels. */
export function convergenceOf(metrics: string): Convergence {
  const total = (suffix: string) =>
    metrics
      .split('\n')
      .filter((line) => new RegExp(`^ctl_proxy_convergence_time_${suffix}[ {]`).test(line))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  return { count: total('count'), sum: total('sum') };
}

/**
 * `file:line: field: message`, as far as known. Without a file it has the key of the resource. Files are relative to
 * `folder`.
 */
export function problemLine({ origin, key, field, message }: Problem, folder: string): string {
  const { file, line } = origin;
  const name = file === undefined ? key : relative(folder, resolve(folder, file));
  const place = name !== undefined && line !== undefined ? `${name}:${line}` : name;
  return [place, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}

async function page<T>(discovery: Discovery, path: string): Promise<T> {
  const answer = await discovery.http(`/debug/${path}`);
  if (answer.status !== 200) throw new Error(`/debug/${path} answered ${answer.status}: ${answer.body.trim()}`);
  return answer.json() as T;
}

/** Where to read the state. */
export interface Subject {
  readonly discovery: Discovery;
  readonly configDir: string;
  /** Proxies that should be there. */
  readonly proxies: readonly { readonly workload: string }[];
}

/** Reads the state of the mesh; rejects when ctl-discovery does not answer. */
export async function readState({ discovery, configDir, proxies }: Subject): Promise<MeshState> {
  const [lines, { clients }, { problems }, metrics] = await Promise.all([
    page<readonly SyncLine[]>(discovery, 'syncz'),
    page<{ readonly clients: readonly AdszClient[] }>(discovery, 'adsz'),
    page<{ readonly problems: readonly Problem[] }>(discovery, 'configz'),
    discovery.metrics(),
  ]);
  const expected = proxies.map(({ workload }) => workload);
  // Other proxies are shown as well.
  const others = lines.map(({ proxy }) => proxy).filter((workload) => !expected.includes(workload));
  const states = [...expected, ...new Set(others)].map(async (workload): Promise<ProxyState> => {
    const line = lines.find(({ proxy }) => proxy === workload);
    const protocol = clients.find(({ proxy }) => proxy.split('~')[2] === workload)?.protocol;
    if (line === undefined || protocol === undefined) return { workload, protocol: undefined, sync: 'not connected' };
    const answer = await discovery.http(`/debug/config_dump?proxyID=${workload}`);
    // It may have disconnected since it was listed.
    const held = answer.status === 200 ? { held: heldOf(answer.json() as ConfigDump) } : {};
    return { workload, protocol, ...syncOf(line), ...held };
  });
  return {
    proxies: await Promise.all(states),
    convergence: convergenceOf(metrics),
    problems: problems.map((problem) => problemLine(problem, configDir)),
  };
}

/** The state while ctl-discovery does not answer. */
export function unknownState({ proxies }: Subject, convergence: Convergence, error: unknown): MeshState {
  const why = error instanceof Error ? error.message : String(error);
  return {
    proxies: proxies.map(({ workload }) => ({ workload, protocol: undefined, sync: 'not connected' })),
    convergence,
    problems: [`ctl-discovery does not answer: ${why}`],
  };
}
