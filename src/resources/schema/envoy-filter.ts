/** EnvoyFilter: patches on generated Envoy configuration. */
import { z } from 'zod';
import { int32, networkingSelector, portNumber, stringMap, targetRef } from './common.ts';
import { secret } from './secret.ts';

const filterMatch = z.strictObject({
  name: z.string().optional(),
  subFilter: z.strictObject({ name: z.string().optional() }).optional(),
});

const listenerMatch = z.strictObject({
  portNumber: portNumber.optional(),
  portName: z.string().optional(),
  name: z.string().optional(),
  listenerFilter: z.string().optional(),
  filterChain: z
    .strictObject({
      name: z.string().optional(),
      sni: z.string().optional(),
      transportProtocol: z.string().optional(),
      /** Comma-separated. */
      applicationProtocols: z.string().optional(),
      destinationPort: portNumber.optional(),
      filter: filterMatch.optional(),
    })
    .optional(),
});

const routeConfigurationMatch = z.strictObject({
  portNumber: portNumber.optional(),
  portName: z.string().optional(),
  gateway: z.string().optional(),
  name: z.string().optional(),
  vhost: z
    .strictObject({
      name: z.string().optional(),
      domainName: z.string().optional(),
      route: z
        .strictObject({
          name: z.string().optional(),
          action: z.enum(['ANY', 'ROUTE', 'REDIRECT', 'DIRECT_RESPONSE']).optional(),
        })
        .optional(),
    })
    .optional(),
});

const clusterMatch = z.strictObject({
  portNumber: portNumber.optional(),
  service: z.string().optional(),
  subset: z.string().optional(),
  name: z.string().optional(),
});

const waypointMatch = z.strictObject({
  portNumber: portNumber.optional(),
  filter: filterMatch.optional(),
  route: z.strictObject({ name: z.string().optional() }).optional(),
});

const match = z.strictObject({
  context: z.enum(['ANY', 'SIDECAR_INBOUND', 'SIDECAR_OUTBOUND', 'GATEWAY', 'WAYPOINT']).optional(),
  proxy: z
    .strictObject({
      /** RE2 on the proxy's version. */
      proxyVersion: z.string().optional(),
      metadata: stringMap.optional(),
    })
    .optional(),
  listener: listenerMatch.optional(),
  routeConfiguration: routeConfigurationMatch.optional(),
  cluster: clusterMatch.optional(),
  waypoint: waypointMatch.optional(),
});

const configPatch = secret(
  'envoyPatch',
  z.strictObject({
    applyTo: z.enum([
      'LISTENER',
      'FILTER_CHAIN',
      'NETWORK_FILTER',
      'HTTP_FILTER',
      'ROUTE_CONFIGURATION',
      'VIRTUAL_HOST',
      'HTTP_ROUTE',
      'CLUSTER',
      'EXTENSION_CONFIG',
      'BOOTSTRAP',
      'LISTENER_FILTER',
    ]),
    match: match.optional(),
    patch: z.strictObject({
      operation: z.enum([
        'MERGE',
        'ADD',
        'REMOVE',
        'INSERT_BEFORE',
        'INSERT_AFTER',
        'INSERT_FIRST',
        'REPLACE',
        'MERGE_AND_REPLACE_LIST',
      ]),
      /** A piece of an Envoy message in protobuf's JSON form. */
      value: z.record(z.string(), z.json()).optional(),
      filterClass: z.enum(['UNSPECIFIED', 'AUTHN', 'AUTHZ', 'STATS']).optional(),
    }),
  }),
);

export const envoyFilter = z.strictObject({
  workloadSelector: networkingSelector.optional(),
  targetRefs: z.array(targetRef).optional(),
  configPatches: z.array(configPatch).optional(),
  priority: int32.optional(),
});

export type EnvoyFilterSpec = z.output<typeof envoyFilter>;
export type EnvoyConfigPatch = z.output<typeof configPatch>;
export type EnvoyConfigMatch = z.output<typeof match>;
