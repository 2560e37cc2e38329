/**
 * What the load assignment of a cluster is made from, as one value whose `key` names everything that was read: two views with
 * equal keys share one encoding.
 */
import type { Endpoint, Scope, Service, ServiceKey, ServicePort, Snapshot } from '../../model/types.ts';
import { discoveryOf } from '../clusters/discovery.ts';
import { parseClusterName } from '../names.ts';
import { type EffectivePolicy, effectivePolicy } from '../traffic-policy.ts';
import type { GatewayView, OutboundView, View } from '../types.ts';
import { scopeOfView } from '../view-scope.ts';
import type { LocalityRules } from './locality.ts';
import { type NetworkGateway, networkGateways } from './networks.ts';

/** The views that reach services. */
export type ClientView = OutboundView | GatewayView;

export interface EndpointsInput {
  readonly clusterName: string;
  readonly service: ServiceKey;
  /**
   * Names everything below but `endpoints`, whose identity changes when they change: (key, endpoints) → bytes is a safe cache.
   */
  readonly key: string;
  /** All endpoints of the service, the very list of the snapshot. */
  readonly endpoints: readonly Endpoint[];
  readonly portName: string;
  /** Labels of the subset; empty for all. */
  readonly labels: Readonly<Record<string, string>>;
  /** Whether Envoy resolves host names here (not with EDS). */
  readonly resolvesNames: boolean;
  /** The proxy's network. */
  readonly network: string;
  readonly gateways: ReadonlyMap<string, readonly NetworkGateway[]>;
  /** Undefined: localities are not told apart. */
  readonly locality: LocalityRules | undefined;
}

/** A cluster's service, port and subset, found by its name. */
export interface ClusterTarget {
  readonly service: Service;
  readonly port: ServicePort;
  readonly subset: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly policy: EffectivePolicy;
}

const NO_ENDPOINTS: readonly Endpoint[] = [];
const NO_LABELS: Readonly<Record<string, string>> = {};

/** The service that the endpoints of an outbound cluster come from; undefined when the view has no such EDS cluster. */
export function serviceOfCluster(snapshot: Snapshot, view: ClientView, clusterName: string): Service | undefined {
  return edsTarget(snapshot, view, clusterName)?.service;
}

/** Everything that goes into the load assignment of an EDS cluster; undefined when the view has no such cluster. */
export function resolveEndpoints(
  snapshot: Snapshot,
  view: ClientView,
  clusterName: string,
): EndpointsInput | undefined {
  const target = edsTarget(snapshot, view, clusterName);
  return target && endpointsInput(snapshot, view, clusterName, target);
}

function edsTarget(snapshot: Snapshot, view: ClientView, clusterName: string): ClusterTarget | undefined {
  const scope = scopeOfView(snapshot, view);
  const target = scope && clusterTarget(scope, clusterName);
  if (target === undefined) return undefined;
  return discoveryOf(target.service, target.policy, snapshot.settings, view) === 'eds' ? target : undefined;
}

/** The same for a cluster that is known already. */
export function endpointsInput(
  snapshot: Snapshot,
  view: ClientView,
  clusterName: string,
  { service, port, labels, policy }: ClusterTarget,
): EndpointsInput {
  const gateways = networkGateways(snapshot.networks);
  const network = gateways.byNetwork.size === 0 ? '' : view.network;
  const locality = localityRules(snapshot, view, policy);
  const resolvesNames = service.resolution === 'dns';
  const sortedLabels = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return {
    clusterName,
    service: service.key,
    key: JSON.stringify([
      clusterName,
      service.key,
      port.name,
      resolvesNames,
      sortedLabels,
      network,
      gateways.digest,
      locality ?? null,
    ]),
    endpoints: snapshot.endpoints.get(service.key) ?? NO_ENDPOINTS,
    portName: port.name,
    labels,
    resolvesNames,
    network,
    gateways: gateways.byNetwork,
    locality,
  };
}

/** The locality settings in force: the rule's, else the mesh's; undefined when switched off. */
export function localitySetting(snapshot: Snapshot, policy: EffectivePolicy) {
  const setting = policy.loadBalancer?.localityLbSetting ?? snapshot.mesh.localityLbSetting;
  return setting.enabled === false ? undefined : setting;
}

function localityRules(
  snapshot: Snapshot,
  view: View & ClientView,
  policy: EffectivePolicy,
): LocalityRules | undefined {
  const setting = localitySetting(snapshot, policy);
  const failoverEnabled = policy.outlierDetection !== undefined;
  // Without outlier detection and distribution no locality is preferred, and all localities of proxies share one encoding.
  const distributes = (setting?.distribute?.length ?? 0) > 0;
  if (setting === undefined || view.locality === '' || !(failoverEnabled || distributes)) return undefined;
  return { from: view.locality, distribute: setting.distribute, failover: setting.failover, failoverEnabled };
}

function clusterTarget(scope: Scope, clusterName: string): ClusterTarget | undefined {
  const parts = parseClusterName(clusterName);
  if (parts?.direction !== 'outbound') return undefined;
  const service = scope.services.get(parts.host);
  const port = service?.ports.find((candidate) => candidate.port === parts.port && candidate.protocol !== 'UDP');
  if (service === undefined || port === undefined) return undefined;
  const rule = scope.destinationRule(parts.host);
  const subset = rule?.subsets.find(({ name }) => name === parts.subset);
  if (parts.subset !== '' && subset === undefined) return undefined;
  return {
    service,
    port,
    subset: parts.subset,
    labels: subset?.labels ?? NO_LABELS,
    policy: effectivePolicy(rule, parts.subset, port.port),
  };
}
