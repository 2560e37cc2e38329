/**
 * The input of a cluster's load assignment. Its `key` identifies everything that was read: two views with equal keys
 * share one encoding.
 */
import type { Memos } from '../../core/memo.ts';
import type {
  Endpoint,
  MergedDestinationRule,
  ModelSettings,
  NetworkGateways,
  Service,
  ServiceKey,
  ServicePort,
  Snapshot,
} from '../../model/index.ts';
import type { LocalityLbSetting, MeshConfig } from '../../resources/index.ts';
import {
  clusterName,
  type EffectivePolicy,
  effectivePolicy,
  endpointName,
  hostOfCluster,
  InputCache,
  meshServerName,
  reachableEndpoints,
  scopeOfView,
} from '../common/index.ts';
import { isPassedOn } from '../listener-plans/index.ts';
import { MeshReader } from '../reads/index.ts';
import type { EndpointNames, GatewayView, GrpcClientView, OutboundView, Placement, View } from '../views.ts';
import {
  isEnabled,
  labelsRead,
  localityClass,
  networkOfEndpoints,
  readsLocalityOf,
  readsPlacement,
} from './classes.ts';
import { endpointsInCluster } from './cluster-local.ts';
import { discoveryOf } from './discovery.ts';
import { priorityLabels } from './failover-priority.ts';
import type { LocalityRules } from './locality.ts';
import { digestOf, gatewaysFor, networksOf } from './networks.ts';

export type EnvoyClientView = OutboundView | GatewayView;
export type ClientView = EnvoyClientView | GrpcClientView;

export function isClientView(view: View): view is ClientView {
  return view.part !== 'inbound' && view.part !== 'grpc-server';
}

export interface EndpointsInput {
  /** The cluster's name for its endpoints: `ClusterLoadAssignment.cluster_name`. */
  readonly name: string;
  readonly service: ServiceKey;
  /**
   * Identifies everything below except `endpoints`, whose identity changes when they change: (key, endpoints) → bytes
   * is a safe cache.
   */
  readonly key: string;
  /**
   * All endpoints of the service that the node's address families can reach: one list object for all nodes of the same
   * families.
   */
  readonly endpoints: readonly Endpoint[];
  readonly portName: string;
  /** Labels of the subset; empty for all. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether Envoy resolves host names here (not with EDS). */
  readonly resolvesNames: boolean;
  /** The proxy's network. */
  readonly network: string;
  /** Gateways of the networks that the endpoints are in. */
  readonly gateways: NetworkGateways;
  /**
   * Whether the proxy passes through other proxies' mutual TLS (AUTO_PASSTHROUGH): only to endpoints that accept it,
   * and not to another network's gateway, which might send it back.
   */
  readonly passedOn: boolean;
  /**
   * Whether the client is a gRPC application: it has no TLS for gateways of other networks and no Unix sockets, and
   * rejects an assignment with the same address twice.
   */
  readonly isGrpc: boolean;
  /** Undefined: localities make no difference. */
  readonly locality: LocalityRules | undefined;
}

/** The same for an EDS cluster. */
export interface EdsInput extends EndpointsInput {
  /** Whether it may differ for another placement. */
  readonly placed: boolean;
}

/** A cluster's service, port and subset. */
export interface ClusterTarget {
  readonly service: Service;
  readonly port: ServicePort;
  readonly subset: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly policy: EffectivePolicy;
}

export interface EndpointSources {
  readonly mesh: MeshConfig;
  /** Gateways of the networks that the endpoints are in. */
  readonly gateways: NetworkGateways;
  /**
   * All endpoints of the service that the node's address families can reach: one list object for all nodes of the same
   * families.
   */
  readonly endpoints: readonly Endpoint[];
  /** The proxy's network; '' if no endpoint is in it. */
  readonly network: string;
  /** The proxy's locality; '' where it makes no difference for the service. */
  readonly locality: string;
  /** The proxy's labels as JSON, so that they are compared by value; '' where they make no difference. */
  readonly labels: string;
  /** The number of the service's clusters, at most; each has its own assignment. */
  readonly clusters: number;
  /** Whether all of this may differ for another placement. */
  readonly placed: boolean;
}

