/**
 * The environment variables of the controller of the Gateway API (specification: ctl-agent "Environment variables" for
 * those of statuses).
 */
import type { EnvTable } from './env-table.ts';

export const discoveryGatewayEnv = {
  CTL_STATUS_QPS: {
    setting: 'statusQps',
    type: 'float',
    default: 100,
    min: 0,
    meaning: 'Queries per second of status updates when status is enabled.',
  },
  CTL_STATUS_BURST: {
    setting: 'statusBurst',
    type: 'integer',
    default: 500,
    min: 0,
    unit: 'updates',
    meaning: 'Burst rate of status updates when status is enabled.',
  },
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
} as const satisfies EnvTable;
