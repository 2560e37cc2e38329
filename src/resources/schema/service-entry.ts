/** ServiceEntry and WorkloadEntry: services and workloads outside Kubernetes. */
import { z } from 'zod';
import { networkingSelector, port, portNumber, strings, uint32, workloadLabelMap } from './common.ts';

export const workloadEntry = z.strictObject({
  address: z.string().optional(),
  ports: z.record(z.string(), portNumber).optional(),
  labels: workloadLabelMap.optional(),
  network: z.string().optional(),
  locality: z.string().optional(),
  weight: uint32.optional(),
  serviceAccount: z.string().optional(),
});

export const serviceEntry = z.strictObject({
  hosts: strings,
  addresses: strings.optional(),
  ports: z.array(port).optional(),
  location: z.enum(['MESH_EXTERNAL', 'MESH_INTERNAL']).optional(),
  resolution: z.enum(['NONE', 'STATIC', 'DNS', 'DNS_ROUND_ROBIN', 'DYNAMIC_DNS']).optional(),
  endpoints: z.array(workloadEntry).optional(),
  workloadSelector: networkingSelector.optional(),
  exportTo: strings.optional(),
  subjectAltNames: strings.optional(),
});

export type ServiceEntrySpec = z.output<typeof serviceEntry>;
export type WorkloadEntrySpec = z.output<typeof workloadEntry>;
