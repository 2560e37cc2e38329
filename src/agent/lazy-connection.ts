/** The agent's connection to the control plane, loaded and opened when the first part of the agent needs it. */
import type { AgentIdentity } from './types.ts';
import type { XdsPlan } from './xds-plan.ts';
import type { AgentConnection } from './xds-proxy/index.ts';

export interface LazyConnection {
  /** The same connection for all callers. */
  get(): Promise<AgentConnection>;
  close(): Promise<void>;
}

export function createLazyConnection(plan: XdsPlan, identity: AgentIdentity | undefined): LazyConnection {
  let opened: Promise<AgentConnection> | undefined;
  const open = async (): Promise<AgentConnection> => {
    const { connectControlPlane } = await import('./xds-proxy/index.ts');
    return connectControlPlane({ ...plan, secrets: identity?.secrets });
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
