/**
 * Writes the addresses of the gateways to the Ingresses that they serve: `status.loadBalancer.ingress`, which tells
 * external-dns and users the addresses of an Ingress.
 */
import { isDeepStrictEqual } from 'node:util';
import { v1Type } from '../../kubernetes/index.ts';
import { apiFields, KindObjects, type StatusRules, StatusWriter } from '../../object-status/index.ts';
import type { StatusControllerOptions } from '../types.ts';

const INGRESSES = v1Type('networking.k8s.io', 'Ingress', 'ingresses');

/**
 * The list of addresses is written as a whole. What other writers wrote to an Ingress that is no longer served stays.
 */
const RULES: StatusRules = {
  fieldsOf: ({ status }) => apiFields(status),
  patch: ({ status }, { loadBalancer }) =>
    loadBalancer === undefined || isDeepStrictEqual(status.loadBalancer, loadBalancer) ? undefined : { loadBalancer },
  removal: ({ status }, written) =>
    written?.loadBalancer === undefined || !isDeepStrictEqual(status.loadBalancer, written.loadBalancer)
      ? undefined
      : { loadBalancer: null },
};

export class IngressStatuses {
  readonly #objects: KindObjects;
  readonly #writer: StatusWriter;

  constructor(options: StatusControllerOptions) {
    const { statusBudget: budget, statusLog: log } = options;
    const onChanged = (keys: readonly string[]): void => this.changed(keys);
    this.#objects = new KindObjects('Ingress', INGRESSES, { ...options, log, onChanged });
    this.#writer = new StatusWriter({ ...options, objects: this.#objects, rules: RULES, budget, log });
  }

  start(): void {
    this.#objects.start();
  }

  /** The desired statuses of these keys have changed. */
  changed(keys: readonly string[]): void {
    this.#writer.changed(keys);
  }

  /** Nothing is written after the promise has resolved. */
  async close(): Promise<void> {
    await Promise.all([this.#objects.close(), this.#writer.close()]);
  }
}
