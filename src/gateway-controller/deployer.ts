/**
 * Gives each Gateway its Envoy: applies the objects that run it, repairs what others change, and removes them when the
 * Gateway changes to another class. The Gateway's deletion is left to the garbage collector of the cluster.
 */
import type { Clock } from '../core/clock.ts';
import { CtlError, oneLineOf } from '../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import { type Outcome, WorkQueue } from '../core/work-queue.ts';
import {
  ApiError,
  type KubernetesClient,
  type KubernetesObject,
  Reflector,
  type ResourceType,
} from '../kubernetes/index.ts';
import { type FollowedObject, type FollowedObjects, followedKey } from './followed-objects.ts';
import {
  APPLIED_ANNOTATION,
  GATEWAY_NAME_LABEL,
  gatewayObjects,
  type InfrastructureSettings,
  isContained,
  MANAGED_LABEL,
  MANAGED_TYPES,
  MANAGED_VALUE,
  type ManagedObject,
  managedName,
  wrongServiceType,
} from './infrastructure.ts';
import { type DesiredStatuses, recordsOf } from './types.ts';

export interface DeployerOptions {
  readonly client: KubernetesClient;
  readonly objects: FollowedObjects;
  readonly controllerName: string;
  /** Gateways that these accept are deployed. */
  readonly desired: () => DesiredStatuses;
  readonly infrastructure: () => InfrastructureSettings;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

const GATEWAY = 'KubernetesGateway';
const FIELD_MANAGER = 'mesh.io-gateway-controller';
/** Gateways that are worked on at the same time. */
const CONCURRENCY = 4;

/** The objects of one kind that this controller made, by `namespace/name`. */
interface Managed {
  readonly type: ResourceType;
  readonly reflector: Reflector<KubernetesObject>;
  readonly objects: Map<string, KubernetesObject>;
  synced: boolean;
}

const nameOf = ({ metadata }: KubernetesObject): string => `${metadata.namespace ?? ''}/${metadata.name}`;

export class Deployer {
  readonly #options: DeployerOptions;
  readonly #queue: WorkQueue;
  readonly #managed: readonly Managed[];
  readonly #failures = new Map<string, FailureLog>();
  /** Wrong annotations that are logged, by `namespace/name` of the Gateway. */
  readonly #warned = new Map<string, string>();
  #closed = false;

  constructor(options: DeployerOptions) {
    this.#options = options;
    const { clock, random } = options;
    this.#queue = new WorkQueue({ work: (key) => this.#work(key), concurrency: CONCURRENCY, clock, random });
    this.#managed = MANAGED_TYPES.map((type) => this.#follow(type));
  }

