/**
 * Who runs what, by the registry's word: a proxy says its labels itself, and its certificate proves only a namespace and a service
 * account. Whether workloads of that account have such labels is known from pods and workload entries.
 */
import type { AnyResource } from '../resources/types.ts';
import { membersOf } from './groups.ts';
import type { Labels } from './labels.ts';
import { type Changed, ofKind, type State } from './state.ts';
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

/** Namespaces in which workloads were registered, unregistered, or registered as something else. */
export function changedWorkloads(changed: readonly Changed[]): Set<string> {
  const namespaces = new Set<string>();
  for (const { before, after } of changed) {
    const [was, is] = [registeredBy(before), registeredBy(after)];
    if (was === undefined && is === undefined) continue;
    if (was !== undefined && is !== undefined && isSame(was, is)) continue;
    namespaces.add((after ?? before)?.meta.namespace ?? '');
  }
  return namespaces;
}

function isSame(a: Registered, b: Registered): boolean {
  const keys = Object.keys(a.labels);
  if (a.serviceAccount !== b.serviceAccount || keys.length !== Object.keys(b.labels).length) return false;
  return keys.every((key) => a.labels[key] === b.labels[key]);
}

/** See `Snapshot.registeredLabels`. */
export function registeredLabels(state: State, namespace: string, serviceAccount: string): readonly Labels[] {
  const found = new Map<string, Labels>();
  const note = (resource: AnyResource | undefined): void => {
    const registered = registeredBy(resource);
    if (registered?.serviceAccount !== serviceAccount) return;
    const key = JSON.stringify(Object.entries(registered.labels).sort(([a], [b]) => (a < b ? -1 : 1)));
    found.set(key, registered.labels);
  };
  for (const key of membersOf(state.podsByNamespace, namespace)) note(state.resources.Pod.get(key));
  for (const key of membersOf(state.entriesByNamespace, namespace)) note(state.resources.WorkloadEntry.get(key));
  return [...found.values()];
}
