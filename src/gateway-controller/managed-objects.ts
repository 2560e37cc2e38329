/**
 * The objects of this controller as the API server has them: the objects of the managed types that have its label.
 * Other objects are not read.
 */
import { createFailureLog, type Log } from '../core/log.ts';
import {
  ApiError,
  Informer,
  type KubernetesClient,
  type KubernetesObject,
  type ResourceType,
} from '../kubernetes/index.ts';
import { GATEWAY_NAME_LABEL, MANAGED_LABEL } from './infrastructure.ts';

export interface ManagedObjectsOptions {
  readonly client: KubernetesClient;
  readonly types: readonly ResourceType[];
  /** The value of the label {@link MANAGED_LABEL}. */
  readonly managedBy: string;
  readonly log: Log;
  /** Called when all objects of one kind have been listed. */
  onList(): void;
  /** An object of this Gateway was created, changed or deleted. */
  onChanged(namespace: string, gateway: string): void;
}

export class ManagedObjects {
  readonly #client: KubernetesClient;
  readonly #informers: ReadonlyMap<ResourceType, Informer<KubernetesObject>>;

  constructor({ client, types, managedBy, log, onList, onChanged }: ManagedObjectsOptions) {
    this.#client = client;
    const what = ({ plural }: ResourceType): string => `${plural} of gateways`;
    const informer = (type: ResourceType): Informer<KubernetesObject> =>
      new Informer<KubernetesObject>({
        connection: client.connection,
        type,
        labelSelector: `${MANAGED_LABEL}=${managedBy}`,
        convert: ({ status: _status, ...object }) => object as KubernetesObject,
        onChange: (changes, isList) => {
          for (const { namespace, before, after } of changes) {
            const gateway = (after ?? before)?.metadata.labels?.[GATEWAY_NAME_LABEL];
            if (gateway !== undefined) onChanged(namespace, gateway);
          }
          if (isList) onList();
        },
        failures: createFailureLog(log, `${what(type)} cannot be read`, `${what(type)} can be read again`),
      });
    this.#informers = new Map(types.map((type) => [type, informer(type)]));
  }

  start(): void {
    for (const informer of this.#informers.values()) informer.start();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#informers.values()].map((informer) => informer.close()));
  }

  /** Whether all kinds are listed: an object that is not known then does not exist. */
  get areSynced(): boolean {
    return [...this.#informers.values()].every(({ isSynced }) => isSynced);
  }

  get(type: ResourceType, namespace: string, name: string): KubernetesObject | undefined {
    return this.#informers.get(type)?.get(namespace, name);
  }

  /** Deletes an object, unless another object has its name by now. */
  async delete(type: ResourceType, object: KubernetesObject, signal: AbortSignal): Promise<void> {
    const { namespace = '', name, uid } = object.metadata;
    await this.#informers.get(type)?.delete(object, async () => {
      try {
        await this.#client.delete(type, name, { namespace, ...(uid === undefined ? {} : { uid }), signal });
      } catch (error) {
        // 404: the object is already deleted; 409: another object has its name by now.
        if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 409)) throw error;
      }
    });
  }

  /** Sends a write, and keeps the object that it returns until the watch reports it. */
  async write(type: ResourceType, send: () => Promise<KubernetesObject>): Promise<void> {
    await this.#informers.get(type)?.write(send);
  }
}
