/** The part of its own proxy configuration that a proxy sends in the metadata of its node. */
import type { AgentProxyConfig } from '../settings/proxy-config.ts';
import type { ProxyRole } from '../types.ts';
import type { NodeInput } from './node.ts';

/** The control plane knows the mesh configuration itself. */
export function statedProxyConfig(
  role: ProxyRole,
  { tracing, gatewayTopology }: AgentProxyConfig,
): Pick<NodeInput, 'proxyConfig'> {
  const stated = {
    ...(tracing !== undefined && { tracing }),
    ...(role === 'router' && gatewayTopology !== undefined && { gatewayTopology }),
  };
  return Object.keys(stated).length === 0 ? {} : { proxyConfig: stated };
}
