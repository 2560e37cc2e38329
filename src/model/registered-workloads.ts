/**
 * Who runs what, by the registry's word: a proxy says its labels itself, and its certificate proves only a namespace and a service
 * account. Whether workloads of that account have such labels is known from pods and workload entries.
 */
import type { Memos } from '../core/memo.ts';
import { PMap } from '../core/pmap.ts';
import type { AnyResource } from '../resources/types.ts';
import type { Labels } from './labels.ts';
import { compareText } from './order.ts';
import { type Changed, ofKind } from './tables.ts';
import { entryLabels, isFinished } from './workloads.ts';

interface Registered {
  readonly serviceAccount: string;
  readonly labels: Labels;
}

/** Pods without an account run as this one, as the orchestrator has it. */
const DEFAULT_ACCOUNT = 'default';

/** What a resource registers; undefined for one that is no workload, has ended, or runs as nobody that is known. */
function registeredBy(resource: AnyResource | undefined): Registered | undefined {
  const pod = ofKind(resource, 'Pod');
  if (pod !== undefined) {
    if (isFinished(pod)) return undefined;
    return { serviceAccount: pod.content.spec.serviceAccountName || DEFAULT_ACCOUNT, labels: pod.meta.labels };
  }
  const entry = ofKind(resource, 'WorkloadEntry');
  if (entry === undefined || !entry.content.serviceAccount) return undefined;
  return { serviceAccount: entry.content.serviceAccount, labels: entryLabels(entry.content, entry.meta.labels) };
}

/** Sets of labels by their text: what they are, and how many workloads have them. */
type LabelSets = PMap<{ readonly labels: Labels; readonly workloads: number }>;

/** `namespace/service account` → the sets of labels of its workloads. */
export type RegisteredWorkloads = PMap<LabelSets>;

/** What a change adds to the number of workloads with a set of labels. */
interface Edit {
  readonly labels: Labels;
  by: number;
}

/**
 * The registered workloads after a change of resources, and the namespaces in which {@link registeredLabels} may answer otherwise:
 * another workload with labels that are known already does not count. Costs what the changed workloads and the label sets of their
 * accounts are.
 */
export function updateRegistered(
  before: RegisteredWorkloads,
  changed: readonly Changed[],
): { readonly registered: RegisteredWorkloads; readonly namespaces: ReadonlySet<string> } {
  const edits = new Map<string, Map<string, Edit>>();
  for (const { before: was, after: is } of changed) {
    count(edits, was, -1);
    count(edits, is, 1);
  }
  const namespaces = new Set<string>();
  const next: [string, LabelSets | undefined][] = [];
  for (const [account, byText] of edits) {
    const known = before.get(account) ?? PMap.empty();
    const sets = known.with(
      [...byText].map(([text, { labels, by }]) => {
        const had = known.get(text)?.workloads ?? 0;
        const has = had + by;
        if (had > 0 !== has > 0) namespaces.add(account.slice(0, account.indexOf('/')));
        return [text, has === 0 ? undefined : has === had ? known.get(text) : { labels, workloads: has }] as const;
      }),
    );
    next.push([account, sets.size === 0 ? undefined : sets]);
  }
  return { registered: before.with(next), namespaces };
}

function count(edits: Map<string, Map<string, Edit>>, resource: AnyResource | undefined, by: 1 | -1): void {
  const registered = registeredBy(resource);
  if (registered === undefined || resource === undefined) return;
  const { serviceAccount, labels } = registered;
  const account = `${resource.meta.namespace}/${serviceAccount}`;
  const byText = edits.get(account) ?? new Map<string, Edit>();
  edits.set(account, byText);
  const text = JSON.stringify(Object.entries(labels).sort(([a], [b]) => compareText(a, b)));
  const edit = byText.get(text);
  if (edit === undefined) byText.set(text, { labels, by });
  else edit.by += by;
}

const NOBODY: readonly Labels[] = [];

/** See `Snapshot.registeredLabels`. */
export function registeredLabels(
  { registered, memos }: { readonly registered: RegisteredWorkloads; readonly memos: Memos },
  namespace: string,
  serviceAccount: string,
): readonly Labels[] {
  const sets = registered.get(`${namespace}/${serviceAccount}`);
  if (sets === undefined) return NOBODY;
  // Gateways of one account ask for the same ones after each change.
  return memos
    .weak<LabelSets, readonly Labels[]>('labels of an account')
    .get(sets, () => sets.sorted().map(([, { labels }]) => labels));
}
