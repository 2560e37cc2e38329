/** What a stream reports about the workload of its proxy, if the workload registers itself. */
import type { ProxyNode } from '../../core/proxy.ts';

/**
 * Type URL of a request by which an agent reports the health of its workload: the error says why it is unhealthy.
 * Agents of Istio send the same (proto/health/v1 of Istio). It is not answered.
 */
export const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation';

export interface WorkloadStream {
  /** @param problem undefined: the workload is healthy */
  health(problem: string | undefined): void;
  /** The stream has ended. */
  disconnected(): void;
}

/** Called once for each stream, with its authorized node. Undefined: the workload does not register itself. */
export type WorkloadConnected = (node: ProxyNode) => WorkloadStream | undefined;
