/** Checks the settings of the Secrets that the agent of a gateway serves (ENABLE_INGRESS_GATEWAY_SDS). */
import { isDnsLabel } from '../core/dns-names.ts';
import { CtlError } from '../core/errors.ts';
import type { AgentSettings } from '../settings/index.ts';
import type { ProxyRole } from './types.ts';

export interface GatewaySecretsPlan {
  /** The namespace of the Secrets; undefined: none are served. */
  readonly namespace: string | undefined;
  readonly warnings: readonly string[];
}

/**
 * @param own the namespace of the workload
 * @param sds whether Envoy can fetch secrets from the agent
 */
export function planGatewaySecrets(
  role: ProxyRole,
  { gatewaySecrets, gatewaySecretsNamespace }: AgentSettings,
  own: string,
  sds: boolean,
): GatewaySecretsPlan {
  const without = (why: string): GatewaySecretsPlan => ({ namespace: undefined, warnings: [why] });
  if (!gatewaySecrets) {
    if (gatewaySecretsNamespace === '') return { namespace: undefined, warnings: [] };
    return without('INGRESS_GATEWAY_NAMESPACE has no effect without ENABLE_INGRESS_GATEWAY_SDS');
  }
  if (role !== 'router') return without('ENABLE_INGRESS_GATEWAY_SDS has no effect on a sidecar: it is for gateways');
  if (!sds) return without('ENABLE_INGRESS_GATEWAY_SDS has no effect without certificates of the mesh');
  const namespace = gatewaySecretsNamespace || own;
  if (isDnsLabel(namespace)) return { namespace, warnings: [] };
  throw new CtlError('invalid_argument', `${JSON.stringify(namespace)} is not a valid namespace name`, {
    field: gatewaySecretsNamespace === '' ? 'POD_NAMESPACE' : 'INGRESS_GATEWAY_NAMESPACE',
  });
}
