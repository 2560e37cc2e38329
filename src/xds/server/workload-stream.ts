/** What follows the streams of proxies: it is told what a proxy reports, and can ask what the proxy has. */
import type { ProxyNode } from '../../core/proxy.ts';
import type { ProxySession } from '../../push/index.ts';
import type { AdsMachine, AnyRequest, ResourceState } from '../protocol/index.ts';

/**
 * Type URL of a request by which an agent reports the health of its workload: the error says why it is unhealthy.
 * Agents of Istio send the same (proto/health/v1 of Istio). It is not answered.
 */
export const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation';

export interface WorkloadStream {
  /** @param problem undefined: the workload is healthy */
  health?(problem: string | undefined): void;
  /** The proxy has rejected a response. */
  rejected?(): void;
  /** The stream has ended. */
  disconnected(): void;
}

/** A proxy as long as its stream is open. */
export interface ConnectedProxy {
  /** The snapshot version up to which what it should have is complete. */
  completeVersion(): number;
  /** The listeners that it should have, by name; undefined: it has not asked for listeners. */
  listeners(): ReadonlyMap<string, ResourceState> | undefined;
}

/** Called once for each stream, with its authorized node. Undefined: nothing follows the stream. */
export type WorkloadConnected = (node: ProxyNode, proxy: ConnectedProxy) => WorkloadStream | undefined;

export function connectedProxy<Request extends AnyRequest>(
  session: ProxySession,
  machine: AdsMachine<Request>,
): ConnectedProxy {
  return {
    completeVersion: () => session.completeVersion(),
    listeners: () => machine.states('lds', session.content()),
  };
}
