/** The agent's connection to the control plane, loaded and opened when the first part of the agent needs it. */
import type { XdsPlan } from './plan.ts';
import type { AgentIdentity } from './types.ts';
import type { ControlPlaneConnection } from './xds-proxy/index.ts';

export interface LazyConnection {
  /** The same connection for all callers. */
  get(): Promise<ControlPlaneConnection>;
  close(): Promise<void>;
}

export function createLazyConnection(plan: XdsPlan, identity: AgentIdentity | undefined): LazyConnection {
  let opened: Promise<ControlPlaneConnection> | undefined;
  const open = async (): Promise<ControlPlaneConnection> => {
    const { connectControlPlane } = await import('./xds-proxy/index.ts');
    return connectControlPlane({ ...plan, secrets: identity?.secrets });
  };
  return {
    get() {
      opened ??= open();
      return opened;
    },
    close: async () => (await opened)?.close(),
  };
}
