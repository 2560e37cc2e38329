/**
 * The hosts whose clusters need not be there when proxies on demand start: Envoy asks for them, directly or by a
 * virtual host. Not those whose clusters need more than endpoints before Envoy uses them.
 */
import type { Memos } from '../../core/memo.ts';
import type { MergedDestinationRule } from '../../model/index.ts';
import type { MeshConfig, TrafficPolicy } from '../../resources/index.ts';
import { scopeOfView } from '../common/index.ts';
import { isStream, type MeshReader, type ScopeReader, unrecorded } from '../reads/index.ts';
import type { Unit } from '../types.ts';
import type { View } from '../views.ts';

const NONE: ReadonlySet<Unit> = new Set();

type Providers = MeshConfig['extensionProviders'];

/** All such hosts of a scope. */
interface KnownLater {
  readonly providers: Providers;
  readonly hosts: ReadonlySet<Unit>;
}

/** The same, with the scope. */
type LatestLater = KnownLater & Pick<ScopeReader, 'services' | 'rules'>;

/** Scopes with other services or rules that are remembered. */
const MAX_LATEST = 4;
/** With more than one changed service per this many, all are examined again. */
const SERVICES_PER_CHANGE = 32;

/**
 * None for views that others use, or whose clusters EnvoyFilters change.
 * @param among the hosts that are examined; undefined: all
 */
export function laterClusterUnits(snapshot: MeshReader, view: View, among?: Iterable<Unit>): ReadonlySet<Unit> {
  if (view.part !== 'outbound' || view.capabilities.onDemand === undefined || view.patches?.cds !== undefined)
    return NONE;
  return unrecorded(() => {
    const scope = scopeOfView(snapshot, view);
    if (scope === undefined) return NONE;
    const { extensionProviders: providers } = snapshot.mesh;
    return among === undefined ? allOf(snapshot, scope, providers) : laterHosts(scope, among, providers);
  });
}

/** One set for all scopes with the same services and destination rules: namespaces mostly have the same. */
function allOf({ memos }: MeshReader, scope: ScopeReader, providers: Providers): ReadonlySet<Unit> {
  const { services, rules } = scope;
  const known = memos
    .pairs<ScopeReader['services'], ScopeReader['rules'], { last?: KnownLater }>('clusters that may be generated later')
    .get(services, rules, () => ({}));
  if (known.last?.providers !== providers) known.last = { providers, hosts: latestHosts(memos, scope, providers) };
  return known.last.hosts;
}

/** Found by the hosts of a scope before, mostly: one that differs by a few services. */
function latestHosts(memos: Memos, scope: ScopeReader, providers: Providers): ReadonlySet<Unit> {
  const latest = memos.weak<Memos, LatestLater[]>('latest clusters that may be generated later').get(memos, () => []);
  const at = latest.findIndex(
    (each) =>
      each.providers === providers &&
      scope.rules.areLike(memos, each.rules) &&
      Math.abs(scope.services.size - each.services.size) * SERVICES_PER_CHANGE <= scope.services.size,
  );
  const [before] = at < 0 ? [] : latest.splice(at, 1);
  const hosts = before === undefined ? undefined : changedHosts(before, scope, providers);
  const found = hosts ?? laterHosts(scope, scope.services.hosts(), providers);
  latest.push({ services: scope.services, rules: scope.rules, providers, hosts: found });
  if (latest.length > MAX_LATEST) latest.shift();
  return found;
}

/** Those of before with the changes since; undefined if these are many. */
function changedHosts(before: LatestLater, scope: ScopeReader, providers: Providers): ReadonlySet<Unit> | undefined {
  const changed = scope.services.changedSince(before.services);
  if (changed.length * SERVICES_PER_CHANGE > scope.services.size) return undefined;
  const served = changed.filter((host) => scope.services.get(host)?.ports.some(isStream));
  const later = laterHosts(scope, served, providers);
  const next = new Set(before.hosts);
  for (const host of changed) {
    if (later.has(host)) next.add(host);
    else next.delete(host);
  }
  return next;
}

function laterHosts({ services, rules }: ScopeReader, hosts: Iterable<Unit>, providers: Providers): ReadonlySet<Unit> {
  const called = providerHosts(providers);
  const isLater = (host: Unit) =>
    services.get(host)?.resolution === 'eds' && !called.has(host) && isPlain(rules.of(host));
  return new Set([...hosts].filter(isLater));
}

/** The hosts of services that inbound listeners call, too: these are generated apart from the clusters. */
function providerHosts(providers: Providers): ReadonlySet<string> {
  const settings = providers.flatMap((provider) => Object.values(provider));
  const services = settings.flatMap((each) =>
    typeof each === 'object' && each !== null && 'service' in each ? [String(each.service)] : [],
  );
  return new Set(services.map((service) => service.slice(service.lastIndexOf('/') + 1)));
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