  start(): void {
    for (const { reflector } of this.#managed) reflector.start();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#queue.close(), ...this.#managed.map(({ reflector }) => reflector.close())]);
  }

  /** Keys whose desired status or whose object in the API server has changed, of any kind. */
  changed(keys: Iterable<string>): void {
    for (const key of keys) {
      if (key.startsWith(`${GATEWAY}/`)) this.#queue.add(key);
      // A class decides whose its Gateways are.
      if (key.startsWith('GatewayClass/'))
        for (const each of this.#options.objects.keysOf(GATEWAY)) this.#queue.add(each);
    }
  }

  #follow(type: ResourceType): Managed {
    const { client, clock, random, log } = this.#options;
    const objects = new Map<string, KubernetesObject>();
    const failures = createFailureLog(
      log,
      `${type.plural} of gateways cannot be read`,
      `${type.plural} are read again`,
    );
    const concerns = (object: KubernetesObject): void => {
      const gateway = object.metadata.labels?.[GATEWAY_NAME_LABEL];
      if (gateway !== undefined) this.#queue.add(followedKey(GATEWAY, object.metadata.namespace ?? '', gateway));
    };
    const options = {
      connection: client.connection,
      type,
      labelSelector: `${MANAGED_LABEL}=${MANAGED_VALUE}`,
      clock,
      random,
    };
    const reflector = new Reflector<KubernetesObject>(options, {
      convert: ({ status: _status, ...object }) => object as KubernetesObject,
      onList: (items) => {
        const before = [...objects.values()];
        objects.clear();
        for (const item of items) objects.set(nameOf(item), item);
        managed.synced = true;
        for (const object of [...before, ...items]) concerns(object);
        // Gateways may wait for this list.
        for (const key of this.#options.objects.keysOf(GATEWAY)) this.#queue.add(key);
      },
      onChanges: (changes) => {
        for (const change of changes) {
          const object = change.type === 'set' ? change.item : change.object;
          if (change.type === 'set') objects.set(nameOf(object), object);
          else objects.delete(nameOf(object));
          concerns(object);
        }
      },
      onFailure: (error) => failures.failed(error.oneLine()),
      onRecovered: () => failures.succeeded(),
    });
    const managed: Managed = { type, reflector, objects, synced: false };
    return managed;
  }

  async #work(key: string): Promise<Outcome> {
    const gateway = this.#options.objects.get(key);
    if (gateway === undefined) {
      // The garbage collector removes what is left of it.
      this.#failures.delete(key);
      this.#warned.delete(key.slice(key.indexOf('/') + 1));
      return 'done';
    }
    if (!this.#managed.every(({ synced }) => synced)) return 'done';
    try {
      if (this.#isAccepted(key, gateway)) await this.#apply(gateway);
      else if (this.#isOfOthers(gateway)) await this.#remove(gateway);
      this.#failures.get(key)?.succeeded();
      this.#failures.delete(key);
      return 'done';
    } catch (error) {
      if (!this.#closed) this.#failureLog(key, gateway).failed(oneLineOf(error));
      return 'failed';
    }
  }

  #isAccepted(key: string, { uid }: FollowedObject): boolean {
    const desired = this.#options.desired().get(key);
    if (desired === undefined || (desired.uid !== undefined && desired.uid !== uid)) return false;
    const conditions = recordsOf((desired.status as Record<string, unknown>).conditions);
    return conditions.some(({ type, status }) => type === 'Accepted' && status === 'True');
  }

  /** A class that does not exist (any more) is nobody's: then everything stays as it is. */
  #isOfOthers({ spec }: FollowedObject): boolean {
    const { objects, controllerName } = this.#options;
    if (typeof spec.gatewayClassName !== 'string') return false;
    const gatewayClass = objects.get(followedKey('GatewayClass', '', spec.gatewayClassName));
    return gatewayClass !== undefined && gatewayClass.spec.controllerName !== controllerName;
  }

  async #apply(gateway: FollowedObject): Promise<void> {
    const input = { ...gateway, version: gateway.type.version };
    this.#warnOfServiceType(gateway, wrongServiceType(input));
    for (const managed of gatewayObjects(input, this.#options.infrastructure())) await this.#applyOne(managed);
  }

  #warnOfServiceType({ namespace, name }: FollowedObject, wrong: string | undefined): void {
    const gateway = `${namespace}/${name}`;
    if (this.#warned.get(gateway) === wrong) return;
    if (wrong === undefined) {
      this.#warned.delete(gateway);
      return;
    }
    this.#warned.set(gateway, wrong);
    const got = JSON.stringify(wrong.slice(0, 40));
    const problem = `annotation service-type: expected LoadBalancer, NodePort or ClusterIP, got ${got}`;
    this.#options.log.warn(`Gateway ${gateway}: ${problem}; its Service is a LoadBalancer`);
  }

  async #applyOne({ type, object }: ManagedObject): Promise<void> {
    const { client } = this.#options;
    const { name, namespace = '', annotations = {} } = object.metadata;
    const known = this.#managed.find((managed) => managed.type === type)?.objects;
    const present = known?.get(`${namespace}/${name}`);
    const current = present?.metadata.annotations?.[APPLIED_ANNOTATION] === annotations[APPLIED_ANNOTATION];
    if (present !== undefined && current && isContained(object, present)) return;
    if (present === undefined) await this.#checkFree(type, namespace, name);
    const whole = { apiVersion: type.group === '' ? type.version : `${type.group}/${type.version}`, kind: type.kind };
    const stored = await client.patch(
      type,
      name,
      { ...whole, ...object },
      {
        namespace,
        type: 'application/apply-patch+yaml',
        fieldManager: FIELD_MANAGER,
        force: true,
      },
    );
    // Known at once, so that it is not applied again before the watch reports it.
    known?.set(`${namespace}/${name}`, stored);
  }

  /** An object of that name that somebody else made is not taken over. */
  async #checkFree(type: ResourceType, namespace: string, name: string): Promise<void> {
    try {
      const { metadata } = await this.#options.client.get(type, name, { namespace });
      if (metadata.labels?.[MANAGED_LABEL] === MANAGED_VALUE) return;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return;
      throw error;
    }
    const reason = `${type.kind} ${name} exists, and this program did not create it: expected the name to be free`;
    throw new CtlError('already_exists', reason);
  }

  async #remove({ namespace, name, uid }: FollowedObject): Promise<void> {
    for (const { type, objects } of this.#managed) {
      const object = objects.get(`${namespace}/${managedName(name)}`);
      const owners = recordsOf((object?.metadata as Record<string, unknown> | undefined)?.ownerReferences);
      if (object === undefined || !owners.some((owner) => owner.uid === uid)) continue;
      await this.#options.client.delete(type, object.metadata.name, { namespace }).catch((error: unknown) => {
        if (!(error instanceof ApiError && error.status === 404)) throw error;
      });
      objects.delete(nameOf(object));
      this.#options.log.info(
        `${type.kind} ${namespace}/${object.metadata.name} is deleted: its Gateway has another class`,
      );
    }
  }

  #failureLog(key: string, { namespace, name }: FollowedObject): FailureLog {
    const known = this.#failures.get(key);
    if (known !== undefined) return known;
    const what = `Gateway ${namespace}/${name}`;
    const created = createFailureLog(this.#options.log, `${what} is not deployed as asked`, `${what} is deployed`);
    this.#failures.set(key, created);
    return created;
  }
}
