/**
 * The objects of the Gateway API as the API server has them now, with their status: each kind that it serves is listed
 * and watched. Kinds come and go with their definitions, which are watched: after each change API discovery is read
 * again, until it agrees with them.
 */
import { backoff } from '../core/backoff.ts';
import type { Timer } from '../core/clock.ts';
import { createFailureLog, type FailureLog } from '../core/log.ts';
import { ApiError, type KubernetesObject, Reflector, type ResourceType } from '../kubernetes/index.ts';
import { type DefinitionVersions, VERSION_ANNOTATION } from './definition-versions.ts';
import { reportFailure } from './failures.ts';
import { FollowedKind, type FollowedObject, type FollowedOptions } from './followed-kind.ts';
import { GATEWAY_GROUP, isRecord, recordsOf, STATUS_KINDS } from './types.ts';

/** Until API discovery is read after a change of definitions, ms: many are applied at once. */
const DISCOVERY_MS = 100;
/** Until it is read again when that failed, or did not agree with the definitions; at first, and at most. */
const RETRY_BASE_MS = 1_000;
const RETRY_MAX_MS = 60_000;

const DEFINITIONS: ResourceType = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
  metadataOnly: true,
};

interface Definition {
  readonly name: string;
  readonly version: string | undefined;
}

export class FollowedObjects {
  readonly #options: FollowedOptions;
  readonly #failures: FailureLog;
  /** By kind of the store. */
  readonly #kinds = new Map<string, FollowedKind>();
  readonly #definitions: Reflector<Definition>;
  /** Versions of the group's definitions by plural; undefined until they are listed. */
  #defined: Map<string, string | undefined> | undefined;
  /** Whether definitions cannot be watched now. */
  #isBlind = false;
  #timer: Timer | undefined;
  #discovering = false;
  #again = false;
  /** Reads of discovery in a row that failed or did not agree. */
  #attempts = 0;
  #closed = false;

  constructor(options: FollowedOptions) {
    this.#options = options;
    const what = `the kinds of ${GATEWAY_GROUP}`;
    this.#failures = createFailureLog(options.log, `${what} cannot be read`, `${what} are read again`);
    this.#definitions = this.#followDefinitions();
  }

  start(): void {
    this.#definitions.start();
    void this.#discover();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await Promise.all([this.#definitions, ...this.#kinds.values()].map((each) => each.close()));
  }

  get(key: string): FollowedObject | undefined {
    return this.#kinds.get(kindOf(key))?.get(key);
  }

  /** Whether the objects of this kind are listed: one that `get` does not know then does not exist. */
  isSynced(kind: string): boolean {
    return this.#kinds.get(kind)?.isSynced ?? false;
  }

  *keysOf(kind: string): Iterable<string> {
    yield* this.#kinds.get(kind)?.keys() ?? [];
  }

  /** What a write returned, which the watch reports later. */
  replace(key: string, object: KubernetesObject): void {
    this.#kinds.get(kindOf(key))?.replace(key, object);
  }

  /** Versions of the definitions; undefined until they are listed. */
  get versions(): DefinitionVersions | undefined {
    return this.#defined;
  }

