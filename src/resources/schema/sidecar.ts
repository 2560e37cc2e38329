/**
 * Sidecar: the ports that the proxies of a namespace or of selected workloads listen on, and the services that they can
 * reach.
 */
import { z } from 'zod';
import { networkingSelector, port, strings } from './common.ts';
import { connectionPool } from './destination-rule.ts';
import { serverTlsSettings } from './tls-settings.ts';
import { destination } from './virtual-service.ts';

const captureMode = z.enum(['DEFAULT', 'IPTABLES', 'NONE']);

const ingress = z.strictObject({
  port,
  bind: z.string().optional(),
  captureMode: captureMode.optional(),
  defaultEndpoint: z.string().optional(),
  tls: serverTlsSettings.optional(),
  connectionPool: connectionPool.optional(),
});

const egress = z.strictObject({
  port: port.optional(),
  bind: z.string().optional(),
  captureMode: captureMode.optional(),
  hosts: strings,
});

export const sidecar = z.strictObject({
  workloadSelector: networkingSelector.optional(),
  ingress: z.array(ingress).optional(),
  egress: z.array(egress).optional(),
  outboundTrafficPolicy: z
    .strictObject({
      mode: z.enum(['REGISTRY_ONLY', 'ALLOW_ANY']).optional(),
      egressProxy: destination.optional(),
    })
    .optional(),
  inboundConnectionPool: connectionPool.optional(),
});

export type SidecarSpec = z.output<typeof sidecar>;
export type SidecarIngress = z.output<typeof ingress>;
export type SidecarEgress = z.output<typeof egress>;
