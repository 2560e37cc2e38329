/** Real Envoys: the binary that set-up installs, started with a written bootstrap and driven through its admin port. */
import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { JsonValue } from '../../src/protobuf/index.ts';
import { type BootstrapOptions, bootstrapJson } from './bootstrap.ts';
import { type Child, type Exit, startChild } from './child.ts';
import { eventually } from './eventually.ts';
import { freePort, tempDir } from './files.ts';
import { request } from './http.ts';
import type { Namespace } from './netns.ts';
import type { Owner } from './owner.ts';

/** The Envoy binary; `npm test` and the other npm scripts set ENVOY_PATH. */
export function envoyPath(): string {
  return process.env.ENVOY_PATH ?? join(import.meta.dirname, '../../.cache/envoy-1.40.0/envoy/_bin/envoy');
}

/** The oldest Envoy that must accept generated configuration; `npm test` sets OLDEST_ENVOY_PATH. */
export function oldestEnvoyPath(): string {
  return process.env.OLDEST_ENVOY_PATH ?? join(import.meta.dirname, '../../.cache/envoy-1.36.2/envoy/_bin/envoy');
}

export interface EnvoyOptions extends Omit<BootstrapOptions, 'adminPort' | 'adminAddress' | 'ads'> {
  /** Default: {@link envoyPath}. */
  readonly program?: string;
  /** Default: a free one. */
  readonly adminPort?: number;
  /** Where ADS is served on `adsAddress`; none means static resources only. */
  readonly adsPort?: number;
  /** Default 127.0.0.1. */
  readonly adsAddress?: string;
  /** Default `sotw`. */
  readonly mode?: 'sotw' | 'delta';
  /** Runs it inside, with its admin port on the loopback there. */
  readonly namespace?: Namespace;
  /** Runs Envoy as this user, so that redirection rules can recognize it; needs root. */
  readonly uid?: number;
  /** That user may open transparent sockets, which redirection by TPROXY needs. */
  readonly transparent?: boolean;
  /** `false` returns as soon as the process runs, before it has its configuration. Default true. */
  readonly waitLive?: boolean;
  /** Default `warning`. */
  readonly logLevel?: 'trace' | 'debug' | 'info' | 'warning' | 'error';
}

export interface Envoy {
  readonly id: string;
  readonly adminPort: number;
  readonly pid: number;
  /** A request, by default GET, to the admin port; throws unless the answer is 200. */
  admin(path: string, method?: string): Promise<string>;
  /** Waits until Envoy says LIVE: it then has its first clusters and listeners. */
  waitLive(timeoutMs?: number): Promise<void>;
  /** `/config_dump` with endpoints, as parsed JSON. */
  configDump(): Promise<{ readonly configs: readonly Readonly<Record<string, unknown>>[] }>;
  /** Counters and gauges whose names match the regular expression. */
  stats(filter: string): Promise<Readonly<Record<string, number>>>;
  output(): string;
  readonly exited: Promise<Exit>;
  stop(): Promise<Exit>;
  kill(): Promise<Exit>;
}

/** Starts an Envoy; it ends with its owner. */
export async function startEnvoy(owner: Owner, options: EnvoyOptions): Promise<Envoy> {
  const { id, namespace, adsPort, adsAddress = '127.0.0.1', mode = 'sotw', logLevel = 'warning' } = options;
  const adminPort = options.adminPort ?? (await freePort());
  const ads = adsPort === undefined ? {} : { ads: { address: adsAddress, port: adsPort, mode } };
  const folder = await tempDir(owner);
  const config = join(folder, 'bootstrap.json');
  const bootstrap = bootstrapJson({ ...options, ...ads, adminAddress: '127.0.0.1', adminPort });
  await writeFile(config, JSON.stringify(bootstrap));
  // A proxy of another user must be able to read it.
  await chmod(folder, 0o755);
  const flags = ['--concurrency', '1', '--disable-hot-restart', '--use-dynamic-base-id', '--log-level', logLevel];
  const argv = asUser([options.program ?? envoyPath(), '--config-path', config, ...flags], options);
  const name = `envoy ${id}`;
  const child = namespace === undefined ? await startArgv(owner, name, argv) : await namespace.start(name, argv);
  const envoy = controlled(child, id, adminPort, namespace);
  if (options.waitLive !== false) await envoy.waitLive();
  return envoy;
}

/** The command line that runs `argv` as a user, with the one capability that transparent sockets need or none. */
export function asUser(
  argv: readonly string[],
  { uid, transparent = false }: { readonly uid?: number | undefined; readonly transparent?: boolean | undefined },
): string[] {
  if (uid === undefined) return [...argv];
  const capabilities = transparent ? ['--inh-caps=+net_admin', '--ambient-caps=+net_admin'] : [];
  return ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', ...capabilities, ...argv];
}

function startArgv(owner: Owner, name: string, argv: readonly string[]): Promise<Child> {
  const [command = '', ...args] = argv;
  return startChild(owner, { name, command, args });
}

function controlled(child: Child, id: string, adminPort: number, namespace: Namespace | undefined): Envoy {
  const admin = async (path: string, method = 'GET'): Promise<string> => {
    if (namespace !== undefined) {
      const url = `http://127.0.0.1:${adminPort}${path}`;
      return namespace.run('curl', '-sS', '--fail', '--max-time', '15', '--request', method, url);
    }
    const answer = await request({ port: adminPort, path, method });
    if (answer.status !== 200) throw new Error(`envoy ${id}: ${path} answered ${answer.status}: ${answer.body}`);
    return answer.body;
  };
  return {
    id,
    adminPort,
    pid: child.pid,
    admin,
    output: child.output,
    exited: child.exited,
    stop: child.stop,
    kill: child.kill,
    async waitLive(timeoutMs = 30_000) {
      const ready = () => {
        child.assertRunning();
        return admin('/ready');
      };
      await eventually(ready, { timeoutMs, what: `envoy ${id} is LIVE` });
    },
    async configDump() {
      return JSON.parse(await admin('/config_dump?include_eds')) as { configs: Record<string, unknown>[] };
    },
    async stats(filter) {
      const text = await admin(`/stats?filter=${encodeURIComponent(filter)}&format=json`);
      const { stats } = JSON.parse(text) as { stats: { name?: string; value?: number }[] };
      return Object.fromEntries(stats.flatMap(({ name, value }) => (name === undefined ? [] : [[name, value ?? 0]])));
    },
  };
}

/** Runs `envoy --mode validate` on a bootstrap in JSON form; rejects with Envoy's message when it refuses it. */
export async function validateBootstrap(owner: Owner, bootstrap: JsonValue): Promise<void> {
  const config = join(await tempDir(owner), 'bootstrap.json');
  await writeFile(config, JSON.stringify(bootstrap));
  await promisify(execFile)(envoyPath(), ['--mode', 'validate', '--disable-hot-restart', '--config-path', config]);
}
