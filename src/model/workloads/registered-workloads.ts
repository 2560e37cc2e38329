/**
 * The labels of the workloads of each service account, from pods and workload entries. A proxy states its labels
 * itself, and its certificate only proves a namespace and a service account; the registry knows whether workloads of
 * that account have such labels.
 */
import type { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import type { AnyResource, ResourceChange } from '../../resources/index.ts';
import { GroupEdits, type Groups } from '../common/groups.ts';
import { type Labels, labelsMatch } from '../common/labels.ts';
import { ofKind } from '../common/tables.ts';
import type { ModelSettings } from '../types/settings.ts';
import { entryLabels, isFinished } from './workloads.ts';

type ClusterSettings = Pick<ModelSettings, 'servesOtherClusters'>;

interface Registered {
  readonly serviceAccount: string;
  readonly labels: Labels;
}

/** The default service account of Pods, as in Kubernetes. */
const DEFAULT_ACCOUNT = 'default';

/**
 * The workload of a resource; undefined for other kinds, ended pods, and workloads without a known account. Pods of
 * remote clusters count only if their proxies are served: otherwise users who may create Pods there could assign labels
 * to accounts of the local cluster.
 */
function registeredBy(resource: AnyResource | undefined, settings: ClusterSettings): Registered | undefined {
  const pod = ofKind(resource, 'Pod');
  if (pod !== undefined) {
    if (isFinished(pod) || (pod.meta.cluster !== undefined && !settings.servesOtherClusters)) return undefined;
    return { serviceAccount: pod.content.spec.serviceAccountName || DEFAULT_ACCOUNT, labels: pod.meta.labels };
  }
  const entry = ofKind(resource, 'WorkloadEntry');
  if (entry === undefined || !entry.content.serviceAccount) return undefined;
  return { serviceAccount: entry.content.serviceAccount, labels: entryLabels(entry.content, entry.meta.labels) };
}

interface LabelSet {
  readonly labels: Labels;
  readonly workloads: number;
}

export interface RegisteredWorkloads {
  /** By account and string form of the labels. */
  readonly sets: PMap<LabelSet>;
  /** `namespace/service account` → keys of its sets. */
  readonly accounts: Groups;
}

export const NO_WORKLOADS: RegisteredWorkloads = { sets: PMap.empty(), accounts: PMap.empty() };

/** The change of the number of workloads with a set of labels. */
interface Edit {
  readonly account: string;
  readonly labels: Labels;
  by: number;
}

/**
 * The registered workloads after a change of resources, and the namespaces in which the result of {@link
 * registeredLabels} may differ: another workload with known labels does not change it. The cost follows the changed
 * workloads, and the label sets of accounts that gained or lost one.
 */
export function updateRegistered(
  before: RegisteredWorkloads,
  changed: readonly ResourceChange[],
  settings: ClusterSettings,
): { readonly registered: RegisteredWorkloads; readonly namespaces: ReadonlySet<string> } {
  const edits = new Edits(settings);
  for (const { before: was, after: is } of changed) {
    edits.count(was, -1);
    edits.count(is, 1);
  }
  const namespaces = new Set<string>();
  const accounts = new GroupEdits();
  const sets: [string, LabelSet | undefined][] = [];
  for (const [key, { account, labels, by }] of edits.byKey) {
    if (by === 0) continue;
    const had = before.sets.get(key)?.workloads ?? 0;
    const has = had + by;
    sets.push([key, has === 0 ? undefined : { labels, workloads: has }]);
    if (had > 0 === has > 0) continue;
    namespaces.add(account.slice(0, account.indexOf('/')));
    if (has > 0) accounts.add(account, key);
    else accounts.remove(account, key);
  }
  return { registered: { sets: before.sets.with(sets), accounts: accounts.apply(before.accounts) }, namespaces };
}

class Edits {
  readonly #settings: ClusterSettings;
  readonly byKey = new Map<string, Edit>();
  /** Account → its last edit: most workloads of an account have the same labels, so their string form can be reused. */
  readonly #last = new Map<string, Edit>();

  constructor(settings: ClusterSettings) {
    this.#settings = settings;
  }

  count(resource: AnyResource | undefined, by: 1 | -1): void {
    const registered = registeredBy(resource, this.#settings);
    if (registered === undefined || resource === undefined) return;
    const { serviceAccount, labels } = registered;
    const account = `${resource.meta.namespace}/${serviceAccount}`;
    const last = this.#last.get(account);
    const edit = last !== undefined && sameLabels(last.labels, labels) ? last : this.#edit(account, labels);
    edit.by += by;
    if (edit !== last) this.#last.set(account, edit);
  }

  #edit(account: string, labels: Labels): Edit {
    const key = `${account.length}:${account}${labelsText(labels)}`;
    const known = this.byKey.get(key);
    if (known !== undefined) return known;
    const edit: Edit = { account, labels, by: 0 };
    this.byKey.set(key, edit);
    return edit;
  }
}

function sameLabels(a: Labels, b: Labels): boolean {
  return labelsMatch(a, b) && labelsMatch(b, a);
}

/** An unambiguous string form of labels: each part is prefixed with its length. */
function labelsText(labels: Labels): string {
  let text = '';
  for (const key of Object.keys(labels).sort()) {
    const value = labels[key] ?? '';
    text += `${key.length}:${key}${value.length}:${value}`;
  }
  return text;
}

const NOBODY: readonly Labels[] = [];

/** See `Snapshot.registeredLabels`. Kept by account: its gateways read the same labels after each change. */
export function registeredLabels(
  { registered, memos }: { readonly registered: RegisteredWorkloads; readonly memos: Memos },
  namespace: string,
  serviceAccount: string,
): readonly Labels[] {
  const keys = registered.accounts.get(`${namespace}/${serviceAccount}`);
  if (keys === undefined) return NOBODY;
  return memos
    .weak<readonly string[], readonly Labels[]>('labels of an account')
    .get(keys, () => keys.map((key) => registered.sets.get(key)?.labels).filter((labels) => labels !== undefined));
}
