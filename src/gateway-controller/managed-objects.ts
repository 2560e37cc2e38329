/**
 * The objects of this controller as the API server has them: those of the managed types with its label. Those of others
 * are not read.
 */
import type { Clock } from '../core/clock.ts';
import { createFailureLog, type Log } from '../core/log.ts';
import {
  ApiError,
  type KubernetesClient,
  type KubernetesObject,
  Reflector,
  type ResourceType,
} from '../kubernetes/index.ts';
import { reportFailure } from './failures.ts';
import { GATEWAY_NAME_LABEL, MANAGED_LABEL } from './infrastructure.ts';

export interface ManagedObjectsOptions {
  readonly client: KubernetesClient;
  readonly types: readonly ResourceType[];
  /** The value of the label. */
  readonly managedBy: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
  /** All objects of one kind were listed. */
  onList(): void;
  /** An object of this Gateway was created, changed or deleted. */
  onChanged(namespace: string, gateway: string): void;
}

interface Kind {
  readonly reflector: Reflector<KubernetesObject>;
  /** By `namespace/name`. */
  readonly objects: Map<string, KubernetesObject>;
  synced: boolean;
  /** Counts what the watch reported. */
  reports: number;
}

export class ManagedObjects {
  readonly #options: ManagedObjectsOptions;
  readonly #kinds: ReadonlyMap<ResourceType, Kind>;

  constructor(options: ManagedObjectsOptions) {
    this.#options = options;
    this.#kinds = new Map(options.types.map((type) => [type, this.#follow(type)]));
  }

  start(): void {
    for (const { reflector } of this.#kinds.values()) reflector.start();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#kinds.values()].map(({ reflector }) => reflector.close()));
  }

  /** Whether all kinds are listed: an object that is not known then does not exist. */
  get areSynced(): boolean {
    return [...this.#kinds.values()].every(({ synced }) => synced);
  }

  get(type: ResourceType, namespace: string, name: string): KubernetesObject | undefined {
    return this.#kinds.get(type)?.objects.get(`${namespace}/${name}`);
  }

  /** Deletes an object unless another one has its name by now. */
  async delete(type: ResourceType, { metadata }: KubernetesObject, signal: AbortSignal): Promise<void> {
    const { namespace = '', name, uid } = metadata;
    try {
      await this.#options.client.delete(type, name, { namespace, ...(uid === undefined ? {} : { uid }), signal });
    } catch (error) {
      // Deleted already; 409: another object has that name by now.
      if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 409)) throw error;
    }
    const objects = this.#kinds.get(type)?.objects;
    if (objects?.get(`${namespace}/${name}`)?.metadata.uid === uid) objects?.delete(`${namespace}/${name}`);
  }

  /**
   * Sends a write and keeps the object that it returns, so that it is known before the watch reports it. Where the
   * watch reported anything meanwhile, that may be newer, or that the object is deleted: then the watch is waited for.
   */
  async write(type: ResourceType, send: () => Promise<KubernetesObject>): Promise<void> {
    const kind = this.#kinds.get(type);
    const before = kind?.reports;
    const { status: _status, ...object } = await send();
    if (kind?.reports === before) kind?.objects.set(nameOf(object as KubernetesObject), object as KubernetesObject);
  }

  #follow(type: ResourceType): Kind {
    const { client, managedBy, clock, random, log } = this.#options;
    const what = `${type.plural} of gateways`;
    const failures = createFailureLog(log, `${what} cannot be read`, `${what} are read again`);
    const selector = `${MANAGED_LABEL}=${managedBy}`;
    const objects: Kind['objects'] = new Map();
    const reflector = new Reflector<KubernetesObject>(
      { connection: client.connection, type, labelSelector: selector, clock, random },
      {
        convert: ({ status: _status, ...object }) => object as KubernetesObject,
        onList: (items) => {
          kind.reports++;
          const before = [...objects.values()];
          objects.clear();
          for (const item of items) objects.set(nameOf(item), item);
          kind.synced = true;
          for (const object of [...before, ...items]) this.#report(object);
          this.#options.onList();
        },
        onChanges: (changes) => {
          kind.reports++;
          for (const change of changes) {
            const object = change.type === 'set' ? change.item : change.object;
            if (change.type === 'set') objects.set(nameOf(object), object);
            else objects.delete(nameOf(object));
            this.#report(object);
          }
        },
        onFailure: (error) => reportFailure(failures, error),
        onRecovered: () => failures.succeeded(),
      },
    );
    const kind: Kind = { reflector, objects, synced: false, reports: 0 };
    return kind;
  }

  #report({ metadata: { labels, namespace = '' } }: KubernetesObject): void {
    const gateway = labels?.[GATEWAY_NAME_LABEL];
    if (gateway !== undefined) this.#options.onChanged(namespace, gateway);
  }
}

function nameOf({ metadata }: KubernetesObject): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}
