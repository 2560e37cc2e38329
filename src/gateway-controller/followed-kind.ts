/** The objects of one kind as the API server has them now, with their status: they are listed and watched. */
import type { Clock } from '../core/clock.ts';
import { createFailureLog, type Log } from '../core/log.ts';
import { type KubernetesClient, type KubernetesObject, Reflector, type ResourceType } from '../kubernetes/index.ts';
import { reportFailure } from './failures.ts';
import { isRecord, type StatusFields } from './types.ts';

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

export interface FollowedKindOptions extends FollowedOptions {
  /** As the store names it: that of a Gateway is `KubernetesGateway`. */
  readonly kind: string;
  readonly type: ResourceType;
}

export function followedKey(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

export class FollowedKind {
  readonly type: ResourceType;
  readonly #options: FollowedKindOptions;
  readonly #reflector: Reflector<FollowedObject>;
  readonly #objects = new Map<string, FollowedObject>();
  #synced = false;

  constructor(options: FollowedKindOptions) {
    this.#options = options;
    this.type = options.type;
    this.#reflector = this.#follow();
  }

  start(): void {
    this.#reflector.start();
  }

  close(): Promise<void> {
    return this.#reflector.close();
  }

  get(key: string): FollowedObject | undefined {
    return this.#objects.get(key);
  }

  /** Whether the objects are listed: one that `get` does not know then does not exist. */
  get isSynced(): boolean {
    return this.#synced;
  }

  keys(): Iterable<string> {
    return this.#objects.keys();
  }

  /** What a write returned, which the watch reports later. */
  replace(key: string, object: KubernetesObject): void {
    const known = this.#objects.get(key);
    if (known === undefined) return;
    const written = converted(this.type, object);
    // The watch may report what came after the write before the answer to the write arrives.
    if (known.uid === written.uid && !isOlder(written, known)) this.#objects.set(key, written);
  }

  #follow(): Reflector<FollowedObject> {
    const { kind, type, client, clock, random, log, namespaces, onChanged } = this.#options;
    const objects = this.#objects;
    const name = `${type.plural}.${type.group}`;
    const failures = createFailureLog(log, `no status of ${name} is written`, `${name} are read again`);
    const keyOf = ({ namespace, name }: FollowedObject) => followedKey(kind, namespace, name);
    const isFollowed = ({ namespace }: FollowedObject): boolean =>
      !type.namespaced || namespaces.length === 0 || namespaces.includes(namespace);
    return new Reflector<FollowedObject>(
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
          this.#synced = true;
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
  }
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

/** Whether one is an earlier version of the object that is known. */
function isOlder(one: FollowedObject, known: FollowedObject | undefined): boolean {
  if (known === undefined || known.uid !== one.uid) return false;
  const [of, than] = [one.resourceVersion, known.resourceVersion];
  return /^\d+$/.test(of) && /^\d+$/.test(than) && BigInt(of) < BigInt(than);
}
