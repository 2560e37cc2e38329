/** How clusters of services find their endpoints, and choose among them. */
import type { Memos } from '../../core/memo.ts';
import type { MergedDestinationRule, ModelSettings, Service } from '../../model/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import type { MeshConfig } from '../../resources/index.ts';
import { adsConfigSource, endpointName } from '../common/index.ts';
import {
  assignEndpoints,
  assignmentMessage,
  type ClusterTarget,
  type Discovery,
  type EndpointSources,
  type EnvoyClientView,
  endpointSources,
  endpointsInput,
  localitySetting,
} from '../endpoints/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { EndpointNames, NodeFamilies, Placement } from '../views.ts';
import { dnsDiscovery } from './dns-discovery.ts';
import { dynamicDiscovery } from './dynamic-dns.ts';
import { loadBalancing, sharding } from './load-balancer.ts';
import { CLUSTER_PROVIDED, EDS, ORIGINAL_DST, STATIC } from './static.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;

/** Endpoints for clusters that resolve names, which contain them. */
export interface CarriedEndpoints {
  readonly families: NodeFamilies;
  readonly typedDns: boolean;
  readonly gateways: EndpointSources['gateways'] | undefined;
  readonly endpoints: EndpointSources['endpoints'] | undefined;
  readonly network: string;
  readonly locality: string;
  readonly labels: string;
  readonly clusters: number;
  readonly placed: boolean;
}

export const NOTHING_CARRIED: CarriedEndpoints = {
  families: 'ipv4',
  typedDns: false,
  gateways: undefined,
  endpoints: undefined,
  network: '',
  locality: '',
  labels: '',
  clusters: 1,
  placed: false,
};

export interface DiscoveryInputs extends CarriedEndpoints {
  readonly memos: Memos;
  readonly mesh: MeshConfig;
  readonly settings: ModelSettings;
  /** How the clusters name the endpoints that they request. */
  readonly endpointNames: EndpointNames;
  /** Whether Envoy can resolve the names that clients request; false where the service needs no such cluster. */
  readonly dynamicDns: boolean;
}

export function carriedEndpoints(
  snapshot: MeshReader,
  view: EnvoyClientView,
  placement: Placement,
  service: Service,
  rule: MergedDestinationRule | undefined,
): CarriedEndpoints & Pick<EndpointSources, 'endpoints'> {
  const { mesh: _, ...sources } = endpointSources(snapshot, view, placement, {
    service,
    rule,
    endpoints: snapshot.carriedEndpoints.get(service.key),
  });
  return { families: view.families, typedDns: view.capabilities.replacements === true, ...sources };
}

/** How the cluster finds its endpoints and chooses among them. */
export function endpointsOf(
  inputs: DiscoveryInputs,
  name: string,
  target: ClusterTarget,
  discovery: Discovery,
  originatesTls: boolean,
): Cluster {
  const { mesh, families, dynamicDns } = inputs;
  if (discovery === 'original') return { type: ORIGINAL_DST, lbPolicy: CLUSTER_PROVIDED };
  if (discovery === 'none' || (discovery === 'dynamic' && !dynamicDns)) return { type: STATIC };
  if (discovery === 'dynamic') return dynamicDiscovery(name, families, mesh.dnsRefreshRate, originatesTls);
  return { ...balanced(inputs, target), ...discovered(inputs, name, target, discovery, false) };
}

export function balanced({ mesh, settings }: DiscoveryInputs, { policy, port }: ClusterTarget): Cluster {
  const sharded = settings.redisFilter && port.protocol === 'Redis';
  return {
    ...(sharded ? sharding(policy.loadBalancer) : loadBalancing(policy.loadBalancer)),
    commonLbConfig: {
      // Below the threshold Envoy balances over endpoints that are known to be bad. With the few endpoints that
      // services commonly have, half of them being down is not a reason to send requests there.
      healthyPanicThreshold: { value: Math.min(100, Math.max(0, policy.outlierDetection?.minHealthPercent ?? 0)) },
      ...(localitySetting(mesh, policy) !== undefined && { localityWeightedLbConfig: {} }),
    },
  };
}

export function discovered(
  inputs: DiscoveryInputs,
  name: string,
  target: ClusterTarget,
  discovery: 'eds' | 'dns',
  passedOn: boolean,
): Cluster {
  const { mesh, settings, gateways, endpoints, network, locality, labels, clusters, placed } = inputs;
  if (discovery === 'eds' || gateways === undefined || endpoints === undefined) {
    // Envoy uses the cluster's name when `service_name` is absent.
    const asked = endpointName(inputs.endpointNames, name);
    const edsConfig = adsConfigSource(settings.initialFetchTimeoutMs);
    return { type: EDS, edsClusterConfig: asked === name ? { edsConfig } : { edsConfig, serviceName: asked } };
  }
  const sources = { mesh, gateways, endpoints, network, locality, labels, clusters, placed };
  return {
    ...dnsDiscovery({ families: inputs.families, refreshRateMs: mesh.dnsRefreshRate, typed: inputs.typedDns }),
    loadAssignment: assignmentMessage(
      assignEndpoints(endpointsInput(inputs.memos, sources, name, target, { passedOn, isGrpc: false })),
    ),
  };
}
