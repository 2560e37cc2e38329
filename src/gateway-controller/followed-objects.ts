/**
 * The objects of the Gateway API as the API server has them now, with their status: each kind that it serves is listed
 * and watched. Kinds come and go with their definitions, which are watched: after each change API discovery is read
 * again, until it agrees with them.
 */
import { backoff } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import {
  ApiError,
  type KubernetesClient,
  type KubernetesObject,
  Reflector,
  type ResourceType,
} from '../kubernetes/index.ts';
import { reportFailure } from './failures.ts';
import { GATEWAY_GROUP, isRecord, recordsOf, STATUS_KINDS, type StatusFields } from './types.ts';

/** What is kept of an object. */
export interface FollowedObject {
  readonly type: ResourceType;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly status: StatusFields;
  /** Of Gateways and GatewayClasses only. */
  readonly spec: StatusFields;
}

export interface FollowedOptions {
  readonly client: KubernetesClient;
  /** Objects in other namespaces are left out; empty: all namespaces. */
  readonly namespaces: readonly string[];
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Keys of objects that were added, changed or removed. */
  onChanged(keys: readonly string[]): void;
}

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

interface Followed {
  readonly type: ResourceType;
  readonly reflector: Reflector<FollowedObject>;
  readonly objects: Map<string, FollowedObject>;
  synced: boolean;
}

export function followedKey(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

function converted(type: ResourceType, { metadata, status, spec }: KubernetesObject): FollowedObject {
  const { namespace = '', name, uid = '', resourceVersion = '', annotations = {} } = metadata;
  const read = type.kind === 'Gateway' || type.kind === 'GatewayClass';
  return {
    type,
    namespace,
    name,
    uid,
    resourceVersion,
    annotations: read ? annotations : {},
    status: isRecord(status) ? status : {},
    spec: read && isRecord(spec) ? spec : {},
  };
}

export class FollowedObjects {
  readonly #options: FollowedOptions;
  readonly #failures: FailureLog;
  /** By kind of the store. */
  readonly #kinds = new Map<string, Followed>();
  readonly #definitions: Reflector<string>;
  /** Plurals of the group's definitions; undefined until they are listed. */
  #defined: Set<string> | undefined;
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
    const reflectors = [...this.#kinds.values()].map(({ reflector }) => reflector);
    await Promise.all([this.#definitions, ...reflectors].map((reflector) => reflector.close()));
  }

  get(key: string): FollowedObject | undefined {
    return this.#kinds.get(key.slice(0, key.indexOf('/')))?.objects.get(key);
  }

  /** Whether the objects of this kind are listed: one that `get` does not know then does not exist. */
  isSynced(kind: string): boolean {
    return this.#kinds.get(kind)?.synced ?? false;
  }

  *keysOf(kind: string): Iterable<string> {
    yield* this.#kinds.get(kind)?.objects.keys() ?? [];
  }

  /** What a write returned, which the watch reports later. */
  replace(key: string, object: KubernetesObject): void {
    const kind = this.#kinds.get(key.slice(0, key.indexOf('/')));
    const known = kind?.objects.get(key);
    if (kind === undefined || known === undefined) return;
    const written = converted(kind.type, object);
    // The watch may report what came after the write before the answer to the write arrives.
    if (known.uid === written.uid && !isOlder(written, known)) kind.objects.set(key, written);
  }

  #followDefinitions(): Reflector<string> {
    const { client, clock, random } = this.#options;
    return new Reflector<string>(
      { connection: client.connection, type: DEFINITIONS, clock, random },
      {
        convert: ({ metadata }) => metadata.name,
        onList: (names) => {
          this.#defined = new Set(names.flatMap((name) => pluralOf(name) ?? []));
          this.#definitionsChanged();
        },
        onChanges: (changes) => {
          for (const change of changes) {
            const plural = pluralOf(change.type === 'set' ? change.item : change.object.metadata.name);
            if (plural === undefined) continue;
            if (change.type === 'set') this.#defined?.add(plural);
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
      agrees = !this.#isBlind && this.#defined?.symmetricDifference(plurals).size === 0;
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
      void before.reflector.close();
      this.#options.onChanged([...before.objects.keys()]);
    }
    if (type === undefined || this.#closed) return;
    const followed = this.#followed(kind, type);
    this.#kinds.set(kind, followed);
    followed.reflector.start();
  }

  #followed(kind: string, type: ResourceType): Followed {
    const { client, namespaces, clock, random, log, onChanged } = this.#options;
    const objects = new Map<string, FollowedObject>();
    const name = `${type.plural}.${type.group}`;
    const failures = createFailureLog(log, `no status of ${name} is written`, `${name} are read again`);
    const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }) =>
      followedKey(kind, namespace, name);
    const isFollowed = ({ namespace }: FollowedObject): boolean =>
      !type.namespaced || namespaces.length === 0 || namespaces.includes(namespace);
    const reflector = new Reflector<FollowedObject>(
      { connection: client.connection, type, clock, random },
      {
        convert: (object) => converted(type, object),
        onList: (items) => {
          const gone = new Set(objects.keys());
          objects.clear();
          for (const item of items.filter(isFollowed)) {
            objects.set(keyOf(item), item);
            gone.delete(keyOf(item));
          }
          followed.synced = true;
          onChanged([...objects.keys(), ...gone]);
        },
        onChanges: (changes) => {
          const followed = changes.filter((change) => change.type === 'deleted' || isFollowed(change.item));
          const keys = followed.map((change) => {
            if (change.type === 'set') {
              if (!isOlder(change.item, objects.get(keyOf(change.item)))) objects.set(keyOf(change.item), change.item);
              return keyOf(change.item);
            }
            const { namespace = '', name } = change.object.metadata;
            const key = followedKey(kind, namespace, name);
            objects.delete(key);
            return key;
          });
          onChanged(keys);
        },
        onFailure: (error) => reportFailure(failures, error),
        onRecovered: () => failures.succeeded(),
      },
    );
    const followed: Followed = { type, reflector, objects, synced: false };
    return followed;
  }
}

/** The plural of a definition of the group; undefined for those of other groups. */
function pluralOf(definition: string): string | undefined {
  return definition.endsWith(`.${GATEWAY_GROUP}`) ? definition.slice(0, -GATEWAY_GROUP.length - 1) : undefined;
}

/** Whether one is an earlier version of the object that is known. */
function isOlder(one: FollowedObject, known: FollowedObject | undefined): boolean {
  if (known === undefined || known.uid !== one.uid) return false;
  const [of, than] = [one.resourceVersion, known.resourceVersion];
  return /^\d+$/.test(of) && /^\d+$/.test(than) && BigInt(of) < BigInt(than);
}