interface ClusterInputs {
  readonly service: Service;
  readonly rule: MergedDestinationRule | undefined;
  readonly settings: ModelSettings;
  readonly part: ClientView['part'];
  /** Whether the view also passes connections through to the service. */
  readonly passedOn: boolean;
  readonly endpointNames: EndpointNames;
}

interface ServiceInputs extends ClusterInputs, EndpointSources {}

const NO_ENDPOINTS: readonly Endpoint[] = [];
const NO_CLUSTERS: ReadonlyMap<string, EdsInput> = new Map();
const NO_LABELS: Readonly<Record<string, string>> = {};

const inputsByCluster = new InputCache<ServiceInputs, ReadonlyMap<string, EdsInput>>(
  'endpoints of clusters',
  edsInputs,
);
const namesByCluster = new InputCache<ClusterInputs, ReadonlyMap<string, string>>('names of endpoints', edsNames);

/** The input of an EDS cluster's load assignment; undefined when the view has no such cluster. */
export function resolveEndpoints(
  snapshot: Snapshot,
  view: ClientView,
  placement: Placement,
  clusterName: string,
): EdsInput | undefined {
  return endpointsOfHost(snapshot, view, placement, hostOfCluster(clusterName)).get(clusterName);
}

/**
 * The same for all EDS clusters of a host, by cluster name: equal inputs are one object for all views and placements.
 */
export function endpointsOfHost(
  snapshot: Snapshot,
  view: ClientView,
  placement: Placement,
  host: string,
): ReadonlyMap<string, EdsInput> {
  const clusters = clusterInputs(MeshReader.of(snapshot), view, host);
  if (clusters === undefined) return NO_CLUSTERS;
  const { service, rule } = clusters;
  const endpoints = snapshot.endpoints.get(service.key);
  const sources = endpointSources(MeshReader.of(snapshot), view, placement, { service, rule, endpoints });
  return inputsByCluster.get(snapshot.memos, service, { ...clusters, ...sources });
}

/** An EDS cluster's name for its endpoints; undefined when the view has no such cluster. */
export function endpointsNameOf(snapshot: MeshReader, view: ClientView, clusterName: string): string | undefined {
  const clusters = clusterInputs(snapshot, view, hostOfCluster(clusterName));
  return clusters && namesByCluster.get(snapshot.memos, clusters.service, clusters).get(clusterName);
}

function clusterInputs(snapshot: MeshReader, view: ClientView, host: string): ClusterInputs | undefined {
  const scope = scopeOfView(snapshot, view);
  const service = scope?.services.get(host);
  if (scope === undefined || service === undefined) return undefined;
  return {
    service,
    rule: scope.rules.of(host),
    settings: snapshot.settings,
    part: view.part,
    passedOn: isPassedOn(snapshot, view, service),
    endpointNames: view.endpointNames,
  };
}

/**
 * @param endpoints all endpoints of the service
 */
export function endpointSources(
  snapshot: MeshReader,
  view: ClientView,
  placement: Placement,
  {
    service,
    rule,
    endpoints = NO_ENDPOINTS,
  }: Pick<ClusterInputs, 'service' | 'rule'> & { readonly endpoints: readonly Endpoint[] | undefined },
): EndpointSources {
  const { mesh, networks, memos } = snapshot;
  const ofCluster = endpointsInCluster(snapshot, service, endpoints, placement.cluster);
  const reachable = reachableEndpoints(memos, ofCluster, view);
  const isRead = readsLocalityOf(mesh, rule);
  return {
    placed: readsPlacement(snapshot, service, endpoints, rule),
    mesh,
    gateways: gatewaysFor(memos, snapshot.networkGateways, networksOf(memos, networks, reachable), view),
    endpoints: reachable,
    network: networkOfEndpoints(memos, networks, reachable, placement.network),
    locality: placement.locality !== '' && isRead ? placement.locality : '',
    labels: isRead ? labelsRead(mesh, rule, placement.labels) : '',
    clusters: service.ports.length * (1 + (rule?.subsets.length ?? 0)),
  };
}

interface EdsCluster {
  readonly name: string;
  readonly target: ClusterTarget;
  readonly passedOn: boolean;
}

