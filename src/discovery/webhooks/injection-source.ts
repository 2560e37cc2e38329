/**
 * Follows the settings of injection: the documents of the user and the mesh configuration. Settings that cannot be used
 * leave the last good ones in force. At startup there are no previous ones, so Pods are refused: a Pod without its
 * sidecar could bypass the policies of the mesh.
 *
 *   files, else ConfigMap ──texts──▶ check (in the worker) ──good──▶ admission pool
 *
 * Where there is a cluster, its API server calls the webhook: the check has the worker load its code before this
 * program is ready. Elsewhere settings without documents of the user are good, and the worker is started when somebody
 * calls.
 */
import { type Clock, sleep } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SourceStatus } from '../../debug/index.ts';
import type { Connection } from '../../kubernetes/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { AdmissionPool, ConfigText, InjectionSettings } from '../../webhooks/index.ts';
import { type Followed, followValue, openConfigMap } from '../config/followed-value.ts';
import { injectionSettings } from '../config/webhook-settings.ts';

/** Directory of the files `config` and `values`. */
export const INJECTION_DIRECTORY = './var/lib/mesh/inject';

/** The ConfigMap with the same keys, without its revision. */
const CONFIG_MAP = 'mesh-sidecar-injector';

/** Interval of attempts to check settings while the worker cannot, and to read a file, ms. */
const RETRY_MS = 5000;

export interface InjectionSourceOptions {
  readonly settings: DiscoverySettings;
  /** The connection to the cluster; undefined if no cluster is read. */
  readonly connection: Connection | undefined;
  readonly mesh: MeshConfig;
  readonly pool: Pick<AdmissionPool, 'check' | 'use'>;
  readonly log: Log;
  readonly clock: Clock;
  /** Default: INJECTION_DIRECTORY. */
  readonly directory?: string;
}

export class InjectionSource {
  readonly #options: InjectionSourceOptions;
  /** For messages. */
  readonly #title: string;
  readonly #followed: Readonly<Record<'config' | 'values', Followed<ConfigText | undefined>>>;
  readonly #map: ReturnType<typeof openConfigMap>;
  readonly #closing = new AbortController();
  #mesh: MeshConfig;
  #texts: Pick<InjectionSettings, 'config' | 'values'> = { config: undefined, values: undefined };
  #isRead = false;
  /** JSON of the settings that were checked last, or are being checked. */
  #candidate: string | undefined;
  /** Some settings have been found to be good, or all that were read have a problem. */
  #isDecided = false;
  #isUsable = false;
  #problem: string | undefined;

  /** @throws CtlError when REVISION is not a name */
  constructor(options: InjectionSourceOptions) {
    this.#options = options;
    this.#mesh = options.mesh;
    const { settings, connection, log, directory = INJECTION_DIRECTORY } = options;
    this.#map = openConfigMap(settings, connection, CONFIG_MAP, log);
    this.#title = this.#map?.title ?? directory;
    const follow = (key: 'config' | 'values', what: string): Followed<ConfigText | undefined> =>
      followValue<ConfigText | undefined>({
        path: `${directory}/${key}`,
        key,
        what,
        read: (text, origin) => ({ value: { text, origin } }),
        defaultValue: undefined,
        onValue: (value) => {
          this.#texts = { ...this.#texts, [key]: value };
          if (this.#isRead) void this.#decide();
        },
        beforeRetry: (error) => this.#beforeRetry(error),
        map: this.#map,
        resyncMs: settings.resyncMs,
        log,
      });
    this.#followed = {
      config: follow('config', 'configuration of injection'),
      values: follow('values', 'values of injection'),
    };
  }

  start(): void {
    this.#map?.followed.start();
    const read = Object.entries(this.#followed).map(async ([key, { first }]) => {
      const value = await first;
      this.#texts = { ...this.#texts, [key]: value };
    });
    Promise.all(read).then(
      () => {
        this.#isRead = true;
        return this.#decide();
      },
      (error) => {
        if (!this.#closing.signal.aborted) this.#refuse(oneLineOf(error));
      },
    );
  }

  /** A file exists and cannot be read. Rejects when the program ends. */
  async #beforeRetry(error: unknown): Promise<void> {
    const { signal } = this.#closing;
    const problem = oneLineOf(error);
    if (problem !== this.#problem) this.#refuse(problem);
    await sleep(this.#options.clock, RETRY_MS, signal);
    if (signal.aborted) throw error;
  }

  /** The mesh configuration has changed. */
  configure(mesh: MeshConfig): void {
    this.#mesh = mesh;
    if (this.#isRead) void this.#decide();
  }

  /** The state of the inputs, as that of a source that readiness waits for. */
  status(): readonly SourceStatus[] {
    const { clusterID: cluster } = this.#options.settings;
    const health = this.#problem === undefined ? { ok: true as const } : { ok: false as const, reason: this.#problem };
    return [{ id: `injection (${this.#title})`, cluster, synced: this.#isDecided, health }];
  }

  /** What the user has written, whether or not it can be used. */
  texts(): { readonly config?: string; readonly values?: string } {
    const { config, values } = this.#texts;
    return {
      ...(config !== undefined && { config: config.text }),
      ...(values !== undefined && { values: values.text }),
    };
  }

  /** Whether settings have been read and judged. */
  get isReady(): boolean {
    return this.#isDecided;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...Object.values(this.#followed).map((each) => each.close()), this.#map?.followed.close()]);
  }

  async #decide(): Promise<void> {
    const { settings, connection, pool, log, clock } = this.#options;
    const { config, values } = this.#texts;
    const candidate = injectionSettings(settings, this.#mesh, this.#texts);
    const text = JSON.stringify(candidate);
    if (text === this.#candidate) return;
    this.#candidate = text;
    const { signal } = this.#closing;
    while (connection !== undefined || config !== undefined || values !== undefined) {
      try {
        const problem = await pool.check(candidate);
        if (this.#candidate !== text || signal.aborted) return;
        if (problem !== undefined) return this.#refuse(problem);
        break;
      } catch (error) {
        if (this.#candidate !== text || signal.aborted) return;
        this.#problem = oneLineOf(error);
        log.error(`injection: settings cannot be checked: ${this.#problem}; retrying`);
        await sleep(clock, RETRY_MS, signal);
      }
    }
    if (this.#problem !== undefined) log.info('injection: the settings are valid');
    this.#problem = undefined;
    this.#isDecided = true;
    this.#isUsable = true;
    pool.use(candidate);
  }

  #refuse(problem: string): void {
    this.#problem = problem;
    this.#isDecided = true;
    const kept = this.#isUsable
      ? 'the last good settings stay in use'
      : 'Pods are rejected until the settings are corrected';
    this.#options.log.error(`injection: ${problem}; ${kept}`);
  }
}
