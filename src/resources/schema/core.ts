/**
 * The fields of Kubernetes kinds that a mesh reads. Unknown fields are dropped, not refused: these objects have many
 * fields that do not concern the mesh, and without them, edits of such fields do not count as changes.
 */
import { z } from 'zod';
import { portNumber, selectorLabelMap, stringMap, strings } from './common.ts';
import { secret as hidden } from './secret.ts';

const protocol = z.enum(['TCP', 'UDP', 'SCTP']);
const objectReference = z.object({
  kind: z.string().optional(),
  namespace: z.string().optional(),
  name: z.string().optional(),
});

const conditions = z.array(z.object({ type: z.string(), status: z.string() }));

/** Only the metadata of a Namespace is read. */
export const namespace = z.object({});
export type NamespaceContent = z.output<typeof namespace>;

export const serviceAccount = z.object({});
export type ServiceAccountContent = z.output<typeof serviceAccount>;

export const node = z.object({
  spec: z.object({ podCIDR: z.string().optional(), podCIDRs: strings.optional() }).optional(),
  status: z.object({ addresses: z.array(z.object({ type: z.string(), address: z.string() })).optional() }).optional(),
});
export type NodeContent = z.output<typeof node>;

const containerPort = z.object({
  name: z.string().optional(),
  containerPort: portNumber,
  protocol: protocol.optional(),
});
const container = z.object({ name: z.string(), ports: z.array(containerPort).optional() });

export const pod = z.object({
  /** Milliseconds since the epoch; present while the pod is being deleted. Taken from the metadata. */
  deletionTimestamp: z.number().optional(),
  spec: z.object({
    nodeName: z.string().optional(),
    serviceAccountName: z.string().optional(),
    hostNetwork: z.boolean().optional(),
    hostname: z.string().optional(),
    subdomain: z.string().optional(),
    containers: z.array(container).optional(),
    initContainers: z.array(container).optional(),
  }),
  status: z
    .object({
      phase: z.enum(['Pending', 'Running', 'Succeeded', 'Failed', 'Unknown']).optional(),
      podIP: z.string().optional(),
      podIPs: z.array(z.object({ ip: z.string() })).optional(),
      hostIP: z.string().optional(),
      conditions: conditions.optional(),
    })
    .optional(),
});
export type PodContent = z.output<typeof pod>;

const servicePort = z.object({
  name: z.string().optional(),
  port: portNumber,
  protocol: protocol.default('TCP'),
  appProtocol: z.string().optional(),
  targetPort: z.union([portNumber, z.string()]).optional(),
  nodePort: portNumber.optional(),
});

export const service = z.object({
  spec: z.object({
    type: z.enum(['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']).optional(),
    /** `None` for a headless service. */
    clusterIP: z.string().optional(),
    clusterIPs: strings.optional(),
    externalName: z.string().optional(),
    externalIPs: strings.optional(),
    loadBalancerIP: z.string().optional(),
    ports: z.array(servicePort).optional(),
    selector: selectorLabelMap.optional(),
    publishNotReadyAddresses: z.boolean().optional(),
    sessionAffinity: z.string().optional(),
    externalTrafficPolicy: z.string().optional(),
    internalTrafficPolicy: z.string().optional(),
    trafficDistribution: z.string().optional(),
  }),
  status: z
    .object({
      loadBalancer: z
        .object({
          ingress: z.array(z.object({ ip: z.string().optional(), hostname: z.string().optional() })).optional(),
        })
        .optional(),
    })
    .optional(),
});
export type ServiceContent = z.output<typeof service>;
export type ServicePort = z.output<typeof servicePort>;

const endpointAddress = z.object({
  ip: z.string(),
  hostname: z.string().optional(),
  nodeName: z.string().optional(),
  targetRef: objectReference.optional(),
});
const endpointPort = z.object({
  name: z.string().optional(),
  port: portNumber,
  protocol: protocol.default('TCP'),
  appProtocol: z.string().optional(),
});

export const endpoints = z.object({
  subsets: z
    .array(
      z.object({
        addresses: z.array(endpointAddress).optional(),
        notReadyAddresses: z.array(endpointAddress).optional(),
        ports: z.array(endpointPort).optional(),
      }),
    )
    .optional(),
});
export type EndpointsContent = z.output<typeof endpoints>;

export const endpointSlice = z.object({
  addressType: z.enum(['IPv4', 'IPv6', 'FQDN']),
  endpoints: z
    .array(
      z.object({
        addresses: strings,
        conditions: z
          .object({
            ready: z.boolean().optional(),
            serving: z.boolean().optional(),
            terminating: z.boolean().optional(),
          })
          .optional(),
        hostname: z.string().optional(),
        nodeName: z.string().optional(),
        zone: z.string().optional(),
        /** v1beta1 has the locality here. */
        topology: stringMap.optional(),
        targetRef: objectReference.optional(),
      }),
    )
    .optional(),
  ports: z
    .array(
      z.object({
        name: z.string().optional(),
        port: portNumber.optional(),
        protocol: protocol.default('TCP'),
        appProtocol: z.string().optional(),
      }),
    )
    .optional(),
});
export type EndpointSliceContent = z.output<typeof endpointSlice>;

const secretValues = hidden('value', z.record(z.string(), z.string()));

export const secret = z.object({
  type: z.string().optional(),
  /** Base64. */
  data: secretValues.optional(),
  stringData: secretValues.optional(),
});
export type SecretContent = z.output<typeof secret>;

export const configMap = z.object({ data: stringMap.optional(), /** Base64. */ binaryData: stringMap.optional() });
export type ConfigMapContent = z.output<typeof configMap>;
