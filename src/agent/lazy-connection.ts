/** The agent's connection to the control plane, loaded and opened when the first part of the agent needs it. */
import type { Closers } from '../core/process/closers.ts';
import type { AgentMetrics } from './metrics/metrics.ts';
import type { WorkloadIdentity } from './types.ts';
import type { XdsPlan } from './xds-plan.ts';
import type { AgentConnection } from './xds-proxy/index.ts';

export interface LazyConnection {
  /** The same connection for all callers. */
  get(): Promise<AgentConnection>;
}

/**
 * @param metrics includes the metrics of the connection when it is opened
 */
export function createLazyConnection(
  plan: XdsPlan,
  { secrets }: WorkloadIdentity,
  metrics: Pick<AgentMetrics, 'include'>,
  closers: Closers,
): LazyConnection {
  let opened: Promise<AgentConnection> | undefined;
  const open = async (): Promise<AgentConnection> => {
    const { connectControlPlane } = await import('./xds-proxy/index.ts');
    const connection = closers.use(await connectControlPlane({ ...plan, secrets }));
    metrics.include(connection.metrics);
    return connection;
  };
  return {
    get() {
      opened ??= open();
      return opened;
    },
  };
}
