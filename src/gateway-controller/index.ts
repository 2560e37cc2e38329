/**
 * Entry point of the controller of the Gateway API: it runs on the leader, writes the statuses that the translation
 * computes, and deploys an Envoy for each Gateway.
 *
 *   translation ──desired statuses──▶ status writer ──▶ status of the objects
 *                                 └──▶ deployer ──────▶ Deployment, Service, ServiceAccount of each Gateway
 *   API server ──objects with their status, objects of gateways──▶ both
 *              └─Pods of gateways──▶ status writer: a Gateway is programmed while one of them is ready …
 *   acknowledgements of proxies ───▶ status writer: … and has acknowledged its listeners
 *
 * The same writer writes the addresses of Ingresses, in a task of its own.
 */
import type { Log } from '../core/log.ts';
import { StatusWriter, statusKey } from '../object-status/index.ts';
import { withVersions } from './definition-versions.ts';
import { Deployer } from './deployer.ts';
import { GatewayObjects } from './gateway-objects.ts';
import { GatewayPods } from './gateway-pods.ts';
import type { InfrastructureSettings } from './infrastructure.ts';
import { type Acknowledgements, withAcknowledged } from './programmed/index.ts';
import { withDeployment } from './status/deployment-status.ts';
import { gatewayRules } from './status/merge-status.ts';
import type { DesiredStatus, DesiredStatuses, StatusControllerOptions } from './types.ts';

export type { InfrastructureSettings } from './infrastructure.ts';
export { AcknowledgedListeners, type Acknowledgements } from './programmed/index.ts';
export { IngressStatuses } from './status/ingress-statuses.ts';
export type { DesiredStatus, DesiredStatuses, StatusControllerOptions } from './types.ts';

const GATEWAY = 'KubernetesGateway';

export interface GatewayControllerOptions extends StatusControllerOptions {
  /** `spec.controllerName` of the classes whose Gateways are controlled. */
  readonly controllerName: string;
  /** Whether a Gateway of these classes belongs to another revision, whose leader writes its status and objects. */
  readonly isOfOtherRevision: (namespace: string, name: string) => boolean;
  readonly infrastructure: () => InfrastructureSettings;
  readonly acknowledgements: Acknowledgements;
  /** The log of the objects of gateways. */
  readonly deployLog: Log;
}

export class GatewayController {
  readonly #objects: GatewayObjects;
  readonly #statuses: StatusWriter;
  readonly #deployer: Deployer;
  readonly #pods: GatewayPods;
  readonly #acknowledgements: Acknowledgements;
  /** Stops following them; undefined until the start. */
  #unfollow: (() => Promise<void>) | undefined;

  constructor(options: GatewayControllerOptions) {
    const { client, namespaces, statusLog, deployLog, statusBudget: budget } = options;
    const objects = new GatewayObjects({
      client,
      namespaces,
      log: statusLog,
      onChanged: (keys) => this.changed(keys),
    });
    this.#objects = objects;
    this.#acknowledgements = options.acknowledgements;
    const desired = (): DesiredStatuses => ({
      get: (key) => withVersions(this.#deployed(key, options.desired().get(key)), objects.versions),
    });
    const rules = gatewayRules(options.controllerName, options.isOfOtherRevision);
    this.#statuses = new StatusWriter({ ...options, desired, objects, rules, budget, log: statusLog });
    this.#pods = new GatewayPods({
      client,
      log: statusLog,
      onList: () => this.#statuses.changed(objects.keysOf(GATEWAY)),
      onChanged: (namespace, gateway) => this.#statuses.changed([statusKey(GATEWAY, namespace, gateway)]),
    });
    const onProblem = (key: string): void => this.#statuses.changed([key]);
    this.#deployer = new Deployer({ ...options, objects, log: deployLog, onProblem });
  }

  start(): void {
    this.#deployer.start();
    this.#pods.start();
    this.#objects.start();
    this.#unfollow = this.#acknowledgements.follow((gateways) =>
      this.#statuses.changed(gateways.map((gateway) => `${GATEWAY}/${gateway}`)),
    );
  }

  /** The desired statuses of these keys have changed. */
  changed(keys: readonly string[]): void {
    this.#statuses.changed(keys);
    this.#deployer.changed(keys);
  }

  /** Undefined for a Gateway whose Pods are not known yet: its status is not written then. */
  #deployed(key: string, desired: DesiredStatus | undefined): DesiredStatus | undefined {
    if (desired?.kind !== GATEWAY) return desired;
    if (!this.#pods.isSynced) return undefined;
    const { namespace, name, listeners = [] } = desired;
    const unready = this.#pods.problemOf(namespace, name);
    const deployed = withDeployment(desired, this.#deployer.problemOf(key), unready);
    const reports = this.#acknowledgements.of(`${namespace}/${name}`);
    const ready = this.#pods.readyPods(namespace, name);
    const proxies = reports.flatMap((report) => ready.flatMap((pod) => report.get(pod) ?? []));
    return withAcknowledged(deployed, { listeners, proxies, current: this.#objects.get(key)?.status ?? {} });
  }

  /** Called when the result of `infrastructure` has changed. */
  infrastructureChanged(): void {
    this.#deployer.infrastructureChanged();
  }

  /** Nothing is written after the promise has resolved. */
  async close(): Promise<void> {
    const parts = [this.#objects, this.#pods, this.#statuses, this.#deployer];
    await Promise.all([this.#unfollow?.(), ...parts.map((each) => each.close())]);
  }
}
