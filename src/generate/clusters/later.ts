/**
 * The hosts whose clusters need not be there when proxies on demand start: Envoy asks for them, directly or by a
 * virtual host. Not those whose clusters need more than endpoints before Envoy uses them.
 */
import type { MergedDestinationRule } from '../../model/index.ts';
import type { TrafficPolicy } from '../../resources/index.ts';
import { scopeOfView } from '../common/index.ts';
import { type MeshReader, unrecorded } from '../reads/index.ts';
import type { Unit, View } from '../types.ts';

/** None for views that others use, or whose clusters EnvoyFilters change. */
export function laterClusterUnits(snapshot: MeshReader, view: View): readonly Unit[] {
  if (view.part !== 'outbound' || view.capabilities.onDemand === undefined || view.patches?.cds !== undefined)
    return [];
  return unrecorded(() => {
    const scope = scopeOfView(snapshot, view);
    if (scope === undefined) return [];
    const { services, rules } = scope;
    return services.hosts().filter((host) => services.get(host)?.resolution === 'eds' && isPlain(rules.of(host)));
  });
}

/** Whether the clusters have EDS, and no secrets but those of the mesh. */
function isPlain(rule: MergedDestinationRule | undefined): boolean {
  if (rule === undefined) return true;
  return [rule.trafficPolicy, ...rule.subsets.map(({ trafficPolicy }) => trafficPolicy)].every(isPlainPolicy);
}

function isPlainPolicy(policy: TrafficPolicy | undefined): boolean {
  if (policy === undefined) return true;
  return [policy, ...(policy.portLevelSettings ?? [])].every(
    ({ tls, loadBalancer }) =>
      (tls === undefined || tls.mode === 'DISABLE' || tls.mode === 'MESH_MUTUAL') &&
      loadBalancer?.simple !== 'PASSTHROUGH',
  );
}
