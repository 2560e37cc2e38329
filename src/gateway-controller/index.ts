/**
 * Entry point of the controller of the Gateway API: it runs where this replica leads, writes the statuses that the
 * translation computes, and gives each Gateway its Envoy.
 *
 *   translation ──desired statuses──▶ status writer ──▶ status of the objects
 *                                 └──▶ deployer ──────▶ Deployment, Service, ServiceAccount of each Gateway
 *   API server ──objects with their status, objects of gateways──▶ both
 */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { KubernetesClient } from '../kubernetes/index.ts';
import { Deployer } from './deployer.ts';
import { withDeployment } from './deployment-status.ts';
import { FollowedObjects } from './followed-objects.ts';
import type { InfrastructureSettings } from './infrastructure.ts';
import { StatusWriter } from './status-writer.ts';
import type { DesiredStatuses } from './types.ts';

export type { InfrastructureSettings } from './infrastructure.ts';
export type { DesiredStatus, DesiredStatuses } from './types.ts';

export interface GatewayControllerOptions {
  readonly client: KubernetesClient;
  /** `spec.controllerName` of the classes whose Gateways are controlled. */
  readonly controllerName: string;
  /** The namespaces whose objects are controlled; empty: all. Others may belong to another control plane. */
  readonly namespaces: readonly string[];
  /** The newest desired statuses, by key of the resource. */
  readonly desired: () => DesiredStatuses;
  readonly infrastructure: () => InfrastructureSettings;
  /** Status writes a second, and how many at once. */
  readonly statusQps: number;
  readonly statusBurst: number;
  readonly clock: Clock;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Of statuses, and of the objects of gateways. */
  readonly statusLog: Log;
  readonly deployLog: Log;
}

export class GatewayController {
  readonly #objects: FollowedObjects;
  readonly #statuses: StatusWriter;
  readonly #deployer: Deployer;

  constructor(options: GatewayControllerOptions) {
    const { client, namespaces, clock, random, statusLog, deployLog, statusQps: qps, statusBurst: burst } = options;
    const objects = new FollowedObjects({
      client,
      namespaces,
      clock,
      random,
      log: statusLog,
      onChanged: (keys) => this.changed(keys),
    });
    this.#objects = objects;
    const desired = (): DesiredStatuses => ({
      get: (key) => withDeployment(options.desired().get(key), this.#deployer.problemOf(key)),
    });
    this.#statuses = new StatusWriter({ ...options, desired, objects, qps, burst, log: statusLog });
    const onProblem = (key: string): void => this.#statuses.changed([key]);
    this.#deployer = new Deployer({ ...options, objects, log: deployLog, onProblem });
  }

  start(): void {
    this.#deployer.start();
    this.#objects.start();
  }

  /** The desired statuses of these keys have changed. */
  changed(keys: readonly string[]): void {
    this.#statuses.changed(keys);
    this.#deployer.changed(keys);
  }

  /** Nothing is written after it has resolved. */
  async close(): Promise<void> {
    await Promise.all([this.#objects.close(), this.#statuses.close(), this.#deployer.close()]);
  }
}