  #followDefinitions(): Reflector<Definition> {
    const { client, clock, random } = this.#options;
    return new Reflector<Definition>(
      { connection: client.connection, type: DEFINITIONS, clock, random },
      {
        convert: ({ metadata }) => ({ name: metadata.name, version: metadata.annotations?.[VERSION_ANNOTATION] }),
        onList: (definitions) => {
          this.#defined = new Map(
            definitions.flatMap(({ name, version }) => {
              const plural = pluralOf(name);
              return plural === undefined ? [] : [[plural, version] as const];
            }),
          );
          this.#definitionsChanged();
        },
        onChanges: (changes) => {
          for (const change of changes) {
            const plural = pluralOf(change.type === 'set' ? change.item.name : change.object.metadata.name);
            if (plural === undefined) continue;
            if (change.type === 'set') this.#defined?.set(plural, change.item.version);
            else this.#defined?.delete(plural);
            this.#definitionsChanged();
          }
        },
        // The source reports it; discovery is read at intervals.
        onFailure: () => {
          this.#isBlind = true;
          if (this.#timer === undefined) this.#discoverAfter(RETRY_MAX_MS);
        },
        onRecovered: () => {
          this.#isBlind = false;
        },
      },
    );
  }

  #definitionsChanged(): void {
    this.#attempts = 0;
    this.#options.onChanged([...this.keysOf('GatewayClass')]);
    this.#discoverAfter(DISCOVERY_MS);
  }

  #discoverAfter(ms: number): void {
    this.#timer?.cancel();
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      void this.#discover();
    });
  }

  async #discover(): Promise<void> {
    if (this.#discovering) {
      this.#again = true;
      return;
    }
    this.#discovering = true;
    this.#again = false;
    let agrees = false;
    try {
      const { types, plurals } = await this.#served();
      if (this.#closed) return;
      for (const [kind, apiKind] of Object.entries(STATUS_KINDS)) this.#follow(kind, types.get(apiKind));
      agrees = !this.#isBlind && new Set(this.#defined?.keys()).symmetricDifference(plurals).size === 0;
      this.#failures.succeeded();
    } catch (error) {
      if (!this.#closed) reportFailure(this.#failures, error);
    } finally {
      this.#discovering = false;
    }
    if (this.#again) this.#discoverAfter(DISCOVERY_MS);
    else if (!agrees && this.#timer === undefined) {
      this.#discoverAfter(backoff(++this.#attempts, RETRY_BASE_MS, RETRY_MAX_MS, this.#options.random));
    }
  }

  /** The kinds that have a status subresource, each in the version that the server prefers, and plurals of all kinds. */
  async #served(): Promise<{
    readonly types: ReadonlyMap<string, ResourceType>;
    readonly plurals: ReadonlySet<string>;
  }> {
    const types = new Map<string, ResourceType>();
    const plurals = new Set<string>();
    for (const version of await this.#groupVersions()) {
      const list = await this.#json(`/apis/${GATEWAY_GROUP}/${version}`);
      const resources = recordsOf(isRecord(list) ? list.resources : undefined);
      const names = new Set(resources.map(({ name }) => name));
      for (const { name, kind, namespaced } of resources) {
        if (typeof name !== 'string' || typeof kind !== 'string' || name.includes('/')) continue;
        plurals.add(name);
        if (types.has(kind) || !names.has(`${name}/status`)) continue;
        types.set(kind, { group: GATEWAY_GROUP, version, plural: name, kind, namespaced: namespaced === true });
      }
    }
    return { types, plurals };
  }

  async #groupVersions(): Promise<readonly string[]> {
    try {
      const group = await this.#json(`/apis/${GATEWAY_GROUP}`);
      const versions = recordsOf(isRecord(group) ? group.versions : undefined);
      return versions.map(({ version }) => version).filter((version) => typeof version === 'string');
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return [];
      throw error;
    }
  }

  #json(path: string): Promise<unknown> {
    return this.#options.client.json({ method: 'GET', path });
  }

  #follow(kind: string, type: ResourceType | undefined): void {
    const before = this.#kinds.get(kind);
    if (before?.type.version === type?.version) return;
    if (before !== undefined) {
      this.#kinds.delete(kind);
      void before.close();
      this.#options.onChanged([...before.keys()]);
    }
    if (type === undefined || this.#closed) return;
    const followed = new FollowedKind({ ...this.#options, kind, type });
    this.#kinds.set(kind, followed);
    followed.start();
  }
}

/** The plural of a definition of the group; undefined for those of other groups. */
function pluralOf(definition: string): string | undefined {
  return definition.endsWith(`.${GATEWAY_GROUP}`) ? definition.slice(0, -GATEWAY_GROUP.length - 1) : undefined;
}

/** The kind of the object that a key is for. */
function kindOf(key: string): string {
  return key.slice(0, key.indexOf('/'));
}
