/**
 * Gives each Gateway its Envoy: applies the objects that run it, reverts changes of other writers, and removes the
 * objects when the Gateway changes to another class. The Gateway's deletion is left to the garbage collector of the
 * cluster.
 */
import { CtlError, oneLineOf } from '../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../core/log.ts';
import type { Outcome } from '../core/scheduling/work-queue.ts';
import {
  ApiError,
  Controller,
  isRefusal,
  type KubernetesClient,
  type KubernetesObject,
  type ResourceType,
} from '../kubernetes/index.ts';
import { type StatusObject, statusKey } from '../object-status/index.ts';
import type { GatewayObjects } from './gateway-objects.ts';
import {
  APPLIED_ANNOTATION,
  checkName,
  gatewayObjects,
  type InfrastructureSettings,
  isContained,
  MANAGED_LABEL,
  type ManagedObject,
  managedName,
  managedTypes,
  managedValue,
  refersToOtherRole,
  wrongServiceType,
} from './infrastructure.ts';
import { ManagedObjects } from './managed-objects.ts';
import { type DesiredStatuses, recordsOf } from './types.ts';

export interface DeployerOptions {
  readonly client: KubernetesClient;
  readonly objects: GatewayObjects;
  readonly controllerName: string;
  /** Gateways that these statuses accept are deployed. */
  readonly desired: () => DesiredStatuses;
  readonly infrastructure: () => InfrastructureSettings;
  readonly log: Log;
  /** The result of `problemOf` for this key has changed. */
  onProblem(key: string): void;
}

const GATEWAY = 'KubernetesGateway';
/** Maximum number of Gateways that are reconciled at the same time. */
const CONCURRENCY = 4;
/**
 * Limit of the writes for all Gateways: per second, and in a burst. A user who creates many Gateways must not occupy
 * the API server.
 */
const WRITES = { rate: 20, burst: 100 };

interface Problem {
  readonly text: string;
  readonly log: FailureLog;
}

export class Deployer {
  readonly #options: DeployerOptions;
  /** The label value of this controller's objects. */
  readonly #managedBy: string;
  readonly #controller: Controller;
  readonly #managed: ManagedObjects;
  readonly #problems = new Map<string, Problem>();
  /** Invalid annotations that have been logged, by key of the Gateway. */
  readonly #warned = new Map<string, string>();
  /** Failures of the API server as a whole. */
  readonly #failures: FailureLog;

