/** What the model knows of workloads, as the policy thread keeps it: found by verified identity, then by address. */
import type { Value } from '../../expressions/index.ts';

export interface WorkloadRecord {
  /** `kubernetes://<pod>.<namespace>`. */
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly addresses: readonly WorkloadAddress[];
  readonly labels: Readonly<Record<string, string>>;
  /** The name of the controller that the Pod belongs to, or the workload's own. */
  readonly workload: string;
  /** `kubernetes://apis/apps/v1/namespaces/<namespace>/deployments/<name>`; absent when it is not known. */
  readonly owner?: string;
}

export interface WorkloadAddress {
  readonly address: string;
  /** Where that is: workloads of different networks may have equal addresses, but not equal places. */
  readonly place: string;
}

/** A service that a workload serves. */
export interface ServiceRecord {
  readonly host: string;
  readonly name: string;
  readonly namespace: string;
  /** Ports of the workload. */
  readonly ports: readonly number[];
}

/** The proxy that asks for a decision or sends records, as the control plane has verified it. */
export interface CallerRecord {
  /** By which limits and caches count. */
  readonly key: string;
  readonly namespace: string;
  /** Its SPIFFE ID without the scheme; absent on a loopback address, where callers are not authenticated. */
  readonly principal?: string;
  /** The address that it connects from. */
  readonly address: string;
}

/** Changes of the table, by key. */
export interface WorkloadChanges {
  readonly set: readonly (readonly [key: string, record: WorkloadRecord])[];
  readonly deleted: readonly string[];
  /** What is served at a place now. */
  readonly services: readonly (readonly [place: string, services: readonly ServiceRecord[]])[];
}

/**
 * Finds workloads by address. Several may have one address: Pods of a node's network, or of other clusters. A
 * connection does not say of which network its addresses are: an address that may be in several decides nothing.
 */
export class WorkloadTable {
  readonly #records = new Map<string, WorkloadRecord>();
  /** By address: keys of records, with the place. */
  readonly #byAddress = new Map<string, Map<string, string>>();
  readonly #services = new Map<string, readonly ServiceRecord[]>();

  change({ set, deleted, services }: WorkloadChanges): void {
    for (const [place, served] of services) {
      if (served.length === 0) this.#services.delete(place);
      else this.#services.set(place, served);
    }
    for (const key of deleted) this.#delete(key);
    for (const [key, record] of set) {
      this.#delete(key);
      this.#records.set(key, record);
      for (const { address, place } of record.addresses) {
        const keys = this.#byAddress.get(address) ?? new Map<string, string>();
        this.#byAddress.set(address, keys.set(key, place));
      }
    }
  }

  /**
   * The workload at an address that a verified principal may be: the certificate decides about namespace and service
   * account, and the address chooses among their workloads only. Undefined without a principal, because an address
   * alone proves nothing.
   */
  find(address: string, principal: string | undefined): WorkloadRecord | undefined {
    const [, namespace, serviceAccount] = /^[^/]+\/ns\/([^/]+)\/sa\/([^/]+)$/.exec(principal ?? '') ?? [];
    if (namespace === undefined) return undefined;
    return this.#at(address, (record) => record.namespace === namespace && record.serviceAccount === serviceAccount);
  }

  /**
   * The workload of a calling proxy: at the address that it connects from, or else at the one at which it has accepted
   * the connection. It says the latter itself, so that it chooses among the workloads of its own identity only.
   */
  ownOf({ principal, namespace, address }: CallerRecord, accepted: string): WorkloadRecord | undefined {
    if (principal !== undefined) return this.find(address, principal) ?? this.find(accepted, principal);
    return this.#at(accepted, (record) => record.namespace === namespace);
  }

  servicesOf({ addresses }: WorkloadRecord): readonly ServiceRecord[] {
    return addresses.flatMap(({ place }) => this.#services.get(place) ?? []);
  }

  #at(address: string, fits: (record: WorkloadRecord) => boolean): WorkloadRecord | undefined {
    let found: { readonly record: WorkloadRecord; readonly place: string } | undefined;
    for (const [key, place] of this.#byAddress.get(address) ?? []) {
      const record = this.#records.get(key);
      if (record === undefined || !fits(record)) continue;
      found ??= { record, place };
      if (found.place !== place) return undefined;
    }
    return found?.record;
  }

  #delete(key: string): void {
    const record = this.#records.get(key);
    if (record === undefined) return;
    this.#records.delete(key);
    for (const { address } of record.addresses) {
      const keys = this.#byAddress.get(address);
      keys?.delete(key);
      if (keys?.size === 0) this.#byAddress.delete(address);
    }
  }
}

const OWN_FIELDS: Readonly<Record<string, (workload: WorkloadRecord) => Value | undefined>> = {
  uid: ({ uid }) => uid,
  name: ({ name }) => name,
  namespace: ({ namespace }) => namespace,
  labels: ({ labels }) => new Map(Object.entries(labels)),
  owner: ({ owner }) => owner,
  serviceAccount: ({ serviceAccount }) => serviceAccount,
  'workload.uid': ({ namespace, workload }) => `kubernetes://${workload}.${namespace}`,
  'workload.name': ({ workload }) => workload,
  'workload.namespace': ({ namespace }) => namespace,
};

/** An attribute of a workload, by its name behind `source.` or `destination.`. */
export function workloadAttribute(workload: WorkloadRecord, name: string): Value | undefined {
  return OWN_FIELDS[name]?.(workload);
}

/** The service of a workload that serves a port; of several, the one that the host names. */
export function serviceAt(
  services: readonly ServiceRecord[],
  port: number | undefined,
  host: string | undefined,
): ServiceRecord | undefined {
  const served = services.filter(({ ports }) => port === undefined || ports.includes(port));
  const named = served.find((service) => service.host === host || service.host.startsWith(`${host ?? ''}.`));
  return named ?? served[0];
}
