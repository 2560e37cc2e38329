/**
 * A part of a service's endpoints: those that one document says, such as one of its slices. A service keeps its parts,
 * so that a change of one of them leaves the others alone.
 */
import { keepIfEqual } from './equal.ts';
import { modeOfPort, type PeerPolicies, peerAuthenticationOf } from './peer-authentication.ts';
import type { Endpoint } from './types.ts';
import { isSocketPath, POLICY_READ, type Reads, type Workload } from './workloads.ts';

export interface EndpointPart {
  /** By {@link endpointIdentity}. */
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  /** What was looked up. A change of any of these makes the part again. */
  readonly reads: ReadonlySet<string>;
  /** Addresses that wait for the pod that they name. */
  readonly pendingPod: number;
  /** Addresses that no pod is known for. */
  readonly withoutPod: number;
}

/** Makes a part. */
export interface PartPlan {
  /** Unique in its service: the token by which a change says that the part is concerned. */
  readonly id: string;
  readonly make: (gathering: Gathering) => void;
}

/** What an endpoint of a service is known by: the first document to say it decides. */
function endpointIdentity(servicePort: string, { network, address }: Workload, port: number): string {
  return `${servicePort}\n${address}\n${port}\n${network}`;
}

/** Where the endpoints of a part and notes are gathered. */
export class Gathering {
  readonly reads: Reads = new Set();
  pendingPod = 0;
  withoutPod = 0;
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #namespace: string;
  readonly #policies: PeerPolicies;
  readonly #before: EndpointPart | undefined;
  /** The namespace whose policies were noted last. */
  #noted: string | undefined;

  /**
   * @param namespace that of the service: workloads of which no other is known are taken to be there
   * @param before the part as it was: equal endpoints stay the same objects
   */
  constructor(namespace: string, policies: PeerPolicies, before: EndpointPart | undefined) {
    this.#namespace = namespace;
    this.#policies = policies;
    this.#before = before;
  }

  /** The first word about an address and port stands. */
  add(workload: Workload, port: number, servicePort: string): void {
    const effective = isSocketPath(workload.address) ? 0 : port;
    const identity = endpointIdentity(servicePort, workload, effective);
    if (this.#endpoints.has(identity)) return;
    const tlsReady = workload.tlsReady && this.#takesMutualTls(workload, effective);
    const made = { ...workload, tlsReady, port: effective, servicePort };
    this.#endpoints.set(identity, keepIfEqual(this.#before?.endpoints.get(identity), made));
  }

  /** An endpoint is bound to a service by being one, so that policies for its port count. */
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
