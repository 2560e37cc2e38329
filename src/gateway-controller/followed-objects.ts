/**
 * The objects of the Gateway API as the API server has them now, with their status: each kind that it serves is listed
 * and watched. Kinds whose definition is created later are found by reading API discovery again.
 */
import type { Clock, Timer } from '../core/clock.ts';
import { oneLineOf } from '../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import {
  ApiError,
  type KubernetesClient,
  type KubernetesObject,
  Reflector,
  type ResourceType,
} from '../kubernetes/index.ts';
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
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Keys of objects that were added, changed or removed. */
  onChanged(keys: readonly string[]): void;
}

/** How often API discovery is read, ms: a definition may be created at any time. */
const DISCOVERY_MS = 30_000;
/** While a kind that is needed is not served. */
const MISSING_KIND_MS = 2_000;

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
  #timer: Timer | undefined;
  #discovering = false;
  #closed = false;

  constructor(options: FollowedOptions) {
    this.#options = options;
    const what = `the kinds of ${GATEWAY_GROUP}`;
    this.#failures = createFailureLog(options.log, `${what} cannot be read`, `${what} are read again`);
  }

  start(): void {
    void this.#discover();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await Promise.all([...this.#kinds.values()].map(({ reflector }) => reflector.close()));
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
    if (kind?.objects.has(key) === true) kind.objects.set(key, converted(kind.type, object));
  }

  async #discover(): Promise<void> {
    if (this.#closed || this.#discovering) return;
    this.#discovering = true;
    let missing = true;
    try {
      const served = await this.#servedTypes();
      for (const [kind, apiKind] of Object.entries(STATUS_KINDS)) this.#follow(kind, served.get(apiKind));
      missing = this.#kinds.size === 0;
      this.#failures.succeeded();
    } catch (error) {
      if (!this.#closed) this.#failures.failed(oneLineOf(error));
    } finally {
      this.#discovering = false;
    }
    if (this.#closed) return;
    const wait = missing ? MISSING_KIND_MS : DISCOVERY_MS;
    this.#timer = this.#options.clock.setTimer(wait, () => void this.#discover());
  }

  /** The kinds that have a status subresource, each in the version that the server prefers. */
  async #servedTypes(): Promise<ReadonlyMap<string, ResourceType>> {
    const types = new Map<string, ResourceType>();
    const versions = await this.#groupVersions();
    for (const version of versions) {
      const list = await this.#json(`/apis/${GATEWAY_GROUP}/${version}`);
      const resources = recordsOf(isRecord(list) ? list.resources : undefined);
      const names = new Set(resources.map(({ name }) => name));
      for (const { name, kind, namespaced } of resources) {
        if (typeof name !== 'string' || typeof kind !== 'string' || !names.has(`${name}/status`)) continue;
        if (types.has(kind)) continue;
        types.set(kind, { group: GATEWAY_GROUP, version, plural: name, kind, namespaced: namespaced === true });
      }
    }
    return types;
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
    const { client, clock, random, log, onChanged } = this.#options;
    const objects = new Map<string, FollowedObject>();
    const name = `${type.plural}.${type.group}`;
    const failures = createFailureLog(log, `no status of ${name} is written`, `${name} are read again`);
    const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }) =>
      followedKey(kind, namespace, name);
    const reflector = new Reflector<FollowedObject>(
      { connection: client.connection, type, clock, random },
      {
        convert: (object) => converted(type, object),
        onList: (items) => {
          const gone = new Set(objects.keys());
          objects.clear();
          for (const item of items) {
            objects.set(keyOf(item), item);
            gone.delete(keyOf(item));
          }
          followed.synced = true;
          onChanged([...objects.keys(), ...gone]);
        },
        onChanges: (changes) => {
          const keys = changes.map((change) => {
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
        onFailure: (error) => failures.failed(error.oneLine()),
        onRecovered: () => failures.succeeded(),
      },
    );
    const followed: Followed = { type, reflector, objects, synced: false };
    return followed;
  }
}

/** Whether a watch reports a version before that which a write has returned. */
function isOlder(reported: FollowedObject, known: FollowedObject | undefined): boolean {
  if (known === undefined || known.uid !== reported.uid) return false;
  const [of, than] = [reported.resourceVersion, known.resourceVersion];
  return /^\d+$/.test(of) && /^\d+$/.test(than) && BigInt(of) < BigInt(than);
}
