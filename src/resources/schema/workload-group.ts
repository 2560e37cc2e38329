/** WorkloadGroup: the common properties of a group of workloads outside Kubernetes, and how they are probed. */
import { z } from 'zod';
import { int32, portNumber, stringMap, workloadLabelMap } from './common.ts';
import { secret } from './secret.ts';
import { workloadEntry } from './service-entry.ts';

const httpHeader = secret('value', z.strictObject({ name: z.string(), value: z.string().optional() }));

/** As in a Pod (Kubernetes Probe), without the names of ports. */
export const readinessProbe = z.strictObject({
  initialDelaySeconds: int32.optional(),
  timeoutSeconds: int32.optional(),
  periodSeconds: int32.optional(),
  successThreshold: int32.optional(),
  failureThreshold: int32.optional(),
  httpGet: z
    .strictObject({
      path: secret('url', z.string()).optional(),
      port: portNumber,
      host: z.string().optional(),
      scheme: z.string().optional(),
      httpHeaders: z.array(httpHeader).optional(),
    })
    .optional(),
  tcpSocket: z.strictObject({ host: z.string().optional(), port: portNumber }).optional(),
  exec: z.strictObject({ command: secret('value', z.array(z.string())) }).optional(),
  grpc: z.strictObject({ port: portNumber, service: z.string().optional() }).optional(),
});

export const workloadGroup = z.strictObject({
  /** Metadata of the WorkloadEntries that are written for the group. */
  metadata: z.strictObject({ labels: workloadLabelMap.optional(), annotations: stringMap.optional() }).optional(),
  template: workloadEntry,
  probe: readinessProbe.optional(),
});

export type WorkloadGroupSpec = z.output<typeof workloadGroup>;
export type ReadinessProbe = z.output<typeof readinessProbe>;
