/** Logs and metrics about published snapshots. */

import type { SnapshotFindings } from '../../model/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { ignoredEndpointsLog, logNameConflicts } from './observers.ts';
import type { PublicationListener } from './publisher.ts';

/** @param now monotonic milliseconds */
export function publicationLog(metrics: Metrics, now: () => number): PublicationListener {
  const logIgnoredEndpoints = ignoredEndpointsLog();
  let publishedAt: number | undefined;
  let endpointsWithoutPod: SnapshotFindings['endpointsWithoutPod'] = 0;
  return ({ snapshot, changes, resources }, milliseconds) => {
    const at = now();
    metrics.ctl_stage_seconds.observe(milliseconds / 1000, { stage: 'snapshot' });
    metrics.cfg_runtime_processor_snapshots_published_total.inc();
    metrics.cfg_runtime_processor_snapshot_events_total.observe(resources.length);
    if (publishedAt !== undefined) {
      metrics.cfg_runtime_processor_snapshot_lifetime_duration_milliseconds.observe(at - publishedAt);
    }
    publishedAt = at;
    logNameConflicts(changes.nameConflicts);
    logIgnoredEndpoints(snapshot);
    const before = endpointsWithoutPod;
    ({ endpointsWithoutPod } = snapshot.findings());
    if (endpointsWithoutPod > before) metrics.ctl_orch_endpoints_with_no_pods.inc(endpointsWithoutPod - before);
  };
}
