/**
 * DestinationRule: load balancing, connection pools, outlier detection and TLS for traffic to a host, after routing.
 */
import { z } from 'zod';
import { meshKey } from '../kinds/aliases.ts';
import { duration, int32, portNumber, portSelector, selectorLabelMap, strings, uint32 } from './common.ts';
import { type DerivedDestinationRule, derivable } from './derived.ts';
import { clientTlsSettings } from './tls-settings.ts';

/** Where traffic goes when a locality fails, and how it is spread; also part of the mesh configuration. */
export const localityLbSetting = z.strictObject({
  distribute: z
    .array(z.strictObject({ from: z.string().optional(), to: z.record(z.string(), uint32).optional() }))
    .optional(),
  failover: z.array(z.strictObject({ from: z.string().optional(), to: z.string().optional() })).optional(),
  /** `label`, or `label=value` for a value that is not the proxy's own. */
  failoverPriority: z.array(z.string().transform(meshKey)).optional(),
  enabled: z.boolean().optional(),
});
export type LocalityLbSetting = z.output<typeof localityLbSetting>;

const consistentHash = z.strictObject({
  httpHeaderName: z.string().optional(),
  httpCookie: z
    .strictObject({
      name: z.string(),
      path: z.string().optional(),
      ttl: duration.optional(),
      attributes: z.array(z.strictObject({ name: z.string(), value: z.string().optional() })).optional(),
    })
    .optional(),
  useSourceIp: z.boolean().optional(),
  httpQueryParameterName: z.string().optional(),
  ringHash: z.strictObject({ minimumRingSize: uint32.optional() }).optional(),
  maglev: z.strictObject({ tableSize: uint32.optional() }).optional(),
  minimumRingSize: uint32.optional(),
});

const simpleLb = z
  .enum(['UNSPECIFIED', 'ROUND_ROBIN', 'LEAST_CONN', 'LEAST_REQUEST', 'RANDOM', 'PASSTHROUGH'])
  // LEAST_CONN is the older name of Envoy's least request policy.
  .transform((name) => (name === 'LEAST_CONN' ? 'LEAST_REQUEST' : name));

const loadBalancer = z.strictObject({
  simple: simpleLb.optional(),
  consistentHash: consistentHash.optional(),
  localityLbSetting: localityLbSetting.optional(),
  warmupDurationSecs: duration.optional(),
  warmup: z
    .strictObject({
      duration: duration.optional(),
      minimumPercent: z.number().optional(),
      aggression: z.number().optional(),
    })
    .optional(),
});

export const tcpKeepalive = z.strictObject({
  probes: uint32.optional(),
  time: duration.optional(),
  interval: duration.optional(),
});
export type TcpKeepalive = z.output<typeof tcpKeepalive>;

export const connectionPool = z.strictObject({
  tcp: z
    .strictObject({
      maxConnections: int32.optional(),
      connectTimeout: duration.optional(),
      tcpKeepalive: tcpKeepalive.optional(),
      maxConnectionDuration: duration.optional(),
      idleTimeout: duration.optional(),
    })
    .optional(),
  http: z
    .strictObject({
      http1MaxPendingRequests: int32.optional(),
      http2MaxRequests: int32.optional(),
      maxRequestsPerConnection: int32.optional(),
      maxRetries: int32.optional(),
      idleTimeout: duration.optional(),
      h2UpgradePolicy: z.enum(['DEFAULT', 'DO_NOT_UPGRADE', 'UPGRADE']).optional(),
      useClientProtocol: z.boolean().optional(),
      maxConcurrentStreams: int32.optional(),
      http2KeepAlive: z.strictObject({ interval: duration, timeout: duration }).optional(),
    })
    .optional(),
});

const outlierDetection = z.strictObject({
  /** Deprecated; counts gateway errors. */
  consecutiveErrors: int32.optional(),
  consecutiveGatewayErrors: uint32.optional(),
  consecutive5xxErrors: uint32.optional(),
  splitExternalLocalOriginErrors: z.boolean().optional(),
  consecutiveLocalOriginFailures: uint32.optional(),
  interval: duration.optional(),
  baseEjectionTime: duration.optional(),
  maxEjectionPercent: int32.optional(),
  minHealthPercent: int32.optional(),
});

const retryBudget = z.strictObject({
  percent: z.number().optional(),
  minRetryConcurrency: uint32.optional(),
  budgetInterval: duration.optional(),
});

const tunnel = z.strictObject({ protocol: z.string().optional(), targetHost: z.string(), targetPort: portNumber });

const proxyProtocol = z.strictObject({ version: z.enum(['V1', 'V2']).optional() });

const portPolicyFields = {
  loadBalancer: loadBalancer.optional(),
  connectionPool: connectionPool.optional(),
  outlierDetection: outlierDetection.optional(),
  tls: clientTlsSettings.optional(),
};

const portTrafficPolicy = z.strictObject({ port: portSelector, ...portPolicyFields });

const trafficPolicy = z.strictObject({
  ...portPolicyFields,
  portLevelSettings: z.array(portTrafficPolicy).optional(),
  tunnel: tunnel.optional(),
  proxyProtocol: proxyProtocol.optional(),
  retryBudget: retryBudget.optional(),
});

const subset = z.strictObject({
  name: z.string(),
  labels: selectorLabelMap.optional(),
  trafficPolicy: trafficPolicy.optional(),
});

/** DestinationRule is the only kind of its group with `matchLabels`; it is normalized to the form of the others. */
const matchLabelsSelector = z
  .strictObject({ matchLabels: selectorLabelMap.optional() })
  .transform(({ matchLabels = {} }) => ({ labels: matchLabels }));

export const destinationRule = derivable<DerivedDestinationRule>()(
  z.strictObject({
    host: z.string(),
    trafficPolicy: trafficPolicy.optional(),
    subsets: z.array(subset).optional(),
    exportTo: strings.optional(),
    workloadSelector: matchLabelsSelector.optional(),
  }),
);

export type DestinationRuleSpec = z.output<typeof destinationRule>;
export type RetryBudget = z.output<typeof retryBudget>;
export type ProxyProtocol = z.output<typeof proxyProtocol>;
export type Tunnel = z.output<typeof tunnel>;
export type TrafficPolicy = z.output<typeof trafficPolicy>;
export type PortTrafficPolicy = z.output<typeof portTrafficPolicy>;
export type Subset = z.output<typeof subset>;
export type LoadBalancerSettings = z.output<typeof loadBalancer>;
export type ConsistentHash = z.output<typeof consistentHash>;
export type ConnectionPool = z.output<typeof connectionPool>;
export type OutlierDetection = z.output<typeof outlierDetection>;
