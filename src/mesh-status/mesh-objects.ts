/**
 * The objects of the mesh's kinds as the API server has them now, with their statuses: in the mesh's own API groups and
 * in those of Istio, followed while kinds come and go with their definitions.
 */
import { createSharedFailureLog, type Log } from '../core/log.ts';
import type { KubernetesClient, KubernetesObject } from '../kubernetes/index.ts';
import { KindObjects, type StatusObject, statusKey } from '../object-status/index.ts';
import { type Kind, MESH_KINDS, type ResourceKey } from '../resources/index.ts';
import { Definitions, definedKinds, type ServedType } from '../sources/index.ts';

export interface MeshObjectsOptions {
  readonly client: KubernetesClient;
  /** The namespaces whose objects are read; empty: all. */
  readonly namespaces: readonly string[];
  readonly log: Log;
}

/** Between reads of API discovery where definitions may not be watched, ms. */
const DISCOVERY_MS = 60_000;

export class MeshObjects {
  readonly #options: MeshObjectsOptions;
  /** By `<plural>.<group>`, and the kinds of these names. */
  readonly #kinds = new Map<string, KindObjects>();
  readonly #names = new Map<string, Kind>();
  readonly #definitions: Definitions;
  readonly #followers = new Set<(keys: readonly string[]) => void>();
  #closed = false;

  constructor(options: MeshObjectsOptions) {
    this.#options = options;
    const kinds = 'kinds of mesh resources';
    const failures = createSharedFailureLog(options.log, `${kinds} cannot be read`, `${kinds} can be read again`);
    this.#definitions = new Definitions({
      connection: options.client.connection,
      resyncMs: DISCOVERY_MS,
      failures: {
        failed: (name, reason) => failures(name).failed(`${name}: ${reason}`),
        recovered: (name) => failures(name).succeeded(),
      },
      kinds: definedKinds(MESH_KINDS),
      onTypes: ({ types }, isGone) => this.#served(types, isGone),
    });
  }

  start(): void {
    this.#definitions.start();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#definitions, ...this.#kinds.values()].map((each) => each.close()));
  }

  /** Calls the follower with the keys of objects that were added, changed or removed; returns what ends that. */
  follow(follower: (keys: readonly string[]) => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** @param key see {@link objectKeysOf} */
  get(key: string): StatusObject | undefined {
    const name = key.slice(0, key.indexOf('/'));
    return this.#kinds.get(name)?.get(key);
  }

  keys(): readonly string[] {
    return [...this.#kinds.values()].flatMap((objects) => objects.keys());
  }

  /** The keys that objects of a document may have here: the kinds are served in one or two API groups. */
  objectKeysOf(document: ResourceKey): readonly string[] {
    const [kind, namespace = '', name = ''] = document.split('/');
    const types = [...this.#kinds.keys()].filter((type) => this.#names.get(type) === kind);
    return types.map((type) => statusKey(type, namespace, name));
  }

  /** The document of an object's key. */
  documentOf(key: string): ResourceKey {
    const slash = key.indexOf('/');
    return `${this.#names.get(key.slice(0, slash)) ?? ''}${key.slice(slash)}`;
  }

  /** See `KindObjects.write`. */
  async write(object: StatusObject, send: () => Promise<KubernetesObject>): Promise<void> {
    const { plural, group } = object.type;
    const objects = this.#kinds.get(`${plural}.${group}`);
    await (objects === undefined ? send() : objects.write(object, send));
  }

  #served(types: ReadonlyMap<string, ServedType>, isGone: (name: string) => boolean): void {
    if (this.#closed) return;
    for (const [name, type] of types) {
      if (this.#kinds.get(name)?.type.version === type.version) continue;
      this.#end(name);
      const onChanged = (keys: readonly string[]): void => this.#changed(keys);
      const objects = new KindObjects(name, type, { ...this.#options, onChanged });
      this.#kinds.set(name, objects);
      this.#names.set(name, type.kind);
      objects.start();
    }
    for (const name of this.#kinds.keys()) if (isGone(name)) this.#end(name);
  }

  #end(name: string): void {
    const ended = this.#kinds.get(name);
    if (ended === undefined) return;
    this.#kinds.delete(name);
    void ended.close();
    this.#changed(ended.keys());
  }

  #changed(keys: readonly string[]): void {
    for (const follower of this.#followers) follower(keys);
  }
}
