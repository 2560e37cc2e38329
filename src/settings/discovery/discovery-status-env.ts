/** The environment variables of what is written to the status of resources. */
import type { EnvTable } from '../env-table.ts';

export const discoveryStatusEnv = {
  CTL_ENABLE_STATUS: {
    setting: 'reconciledStatus',
    type: 'boolean',
    default: false,
    meaning: 'Updates the status field of all mesh resources with reconciliation status.',
  },
  CTL_ENABLE_ANALYSIS: {
    setting: 'analysisStatus',
    type: 'boolean',
    default: false,
    meaning: 'Runs analyzers and writes analysis errors to the status field of resources.',
  },
  CTL_STATUS_QPS: {
    setting: 'statusQps',
    type: 'float',
    default: 100,
    min: 0,
    meaning: 'Queries per second of status updates, also of those of the Gateway API and of Ingresses.',
  },
  CTL_STATUS_BURST: {
    setting: 'statusBurst',
    type: 'integer',
    default: 500,
    min: 0,
    unit: 'updates',
    meaning: 'Burst rate of status updates.',
  },
} as const satisfies EnvTable;
