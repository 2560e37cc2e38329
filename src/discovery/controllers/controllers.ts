/** Everything that only the leader runs, once everything has been read. */
import type { LeaderStatus } from '../../debug/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { WorkloadConnected } from '../../xds/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { RefusedDocuments } from '../pipeline/refused-documents.ts';
import { runDocumentEvents } from './document-events.ts';
import { type GatewayInputs, runGatewayController } from './gateway-controller.ts';
import { runIngressStatuses } from './ingress-statuses.ts';

export interface ControllersInputs extends Omit<GatewayInputs, 'cluster'> {
  /** Undefined when no cluster is read: nothing is written then. */
  readonly cluster: Cluster | undefined;
  readonly documents: RefusedDocuments;
}

export interface Controllers {
  /** See `GatewayTask`. */
  readonly connected: WorkloadConnected;
  configure(mesh: MeshConfig): void;
  /** All tasks of leaders in the cluster. */
  leadership(): readonly LeaderStatus[];
  /** Gives all Leases up. */
  close(): Promise<void>;
}

const NO_CONTROLLERS: Controllers = {
  connected: () => undefined,
  configure() {},
  leadership: () => [],
  close: async () => {},
};

/** Starts to take part in the elections. */
export function runControllers({ cluster, documents, ...rest }: ControllersInputs): Controllers {
  if (cluster === undefined) return NO_CONTROLLERS;
  const inputs = { ...rest, cluster };
  runDocumentEvents(inputs, documents);
  const gateways = runGatewayController(inputs) ?? NO_CONTROLLERS;
  runIngressStatuses(inputs);
  return {
    connected: gateways.connected,
    configure: (mesh) => gateways.configure(mesh),
    leadership: () => cluster.leadership.status(),
    async close() {
      // All tasks at the same time: each may wait for an API server that does not answer.
      await Promise.all([cluster.leadership.close(), gateways.close()]);
    },
  };
}
