/** The interface for following the streams of proxies, with the reports of a proxy and the resources that it has. */
import type { ProxyNode } from '../../core/proxy.ts';
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { Parts, ProxySession } from '../../push/index.ts';
import type { AdsMachine, AnyRequest, ResourceState, UnacceptedAnswer } from '../protocol/index.ts';

/**
 * Type URL of a request by which an agent reports the health of its workload: the error is the reason why it is
 * unhealthy. Agents of Istio send the same (proto/health/v1 of Istio). There is no response.
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
  /** See `ProxySession`. */
  readonly connectionId: string;
  /** The snapshot version up to which its configuration is complete. */
  completeVersion(): number;
  /** The snapshot version up to which it has acknowledged everything that it requests. */
  acknowledgedVersion(): number;
  /** The resources that it requests and has not accepted, with their types. */
  unaccepted(): Iterable<readonly [type: XdsType, name: string, answer: UnacceptedAnswer]>;
  /** The listeners that it should have, by name; undefined if it has not requested listeners. */
  listeners(): ReadonlyMap<string, ResourceState> | undefined;
}

/** Called once for each stream, with its authorized node. Returns undefined if the stream is not followed. */
export type WorkloadConnected = (node: ProxyNode, proxy: ConnectedProxy) => WorkloadStream | undefined;

export function connectedProxy<Request extends AnyRequest>(
  session: ProxySession,
  machine: AdsMachine<Request>,
  contentOf: () => Parts,
): ConnectedProxy {
  return {
    connectionId: session.connectionId,
    completeVersion: () => session.completeVersion(),
    acknowledgedVersion: () => machine.acknowledgedVersion(contentOf(), session.completeVersion()),
    *unaccepted() {
      const content = contentOf();
      for (const type of XDS_TYPES)
        for (const [name, answer] of machine.unaccepted(type, content)) yield [type, name, answer];
    },
    listeners: () => machine.states('lds', contentOf()),
  };
}
