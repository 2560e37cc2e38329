/** Everything that only the leader runs, once everything has been read. */
import { TokenBucket } from '../../core/fairness/token-bucket.ts';
import type { LeaderStatus } from '../../debug/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import type { WorkloadConnected } from '../../xds/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import { runDocumentEvents } from './document-events.ts';
import { type GatewayInputs, runGatewayController } from './gateway-controller.ts';
import { runIngressStatuses } from './ingress-statuses.ts';
import { type MeshStatusInputs, runMeshStatuses } from './mesh-statuses.ts';

export interface ControllersInputs extends Omit<GatewayInputs & MeshStatusInputs, 'cluster' | 'statusBudget'> {
  /** Undefined when no cluster is read: nothing is written then. */
  readonly cluster: Cluster | undefined;
}

export interface Controllers {
  /** Follow what proxies acknowledge. */
  readonly followers: readonly WorkloadConnected[];
  configure(mesh: MeshConfig): void;
  /** All tasks of leaders in the cluster. */
  leadership(): readonly LeaderStatus[];
  /** Gives all Leases up. */
  close(): Promise<void>;
}

const NO_CONTROLLERS: Controllers = {
  followers: [],
  configure() {},
  leadership: () => [],
  close: async () => {},
};

/** Starts to take part in the elections. */
export function runControllers({ cluster, ...rest }: ControllersInputs): Controllers {
  if (cluster === undefined) return NO_CONTROLLERS;
  const { statusQps: rate, statusBurst: burst } = rest.settings;
  const statusBudget = new TokenBucket({ rate, burst, now: cluster.client.connection.clock.now });
  const inputs = { ...rest, cluster, statusBudget };
  runDocumentEvents(inputs, inputs.documents);
  const gateways = runGatewayController(inputs);
  const statuses = runMeshStatuses(inputs);
  runIngressStatuses(inputs);
  return {
    followers: [gateways, statuses].flatMap((task) => (task === undefined ? [] : [task.connected])),
    configure: (mesh) => gateways?.configure(mesh),
    leadership: () => cluster.leadership.status(),
    async close() {
      // All tasks at the same time: each may wait for an API server that does not answer.
      await Promise.all([cluster.leadership.close(), gateways?.close(), statuses?.close()]);
    },
  };
}
