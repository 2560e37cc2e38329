/**
 * Clusters of gRPC clients: one for each port of a service, and for each port and subset of its destination rule, with
 * the settings that gRPC supports. gRPC rejects a cluster because of a setting that it does not know.
 * Sources: https://github.com/grpc/proposal, A27 (clusters), A32 (circuit breaking), A37 (names that are resolved), A42
 * (hashes), A50 (outlier detection)
 */
import type { Memos } from '../../core/memo.ts';
import type { MergedDestinationRule, Service } from '../../model/index.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import type { ConnectionPool, LoadBalancerSettings, OutlierDetection } from '../../resources/index.ts';
import { loadBalancing, type MeshPeering, meshPeers } from '../clusters/index.ts';
import {
  adsConfigSource,
  clusterName,
  type EffectivePolicy,
  effectivePolicy,
  InputCache,
  scopeOfView,
  toDuration,
} from '../common/index.ts';
import {
  assignEndpoints,
  assignmentMessage,
  type ClusterTarget,
  type EndpointSources,
  endpointSources,
  endpointsInput,
} from '../endpoints/index.ts';
import { isStream, type MeshReader } from '../reads/index.ts';
import type { GeneratedResource, GenerationFinding, Unit, UnitOutput } from '../types.ts';
import { DEFAULT_PLACEMENT, type GrpcClientView } from '../views.ts';
import { clientTls } from './tls.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;

const { DiscoveryType, LbPolicy } = envoy.config.cluster.v3.Cluster;
const NOTHING: UnitOutput = { resources: [], findings: [] };
const NO_LABELS: Readonly<Record<string, string>> = {};

interface ClusterInputs extends Pick<MeshPeering, 'service' | 'mesh' | 'settings' | 'peers'> {
  readonly memos: Memos;
  readonly rule: MergedDestinationRule | undefined;
  /** Endpoints for names that the application resolves; undefined: they are sent apart. */
  readonly gateways: EndpointSources['gateways'] | undefined;
  readonly endpoints: EndpointSources['endpoints'] | undefined;
}

const clusters = new InputCache<ClusterInputs, UnitOutput>('clusters of gRPC clients', clustersOf);

export function clientClusters(snapshot: MeshReader, view: GrpcClientView, host: Unit): UnitOutput {
  const scope = scopeOfView(snapshot, view);
  const service = scope?.services.get(host);
  if (scope === undefined || service === undefined) return NOTHING;
  const { memos, mesh, settings } = snapshot;
  const rule = scope.rules.of(host);
  const peers = snapshot.peers.get(service.key);
  const { gateways, endpoints } =
    service.resolution === 'dns'
      ? carried(snapshot, view, service, rule)
      : { gateways: undefined, endpoints: undefined };
  return clusters.get(memos, service, { memos, service, rule, mesh, settings, peers, gateways, endpoints });
}

function carried(
  snapshot: MeshReader,
  view: GrpcClientView,
  service: Service,
  rule: MergedDestinationRule | undefined,
): EndpointSources {
  const endpoints = snapshot.carriedEndpoints.get(service.key);
  return endpointSources(snapshot, view, DEFAULT_PLACEMENT, { service, rule, endpoints });
}

function clustersOf(inputs: ClusterInputs): UnitOutput {
  const { service, rule } = inputs;
  const resources = new Map<string, GeneratedResource>();
  const findings: GenerationFinding[] = [];
  for (const port of service.ports.filter(isStream)) {
    for (const subset of [undefined, ...(rule?.subsets ?? [])]) {
      const name = clusterName('outbound', port.port, subset?.name ?? '', service.hostname);
      if (resources.has(name)) continue;
      const policy = effectivePolicy(rule, subset, port.port);
      const target = { service, port, subset: subset?.name ?? '', labels: subset?.labels ?? NO_LABELS, policy };
      const discovery = discoveryFor(inputs, name, target);
      const problem = unsupportedTls(policy) ?? (typeof discovery === 'string' ? discovery : undefined);
      if (problem !== undefined) {
        const message = `${name} is left out for gRPC applications: ${problem}`;
        findings.push({ metric: 'ctl_missing_credentials', type: 'cds', unit: service.hostname, message });
        continue;
      }
      if (typeof discovery !== 'string') resources.set(name, buildCluster(inputs, name, target, discovery));
      const unsupported = UNSUPPORTED.filter((setting) => policy[setting] !== undefined);
      if (unsupported.length === 0) continue;
      const settings = unsupported.join(', ');
      const message = `${name}: its DestinationRule sets ${settings}, without effect for gRPC applications`;
      findings.push({ metric: 'ctl_unsupported_by_grpc', type: 'cds', unit: service.hostname, message });
    }
  }
  return { resources: [...resources.values()], findings };
}

/** Settings whose absence would change where connections go, how they begin, or how many requests are retried. */
const UNSUPPORTED = ['tunnel', 'proxyProtocol', 'retryBudget'] as const satisfies readonly (keyof EffectivePolicy)[];

