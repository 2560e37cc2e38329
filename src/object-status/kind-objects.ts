/** The objects of one kind as the API server has them now, with the fields that controllers read. */

import { createFailureLog, type Log } from '../core/log.ts';
import { isObject } from '../core/objects.ts';
import { Informer, type KubernetesClient, type KubernetesObject, type ResourceType } from '../kubernetes/index.ts';
import type { StatusFields } from './types.ts';

/** The fields that are kept of an object. */
export interface StatusObject {
  readonly type: ResourceType;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Counts the versions of the spec. */
  readonly generation: number;
  readonly annotations: Readonly<Record<string, string>>;
  readonly status: StatusFields;
  /** The spec, for Gateways and GatewayClasses only. */
  readonly spec: StatusFields;
}

export interface KindObjectsOptions {
  readonly client: KubernetesClient;
  /** The namespaces whose objects are read; empty: all. */
  readonly namespaces: readonly string[];
  readonly log: Log;
  /** Keys of objects that were added, changed or removed. */
  onChanged(keys: readonly string[]): void;
}

/** The key of an object in the tables of this module. */
export function statusKey(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

export class KindObjects {
  readonly type: ResourceType;
  readonly #kind: string;
  /** By namespace; the only key is '' where all namespaces are read. */
  readonly #informers: ReadonlyMap<string, Informer<StatusObject>>;

  /** @param kind its name in the store: `KubernetesGateway` for Gateways */
  constructor(kind: string, type: ResourceType, { client, namespaces, log, onChanged }: KindObjectsOptions) {
    this.#kind = kind;
    this.type = type;
    const name = `${type.plural}.${type.group}`;
    const failures = createFailureLog(
      log,
      `statuses of ${name} are not written`,
      `statuses of ${name} can be written again`,
    );
    const among = type.namespaced && namespaces.length > 0 ? namespaces : [''];
    const informer = (namespace: string): Informer<StatusObject> =>
      new Informer<StatusObject>({
        connection: client.connection,
        type,
        fromRetained: true,
        ...(namespace === '' ? {} : { namespace }),
        convert: (object) => statusObject(type, object),
        onChange: (changes) => onChanged(changes.map((change) => statusKey(kind, change.namespace, change.name))),
        failures,
      });
    this.#informers = new Map(among.map((namespace) => [namespace, informer(namespace)]));
  }

  start(): void {
    for (const informer of this.#informers.values()) informer.start();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#informers.values()].map((informer) => informer.close()));
  }

  get(key: string): StatusObject | undefined {
    const [, namespace = '', name = ''] = key.split('/');
    return this.#informerOf(namespace)?.get(namespace, name);
  }

  keys(): readonly string[] {
    const objects = [...this.#informers.values()].flatMap((informer) => [...informer.values()]);
    return objects.map(({ namespace, name }) => statusKey(this.#kind, namespace, name));
  }

  /** Sends a write of an object, and keeps what it returns until the watch reports it. */
  async write({ namespace }: StatusObject, send: () => Promise<KubernetesObject>): Promise<void> {
    const informer = this.#informerOf(namespace);
    await (informer === undefined ? send() : informer.write(send));
  }

  #informerOf(namespace: string): Informer<StatusObject> | undefined {
    return this.#informers.get('') ?? this.#informers.get(namespace);
  }
}

function statusObject(type: ResourceType, { metadata, status, spec }: KubernetesObject): StatusObject {
  const { namespace = '', name, uid = '', resourceVersion = '', generation = 0, annotations = {} } = metadata;
  const hasSpec = type.kind === 'Gateway' || type.kind === 'GatewayClass';
  return {
    type,
    namespace,
    name,
    uid,
    resourceVersion,
    generation,
    annotations: hasSpec ? annotations : {},
    status: isObject(status) ? status : {},
    spec: hasSpec && isObject(spec) ? spec : {},
  };
}
