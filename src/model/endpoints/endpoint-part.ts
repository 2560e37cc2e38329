/**
 * A part of a service's endpoints: those of one document, such as one slice. A service keeps its parts, so that a
 * change of one document does not touch the others.
 */
import { keepIfEqual } from '../common/equal.ts';
import { modeOfPort, type PeerPolicies, peerAuthenticationOf } from '../policies/peer-authentication.ts';
import type { Endpoint } from '../types/types.ts';
import { isSocketPath, POLICY_READ, type Reads, type Workload } from '../workloads/workloads.ts';

export interface EndpointPart {
  /** By {@link endpointIdentity}. */
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  /** The keys that were looked up. A change of any of these rebuilds the part. */
  readonly reads: ReadonlySet<string>;
  readonly pendingPod: number;
  readonly withoutPod: number;
}

/** How a part is built. */
export interface PartPlan {
  /** Unique in its service: names the part in a change. */
  readonly id: string;
  readonly make: (collector: EndpointCollector) => void;
}

/** The identity of an endpoint of a service; if several documents have an equal one, the first takes precedence. */
function endpointIdentity(servicePort: string, { network, address, cluster = '' }: Workload, port: number): string {
  return `${servicePort}\n${address}\n${port}\n${network}\n${cluster}`;
}

/** Collects the endpoints of a part, and what was read for them. */
export class EndpointCollector {
  readonly reads: Reads = new Set();
  pendingPod = 0;
  withoutPod = 0;
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #namespace: string;
  readonly #policies: PeerPolicies;
  readonly #before: EndpointPart | undefined;
  /** The namespace whose policies were last recorded as read. */
  #noted: string | undefined;

  /**
   * @param namespace that of the service, for workloads without a known namespace
   * @param before the previous part: equal endpoints stay the same objects
   */
  constructor(namespace: string, policies: PeerPolicies, before: EndpointPart | undefined) {
    this.#namespace = namespace;
    this.#policies = policies;
    this.#before = before;
  }

  /** Of several endpoints with the same address and port, the first is used. */
  add(workload: Workload, port: number, servicePort: string): void {
    const effective = isSocketPath(workload.address) ? 0 : port;
    const identity = endpointIdentity(servicePort, workload, effective);
    if (this.#endpoints.has(identity)) return;
    const tlsReady = workload.tlsReady && this.#takesMutualTls(workload, effective);
    const made = { ...workload, tlsReady, port: effective, servicePort };
    this.#endpoints.set(identity, keepIfEqual(this.#before?.endpoints.get(identity), made));
  }

  /** Policies for the port apply, because it is the port of a service. */
  #takesMutualTls({ workload, labels }: Workload, port: number): boolean {
    const namespace = workload?.namespace ?? this.#namespace;
    if (namespace !== this.#noted) {
      this.reads.add(`${POLICY_READ}${namespace}`);
      this.#noted = namespace;
    }
    return modeOfPort(peerAuthenticationOf(this.#policies, namespace, labels), port) !== 'DISABLE';
  }

  result(): EndpointPart {
    const { reads, pendingPod, withoutPod } = this;
    return { endpoints: this.#endpoints, reads, pendingPod, withoutPod };
  }
}