/** Plain text instead of TLS would be worse than no cluster. */
function unsupportedTls({ tls }: EffectivePolicy): string | undefined {
  if (tls === undefined || tls.mode === 'DISABLE' || tls.mode === 'MESH_MUTUAL') return undefined;
  return `its DestinationRule requires TLS mode ${tls.mode}, and they support only MESH_MUTUAL`;
}

/** How the application discovers the cluster's endpoints; a message if it cannot. */
function discoveryFor(
  { service, mesh, memos, settings, gateways, endpoints }: ClusterInputs,
  name: string,
  target: ClusterTarget,
): Cluster | string {
  if (service.resolution === 'dynamic') return 'they do not resolve names that match a wildcard';
  if (gateways === undefined || endpoints === undefined) {
    return {
      type: DiscoveryType.EDS,
      edsClusterConfig: { edsConfig: adsConfigSource(settings.initialFetchTimeoutMs), serviceName: name },
    };
  }
  const sources = { mesh, gateways, endpoints, network: '', locality: '', labels: '', clusters: 1, placed: false };
  const assignment = assignEndpoints(endpointsInput(memos, sources, name, target, { passedOn: false, isGrpc: true }));
  const [locality, ...others] = assignment.localities;
  if (locality?.endpoints.length !== 1 || others.length > 0)
    return 'they can resolve only one endpoint, but the cluster has none or several';
  return { type: DiscoveryType.LOGICAL_DNS, loadAssignment: assignmentMessage(assignment) };
}

function buildCluster(
  inputs: ClusterInputs,
  name: string,
  target: ClusterTarget,
  discovery: Cluster,
): GeneratedResource {
  const { tls, connectionPool, outlierDetection, loadBalancer } = target.policy;
  const cluster: Cluster = {
    name,
    ...discovery,
    ...balancing(loadBalancer),
    ...requestLimit(connectionPool),
    ...(outlierDetection !== undefined && { outlierDetection: ejection(outlierDetection) }),
    ...(tls?.mode === 'MESH_MUTUAL' && { transportSocket: clientTls(meshPeers(inputs, tls)) }),
  };
  const refs = discovery.edsClusterConfig ? [name] : [];
  return { name, bytes: encode(envoy.config.cluster.v3.Cluster, cluster), refs };
}

/** All implementations of gRPC support these two of its own policies. */
function balancing(settings: LoadBalancerSettings | undefined): Cluster {
  const { lbPolicy, ringHashLbConfig } = loadBalancing(settings);
  if (settings?.consistentHash === undefined) return {};
  return { lbPolicy: LbPolicy.RING_HASH, ...(lbPolicy === LbPolicy.RING_HASH && { ringHashLbConfig }) };
}

/** The default limit of gRPC is 1,024. */
const UNLIMITED = 0xffffffff;

function requestLimit(pool: ConnectionPool | undefined): Cluster {
  const limit = pool?.http?.http2MaxRequests ?? 0;
  return { circuitBreakers: { thresholds: [{ maxRequests: { value: limit > 0 ? limit : UNLIMITED } }] } };
}

/** Envoy's default of consecutive errors. */
const DEFAULT_ERRORS = 5;
/** gRPC ejects endpoints with a larger percentage of failures than this: those for which every request failed. */
const NEARLY_ALL = 99;

/**
 * gRPC counts failures in each interval and does not support consecutive errors. The closest equivalent is to eject an
 * endpoint if all requests of an interval failed, and at least as many as the rule has consecutive errors.
 */
function ejection(settings: OutlierDetection): envoy.config.cluster.v3.OutlierDetection.Input {
  const { interval, baseEjectionTime, maxEjectionPercent } = settings;
  const { consecutive5xxErrors, consecutiveGatewayErrors, consecutiveErrors } = settings;
  const counts = [consecutive5xxErrors, consecutiveGatewayErrors, consecutiveErrors];
  const written = counts.filter((count) => count !== undefined);
  const errors = written.length === 0 ? DEFAULT_ERRORS : Math.min(...written.filter((count) => count > 0));
  return {
    enforcingSuccessRate: { value: 0 },
    // Disabled if all counts are 0.
    enforcingFailurePercentage: { value: Number.isFinite(errors) ? 100 : 0 },
    failurePercentageThreshold: { value: NEARLY_ALL },
    failurePercentageMinimumHosts: { value: 1 },
    failurePercentageRequestVolume: { value: Number.isFinite(errors) ? errors : 0 },
    ...(interval !== undefined && interval > 0 && { interval: toDuration(interval) }),
    ...(baseEjectionTime !== undefined && baseEjectionTime > 0 && { baseEjectionTime: toDuration(baseEjectionTime) }),
    ...(maxEjectionPercent !== undefined &&
      maxEjectionPercent > 0 && { maxEjectionPercent: { value: Math.min(100, maxEjectionPercent) } }),
  };
}
