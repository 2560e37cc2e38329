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
 * Maximum number of endpoints in all different assignments of a service together. They are encoded on the main thread
 * at each change of an endpoint, so this limits how long one service delays all others: about 50 ms.
 */
const MAX_ASSIGNED = 65_536;
/** Maximum number of different assignments of a service's clusters, as many as are kept. */
const MAX_ASSIGNMENTS = 1024;
/** Different results that any service may have, however many endpoints and clusters it has. */
const MIN_RESULTS = 8;

/** Which labels of a setting count for a service, and the values that its endpoints have. */
interface Compared {
  /** The number of labels that count, from the first on. */
  readonly count: number;
  /** Values of the first labels, of any number, that some endpoint has together, as JSON. */
  readonly known: ReadonlySet<string>;
}

interface Entry {
  readonly name: string;
  /** Undefined: the proxy's own value. */
  readonly written: string | undefined;
}

function entriesOf({ failoverPriority = [] }: LocalityLbSetting): readonly Entry[] {
  return failoverPriority.map((entry) => {
    const [name = '', written] = entry.split('=', 2);
    return { name, written };
  });
}

/** Whether the first label is the network: the labels after it are compared also if it differs. */
function isNetworkFirst([first]: readonly Entry[]): boolean {
  return first?.name === NETWORK;
}

/**
 * Proxies that share the same first labels with some endpoint have one result, so the results are the nodes of the tree
 * of the endpoints' values. Labels count until there are too many of these.
 */
function compared(endpoints: readonly Endpoint[], entries: readonly Entry[], clusters: number): Compared {
  const allowed = Math.max(
    MIN_RESULTS,
    Math.min(MAX_ASSIGNED / (Math.max(1, endpoints.length) * clusters), MAX_ASSIGNMENTS / clusters),
  );
  const networks = isNetworkFirst(entries) ? new Set(endpoints.map((endpoint) => labelOf(endpoint, NETWORK))) : NONE;
  const known = new Set([...networks].map((network) => JSON.stringify([network])));
  let nodes = 1;
  let groups: readonly Group[] = [{ path: [], endpoints }];
  for (const [index, { name, written }] of entries.entries()) {
    if (index === 0 && networks.size > 0) continue;
    groups = groups.flatMap((group) => divided(group, name, written));
    if (written === undefined) nodes += groups.length;
    if (nodes * (networks.size + 1) > allowed) return { count: index, known };
    for (const { path } of groups) known.add(JSON.stringify(path));
  }
  return { count: entries.length, known };
}

const NONE: ReadonlySet<string> = new Set();

/** Endpoints with the same values of the first labels. */
interface Group {
  readonly path: readonly string[];
  readonly endpoints: readonly Endpoint[];
}

function divided({ path, endpoints }: Group, name: string, written: string | undefined): Group[] {
  const byValue = Map.groupBy(endpoints, (endpoint) => labelOf(endpoint, name));
  const wanted = written === undefined ? [...byValue] : [[written, byValue.get(written) ?? []] as const];
  return wanted.flatMap(([value, members]) =>
    members.length === 0 ? [] : [{ path: [...path, value], endpoints: members }],
  );
}

export interface ComparedLabels {
  readonly priorities: readonly PriorityLabel[];
  /** Labels that do not count, because endpoints have too many values of them. */
  readonly ignored: readonly string[];
}

/**
 * The labels that a setting compares, for a proxy with these labels. A value that no endpoint has together with those
 * before it is null, and so are all after it, so that the number of results is limited, whatever labels proxies and
 * endpoints have. @param clusters the number of the service's clusters
 */
export function priorityLabels(
  memos: Memos,
  endpoints: readonly Endpoint[],
  setting: LocalityLbSetting,
  proxy: Labels | undefined,
  clusters = 1,
): ComparedLabels {
  const entries = entriesOf(setting);
  const { count, known } = comparedLabelsOf(memos, endpoints, entries, clusters);
  const priorities: PriorityLabel[] = [];
  let path: readonly string[] | undefined = [];
  for (const [index, { name, written }] of entries.slice(0, count).entries()) {
    const value = written ?? (proxy !== undefined && Object.hasOwn(proxy, name) ? (proxy[name] ?? '') : '');
    const next: readonly string[] | undefined = path && [...path, value];
    const isKnown: boolean = next !== undefined && known.has(JSON.stringify(next));
    priorities.push([name, isKnown ? value : null]);
    if (index > 0 || !isNetworkFirst(entries)) path = isKnown ? next : undefined;
  }
  return { priorities, ignored: entries.slice(count).map(({ name }) => name) };
}

function comparedLabelsOf(
  memos: Memos,
  endpoints: readonly Endpoint[],
  entries: readonly Entry[],
  clusters: number,
): Compared {
  const byEntries = memos
    .weak<readonly Endpoint[], Map<string, Compared>>('compared labels of endpoints')
    .get(endpoints, () => new Map());
  const key = JSON.stringify([clusters, entries]);
  const found = byEntries.get(key) ?? compared(endpoints, entries, clusters);
  byEntries.set(key, found);
  return found;
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
