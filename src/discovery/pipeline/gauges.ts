/** Gauges of the current state, computed at each scrape from the state of the program. */

import { systemClock } from '../../core/clock.ts';
import { SIDECAR_CONFIGURATIONS } from '../../core/proxy.ts';
import { XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { DebugSource } from '../../debug/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { CORE_KINDS, MESH_KINDS, typeUrlOf } from '../../resources/index.ts';
import { staleMs } from '../../sources/index.ts';
import type { DemandCounts } from '../../xds/index.ts';

/** Gauges of findings: each counts the distinct messages. */
const FINDING_GAUGES = [
  'ctl_conflict_inbound_listener',
  'ctl_conflict_outbound_listener_http_over_current_tcp',
  'ctl_conflict_outbound_listener_tcp_over_current_http',
  'ctl_conflict_outbound_listener_tcp_over_current_tcp',
  'ctl_vservice_dup_domain',
  'ctl_invalid_out_listeners',
  'ctl_missing_credentials',
  'ctl_policy_problems',
  'ctl_telemetry_problems',
  'ctl_unsupported_by_grpc',
  'ctl_refused_inbound_ports',
] as const;

/** The state that gauges read. Metrics are scraped every few seconds, so reading must be cheap. */
export interface GaugeSource
  extends Pick<DebugSource, 'snapshot' | 'failing' | 'findings' | 'problems' | 'refusedPolicies' | 'sources'> {
  /** Pushes that wait for their turn. */
  queued(): number;
  /** The number of resources that are withheld from proxies of views, by type. */
  withheldCounts(): ReadonlyMap<XdsType, number>;
  /** The number of quarantined resources of all live streams, by type. */
  quarantined(): Readonly<Record<XdsType, number>>;
  /** Live streams by what their proxies get of the mesh. */
  demandCounts(): DemandCounts;
}

export function sampleGauges(source: GaugeSource, metrics: Metrics): void {
  sampleModel(source, metrics);
  sampleEngine(source, metrics);
  sampleFindings(source, metrics);
  sampleRejected(source, metrics);
  sampleSources(source, metrics);
  sampleDemand(source, metrics);
  for (const inForce of ['last_good', 'substitute'] as const) {
    const count = source.refusedPolicies().filter((each) => each.inForce === inForce).length;
    metrics.ctl_refused_security_documents.set({ in_force: inForce }, count);
  }
}

function sampleDemand(source: GaugeSource, metrics: Metrics): void {
  const { proxies, overLimit, hosts } = source.demandCounts();
  for (const configuration of SIDECAR_CONFIGURATIONS)
    metrics.ctl_xds_on_demand_proxies.set({ configuration }, proxies[configuration]);
  metrics.ctl_xds_on_demand_over_limit.set(overLimit);
  metrics.ctl_xds_on_demand_hosts.set(hosts);
}

function sampleSources(source: GaugeSource, metrics: Metrics): void {
  metrics.ctl_source_stale_seconds.reset();
  for (const { id, health } of source.sources()) {
    // A source that is refused has nothing in force and cannot be stale.
    if (!health.ok && health.since === undefined) continue;
    metrics.ctl_source_stale_seconds.set({ source: id }, staleMs(health, systemClock.now()) / 1000);
  }
}

type RejectGauge = NonNullable<(typeof XDS)[XdsType]['rejectGauge']>;

function sampleRejected(source: GaugeSource, metrics: Metrics): void {
  const quarantined = source.quarantined();
  const rejected = new Map<RejectGauge, number>();
  for (const type of XDS_TYPES) {
    const gauge = XDS[type].rejectGauge;
    if (gauge !== undefined) rejected.set(gauge, (rejected.get(gauge) ?? 0) + quarantined[type]);
  }
  for (const [gauge, count] of rejected) metrics[gauge].set(count);
}

function sampleEngine(source: GaugeSource, metrics: Metrics): void {
  metrics.ctl_push_queue_length.set(source.queued());
  metrics.ctl_views_failing.set(source.failing().length);
  metrics.ctl_push_withheld.reset();
  for (const [type, count] of source.withheldCounts()) metrics.ctl_push_withheld.set({ type }, count);
}

function sampleModel(source: GaugeSource, metrics: Metrics): void {
  const snapshot = source.snapshot();
  const found = snapshot.findings();
  metrics.ctl_services.set(snapshot.services.size);
  metrics.ctl_virt_services.set(snapshot.resources('VirtualService').size);
  metrics.ctl_name_conflicts.set(found.nameConflicts);
  metrics.ctl_destrule_subsets.set(found.duplicateSubsets);
  metrics.ctl_eds_instances.set(found.endpoints);
  metrics.ctl_endpoint_not_ready.set(found.endpointsNotReady);
  metrics.ctl_orch_endpoints_pending_pod.set(found.endpointsPendingPod);
  metrics.endpoint_no_pod.set(found.endpointsWithoutPod);
  metrics.ctl_no_ip.set(found.podsWithoutService);
  for (const kind of [...CORE_KINDS, ...MESH_KINDS]) {
    metrics.cfg_runtime_state_type_instances_total.set({ type: typeUrlOf(kind) }, snapshot.resources(kind).size);
  }
  metrics.ctl_orch_object_errors.reset();
  for (const { key } of source.problems()) {
    metrics.ctl_orch_object_errors.inc({ type: key === undefined ? 'unknown' : key.slice(0, key.indexOf('/')) });
  }
}

function sampleFindings(source: GaugeSource, metrics: Metrics): void {
  const messages = new Map<string, Set<string>>();
  for (const { metric, message } of source.findings()) {
    const known = messages.get(metric);
    if (known === undefined) messages.set(metric, new Set([message]));
    else known.add(message);
  }
  for (const name of FINDING_GAUGES) metrics[name].set(messages.get(name)?.size ?? 0);
  const snapshot = source.snapshot();
  metrics.ctl_eds_no_instances.set(snapshot.clustersWithoutInstances());
  const { duplicateClusters: duplicates } = snapshot.findings();
  metrics.ctl_duplicate_proxy_clusters.set(duplicates + (messages.get('ctl_duplicate_proxy_clusters')?.size ?? 0));
}
