/**
 * `failoverPriority`: endpoints are preferred by how many of these labels, from the first on, they share with the
 * proxy. Labels of the topology are those of the locality and the network.
 */
import type { Memos } from '../../core/memo.ts';
import type { Endpoint } from '../../model/index.ts';
import type { LocalityLbSetting } from '../../resources/index.ts';

type Labels = Readonly<Record<string, string>>;

/** A label and the proxy's value; null if no endpoint has this value. */
export type PriorityLabel = readonly [name: string, value: string | null];

const NETWORK = 'topology.mesh.io/network';

/** The part of a locality that is also a label. */
const LOCALITY_LABELS: ReadonlyMap<string, number> = new Map([
  ['topology.kubernetes.io/region', 0],
  ['topology.kubernetes.io/zone', 1],
  ['topology.mesh.io/subzone', 2],
]);

interface Located {
  readonly labels: Labels;
  readonly locality: string;
  readonly network: string;
}

/** An absent label has the value ''. */
function labelOf({ labels, locality, network }: Located, name: string): string {
  const part = LOCALITY_LABELS.get(name);
  const own = part !== undefined ? locality.split('/')[part] : name === NETWORK ? network : '';
  return own || (Object.hasOwn(labels, name) ? (labels[name] ?? '') : '');
}

/** The labels of a proxy that settings compare, without those whose value the setting specifies (`label=value`). */
export function comparedLabels(setting: LocalityLbSetting | undefined): readonly string[] {
  return (setting?.failoverPriority ?? []).filter((entry) => !entry.includes('='));
}

/**
 * The compared labels that a proxy has, sorted by name; undefined if it has none. The cost is therefore limited by the
 * labels of the proxy, even with thousands of compared labels.
 */
export function labelsForFailover(compared: ReadonlySet<string>, proxy: Located): Labels | undefined {
  if (compared.size === 0) return undefined;
  const own = new Set([...Object.keys(proxy.labels), ...LOCALITY_LABELS.keys(), NETWORK]).intersection(compared);
  const values = [...own].sort().map((name) => [name, labelOf(proxy, name)] as const);
  const present = values.filter(([, value]) => value !== '');
  return present.length === 0 ? undefined : Object.fromEntries(present);
}

/**
 * The labels that a setting compares, for a proxy with these labels. All values that no endpoint has count as one
 * value, so that the number of results is limited, whatever labels proxies report.
 */
export function priorityLabels(
  memos: Memos,
  endpoints: readonly Endpoint[],
  { failoverPriority = [] }: LocalityLbSetting,
  proxy: Labels | undefined,
): readonly PriorityLabel[] {
  const known = memos
    .weak<readonly Endpoint[], Map<string, ReadonlySet<string>>>('label values of endpoints')
    .get(endpoints, () => new Map());
  return failoverPriority.map((entry): PriorityLabel => {
    const [name = '', written] = entry.split('=', 2);
    const value = written ?? (proxy !== undefined && Object.hasOwn(proxy, name) ? (proxy[name] ?? '') : '');
    const values = known.get(name) ?? new Set(endpoints.map((endpoint) => labelOf(endpoint, name)));
    known.set(name, values);
    return [name, values.has(value) ? value : null];
  });
}

/**
 * 0 for an endpoint that shares all labels. If the network is the first label, it takes precedence over all others,
 * which are compared in other networks too.
 */
export function rankOf(priorities: readonly PriorityLabel[], endpoint: Located): number {
  const count = priorities.length;
  let foreign = 0;
  for (const [index, [name, value]] of priorities.entries()) {
    if (value !== null && labelOf(endpoint, name) === value) continue;
    if (index > 0 || name !== NETWORK) return foreign + count - index;
    foreign = count;
  }
  return foreign;
}
