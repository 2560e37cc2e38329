/** The environment variables of the controller of the Gateway API. */
import type { EnvTable } from '../env-table.ts';

export const discoveryGatewayEnv = {
  CTL_GATEWAY_API_CONTROLLER_NAME: {
    setting: 'gatewayControllerName',
    type: 'string',
    default: 'mesh.io/gateway-controller',
    meaning:
      'Name of the controller in the GatewayClasses that are served. Control planes in different namespaces of a ' +
      'cluster need different names.',
  },
  GATEWAY_IMAGE: {
    setting: 'gatewayImage',
    type: 'string',
    default: '',
    meaning:
      'Image of ctl-agent for the Pods of gateways that the control plane deploys (CTL_ENABLED_SERVICE_APIS); else ' +
      'ctl-agent of the same version.',
  },
  GATEWAY_SECRETS_ROLE: {
    setting: 'gatewaySecretsRole',
    type: 'string',
    default: '',
    meaning:
      'Name of a ClusterRole with `list` and `watch` of Secrets. Gateways that the control plane deploys are bound ' +
      'to it in their own namespace while a listener has a certificate there, and read the Secrets themselves. ' +
      'When empty, the control plane reads them and sends them.',
  },
} as const satisfies EnvTable;