  constructor(options: DeployerOptions) {
    this.#options = options;
    this.#managedBy = managedValue(options.controllerName);
    const { client, log, objects } = options;
    this.#controller = new Controller({
      connection: client.connection,
      reconcile: (key) => this.#reconcile(key),
      concurrency: CONCURRENCY,
      budget: WRITES,
      onFailure: (key, error) => this.#failed(key, error),
    });
    this.#failures = createFailureLog(log, 'gateways currently cannot be deployed', 'gateways can be deployed again');
    this.#managed = new ManagedObjects({
      client,
      types: managedTypes(options.infrastructure()),
      managedBy: this.#managedBy,
      log,
      // Gateways may be waiting for this list.
      onList: () => this.#controller.addAll(objects.keysOf(GATEWAY)),
      onChanged: (namespace, gateway) => this.#controller.add(statusKey(GATEWAY, namespace, gateway)),
    });
  }

  start(): void {
    this.#managed.start();
  }

  async close(): Promise<void> {
    await Promise.all([this.#controller.close(), this.#managed.close()]);
  }

  /** Keys whose desired status or whose object in the API server has changed, of any kind. */
  changed(keys: Iterable<string>): void {
    for (const key of keys) {
      if (key.startsWith(`${GATEWAY}/`)) this.#controller.add(key);
      // A class decides which controller its Gateways belong to.
      if (key.startsWith('GatewayClass/')) this.#controller.addAll(this.#options.objects.keysOf(GATEWAY));
    }
  }

  /** `infrastructure` now returns something else. */
  infrastructureChanged(): void {
    this.#controller.addAll(this.#options.objects.keysOf(GATEWAY));
  }

  /** Why an accepted Gateway is not deployed as specified: its objects are rejected. One line. */
  problemOf(key: string): string | undefined {
    return this.#problems.get(key)?.text;
  }

  async #reconcile(key: string): Promise<Outcome> {
    const gateway = this.#options.objects.get(key);
    if (gateway === undefined) {
      // The garbage collector deletes the objects of the Gateway.
      this.#problems.delete(key);
      this.#warned.delete(key);
      this.#controller.forget(key);
      return 'done';
    }
    if (!this.#managed.areSynced) return 'done';
    let wait = 0;
    if (this.#isAccepted(key, gateway)) wait = await this.#apply(key, gateway);
    else if (this.#isOfOthers(gateway)) {
      await this.#remove(gateway, () => true, 'its Gateway now has a different class');
    }
    if (wait > 0) return wait;
    this.#succeeded(key);
    return 'done';
  }

  #isAccepted(key: string, { uid }: StatusObject): boolean {
    const desired = this.#options.desired().get(key);
    if (desired === undefined || (desired.uid !== undefined && desired.uid !== uid)) return false;
    const conditions = recordsOf((desired.status as Record<string, unknown>).conditions);
    return conditions.some(({ type, status }) => type === 'Accepted' && status === 'True');
  }

  /** A class that does not exist (any more) belongs to no controller, and then all objects stay as they are. */
  #isOfOthers({ spec }: StatusObject): boolean {
    const { objects, controllerName } = this.#options;
    if (typeof spec.gatewayClassName !== 'string') return false;
    const gatewayClass = objects.get(statusKey('GatewayClass', '', spec.gatewayClassName));
    return gatewayClass !== undefined && gatewayClass.spec.controllerName !== controllerName;
  }

  /** Returns 0, or the milliseconds until the rest may be applied. */
  async #apply(key: string, gateway: StatusObject): Promise<number> {
    const input = { ...gateway, version: gateway.type.version };
    this.#warnOfServiceType(key, gateway, wrongServiceType(input));
    checkName(gateway.name);
    const wanted = gatewayObjects(input, this.#options.infrastructure(), this.#managedBy);
    for (const managed of wanted) {
      const wait = await this.#applyOne(key, managed);
      if (wait > 0) return wait;
      this.#controller.signal.throwIfAborted();
    }
    const types = new Set(wanted.map(({ type }) => type));
    await this.#remove(gateway, (type) => !types.has(type), 'its Gateway no longer needs it');
    return 0;
  }

  #warnOfServiceType(key: string, { namespace, name }: StatusObject, wrong: string | undefined): void {
    if (this.#warned.get(key) === wrong) return;
    if (wrong === undefined) {
      this.#warned.delete(key);
      return;
    }
    this.#warned.set(key, wrong);
    const got = JSON.stringify(wrong.slice(0, 40));
    const problem = `annotation service-type: expected LoadBalancer, NodePort or ClusterIP, got ${got}`;
    this.#options.log.warn(`Gateway ${namespace}/${name}: ${problem}; its Service is a LoadBalancer`);
  }

  async #applyOne(key: string, { type, object }: ManagedObject): Promise<number> {
    const { client } = this.#options;
    const { name, namespace = '', annotations = {} } = object.metadata;
    const hash = annotations[APPLIED_ANNOTATION] ?? '';
    const present = this.#managed.get(type, namespace, name);
    const current = present?.metadata.annotations?.[APPLIED_ANNOTATION] === hash;
    if (present !== undefined && current && isContained(object, present)) return 0;
    const pause = this.#controller.repair(key, hash, type.plural);
    if (pause > 0) return pause;
    await this.#controller.mayWrite();
    if (present !== undefined && refersToOtherRole(object, present)) {
      await this.#managed.delete(type, present, this.#controller.signal);
    }
    const known = this.#managed.get(type, namespace, name);
    const { uid } = (known ?? (await this.#own(type, namespace, name)))?.metadata ?? {};
    const whole = { apiVersion: type.group === '' ? type.version : `${type.group}/${type.version}`, kind: type.kind };
    // The server refuses the identifier of an object that was deleted meanwhile, even if another object has its name.
    const metadata = { ...object.metadata, ...(uid === undefined ? {} : { uid }) };
    await this.#managed.write(type, () =>
      client.patch(
        type,
        name,
        { ...whole, ...object, metadata },
        {
          namespace,
          type: 'application/apply-patch+yaml',
          fieldManager: this.#managedBy,
          // Not for a new object, because somebody may create an object of that name at this moment.
          force: uid !== undefined,
          signal: this.#controller.signal,
        },
      ),
    );
    return 0;
  }

  /**
   * The object of this name, which the watch has not reported; undefined when it does not exist.
   * @throws CtlError where somebody else created the object, which is then not changed
   */
  async #own(type: ResourceType, namespace: string, name: string): Promise<KubernetesObject | undefined> {
    try {
      const { signal } = this.#controller;
      const object = await this.#options.client.get(type, name, { namespace, signal });
      if (object.metadata.labels?.[MANAGED_LABEL] === this.#managedBy) return object;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
    const remedy = 'rename the Gateway or delete the object';
    throw new CtlError('already_exists', `${type.kind} ${name} exists and was not created by this program: ${remedy}`);
  }

  async #remove(
    { namespace, name, uid }: StatusObject,
    isUnwanted: (type: ResourceType) => boolean,
    why: string,
  ): Promise<void> {
    for (const type of managedTypes(this.#options.infrastructure()).filter(isUnwanted)) {
      const object = this.#managed.get(type, namespace, managedName(name));
      const owners = recordsOf((object?.metadata as Record<string, unknown> | undefined)?.ownerReferences);
      if (object === undefined || !owners.some((owner) => owner.uid === uid)) continue;
      await this.#managed.delete(type, object, this.#controller.signal);
      this.#options.log.info(`${type.kind} ${namespace}/${object.metadata.name} was deleted: ${why}`);
    }
  }

  #succeeded(key: string): void {
    this.#failures.succeeded();
    const problem = this.#problems.get(key);
    if (problem === undefined) return;
    problem.log.succeeded();
    this.#problems.delete(key);
    this.#options.onProblem(key);
  }

  #failed(key: string, error: unknown): void {
    const reason = oneLineOf(error);
    if (isRefusal(error)) this.#refused(key, reason);
    else this.#failures.failed(reason);
  }

  #refused(key: string, text: string): void {
    const what = `Gateway ${key.slice(GATEWAY.length + 1)}`;
    const before = this.#problems.get(key);
    const log =
      before?.log ?? createFailureLog(this.#options.log, `${what} is not deployed as specified`, `${what} is deployed`);
    log.failed(text);
    // Versions and times in the message change with each attempt; the status is not written again because of them.
    if (before !== undefined && withoutNumbers(before.text) === withoutNumbers(text)) return;
    this.#problems.set(key, { text, log });
    this.#options.onProblem(key);
  }
}

function withoutNumbers(text: string): string {
  return text.replace(/\d+/g, '0');
}
