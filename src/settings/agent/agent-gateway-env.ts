/** Variables of the agent of a gateway. */
import type { EnvTable } from '../env-table.ts';

export const agentGatewayEnv = {
  ENABLE_INGRESS_GATEWAY_SDS: {
    setting: 'gatewaySecrets',
    type: 'boolean',
    default: false,
    meaning:
      'The agent of a gateway reads the TLS Secrets that `credentialName` names and serves them to Envoy. Its ' +
      'service account needs the permission to get, list and watch Secrets.',
  },
  INGRESS_GATEWAY_NAMESPACE: {
    setting: 'gatewaySecretsNamespace',
    type: 'string',
    default: '',
    meaning: 'Namespace of these Secrets; when empty that of the workload.',
  },
} as const satisfies EnvTable;
