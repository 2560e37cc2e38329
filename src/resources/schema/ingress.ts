/** The fields of Ingress and IngressClass that are read. The content is the object's `spec`. */
import { z } from 'zod';
import { portNumber, strings } from './common.ts';

const ingressBackend = z.strictObject({
  service: z
    .strictObject({
      name: z.string(),
      port: z.strictObject({ number: portNumber.optional(), name: z.string().optional() }).optional(),
    })
    .optional(),
  /** Not served. */
  resource: z.object({ kind: z.string().optional(), name: z.string().optional() }).optional(),
});
export type IngressBackend = z.output<typeof ingressBackend>;

const ingressPath = z.strictObject({
  path: z.string().optional(),
  pathType: z.enum(['Exact', 'Prefix', 'ImplementationSpecific']).default('ImplementationSpecific'),
  backend: ingressBackend,
});
export type IngressPath = z.output<typeof ingressPath>;

export const ingress = z.strictObject({
  ingressClassName: z.string().optional(),
  defaultBackend: ingressBackend.optional(),
  tls: z.array(z.strictObject({ hosts: strings.optional(), secretName: z.string().optional() })).optional(),
  rules: z
    .array(
      z.strictObject({ host: z.string().optional(), http: z.strictObject({ paths: z.array(ingressPath) }).optional() }),
    )
    .optional(),
});
export type IngressSpec = z.output<typeof ingress>;

export const ingressClass = z.object({ controller: z.string().optional() });
