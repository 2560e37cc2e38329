/** The agent's connection to the control plane, loaded and opened when the first part of the agent needs it. */
import type { AgentMetrics } from './metrics/metrics.ts';
import type { AgentIdentity } from './types.ts';
import type { XdsPlan } from './xds-plan.ts';
import type { AgentConnection } from './xds-proxy/index.ts';

export interface LazyConnection {
  /** The same connection for all callers. */
  get(): Promise<AgentConnection>;
  close(): Promise<void>;
}

/** @param metrics where those of the connection are included when it is opened */
export function createLazyConnection(
  plan: XdsPlan,
  identity: AgentIdentity | undefined,
  metrics: Pick<AgentMetrics, 'include'>,
): LazyConnection {
  let opened: Promise<AgentConnection> | undefined;
  const open = async (): Promise<AgentConnection> => {
    const { connectControlPlane } = await import('./xds-proxy/index.ts');
    const connection = await connectControlPlane({ ...plan, secrets: identity?.secrets });
    metrics.include(connection.metrics);
    return connection;
  };
  return {
    get() {
      opened ??= open();
      return opened;
    },
    // A failure to open was reported to the caller of `get`.
    close: async () => (await opened?.catch(() => undefined))?.close(),
  };
}