/** The EDS clusters of a service. If a port or subset is repeated, the first one is used. */
function* edsClusters({ service, rule, settings, part, passedOn }: ClusterInputs): Generator<EdsCluster> {
  const found = new Set<string>();
  for (const port of service.ports) {
    if (port.protocol === 'UDP') continue;
    for (const subset of [undefined, ...(rule?.subsets ?? [])]) {
      const name = clusterName('outbound', port.port, subset?.name ?? '', service.hostname);
      if (found.has(name)) continue;
      const policy = effectivePolicy(rule, subset, port.port);
      if (discoveryOf(service, policy, settings, { part }) !== 'eds') continue;
      found.add(name);
      const target = { service, port, subset: subset?.name ?? '', labels: subset?.labels ?? NO_LABELS, policy };
      yield { name, target, passedOn: false };
      const passed = meshServerName(port.port, target.subset, service.hostname);
      if (passedOn) yield { name: passed, target, passedOn: true };
    }
  }
}

function edsNames(inputs: ClusterInputs): ReadonlyMap<string, string> {
  return new Map([...edsClusters(inputs)].map(({ name }) => [name, endpointName(inputs.endpointNames, name)]));
}

function edsInputs(inputs: ServiceInputs, memos: Memos): ReadonlyMap<string, EdsInput> {
  const found = new Map<string, EdsInput>();
  for (const { name, target, passedOn } of edsClusters(inputs)) {
    const input = endpointsInput(memos, inputs, endpointName(inputs.endpointNames, name), target, {
      passedOn,
      isGrpc: inputs.part === 'grpc-client',
    });
    found.set(name, { ...input, placed: inputs.placed });
  }
  return found;
}

/** The same for a known cluster. @param name the name of the assignment */
export function endpointsInput(
  memos: Memos,
  sources: EndpointSources,
  name: string,
  { service, port, labels, policy }: ClusterTarget,
  { passedOn, isGrpc }: Pick<EndpointsInput, 'passedOn' | 'isGrpc'>,
): EndpointsInput {
  const { endpoints, gateways, network } = sources;
  const locality = localityRules(memos, sources, policy);
  const resolvesNames = service.resolution === 'dns';
  const sortedLabels = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return {
    name,
    service: service.key,
    key: JSON.stringify([
      name,
      service.key,
      port.name,
      resolvesNames,
      sortedLabels,
      network,
      digestOf(memos, gateways),
      passedOn,
      isGrpc,
      locality ?? null,
    ]),
    endpoints,
    portName: port.name,
    labels,
    resolvesNames,
    network,
    gateways,
    passedOn,
    isGrpc,
    locality,
  };
}

/** The locality settings in force: the rule's, else the mesh's; undefined when switched off. */
export function localitySetting(mesh: MeshConfig, policy: EffectivePolicy) {
  const setting = policy.loadBalancer?.localityLbSetting ?? mesh.localityLbSetting;
  return isEnabled(setting) ? setting : undefined;
}

function localityRules(memos: Memos, sources: EndpointSources, policy: EffectivePolicy): LocalityRules | undefined {
  const { mesh, locality, endpoints } = sources;
  const setting = localitySetting(mesh, policy);
  const failoverEnabled = policy.outlierDetection !== undefined;
  // Without outlier detection and distribution no locality is preferred, and all localities of proxies share one
  // encoding.
  const distributes = (setting?.distribute?.length ?? 0) > 0;
  if (setting !== undefined && failoverEnabled && !distributes && (setting.failoverPriority?.length ?? 0) > 0)
    return byLabels(memos, sources, setting);
  if (setting === undefined || locality === '' || !(failoverEnabled || distributes)) return undefined;
  const from = localityClass(memos, endpoints, setting, locality);
  if (from === '') return undefined;
  return { from, distribute: setting.distribute, failover: setting.failover, failoverEnabled };
}

function byLabels(
  memos: Memos,
  { endpoints, labels, locality, clusters }: EndpointSources,
  setting: LocalityLbSetting,
): LocalityRules {
  const { failover } = setting;
  const proxy = labels === '' ? undefined : (JSON.parse(labels) as Readonly<Record<string, string>>);
  const { priorities, ignored } = priorityLabels(memos, endpoints, setting, proxy, clusters);
  return {
    from: failover === undefined || locality === '' ? '' : localityClass(memos, endpoints, setting, locality),
    distribute: undefined,
    failover,
    failoverEnabled: true,
    priorities,
    ...(ignored.length > 0 && { ignored }),
  };
}
