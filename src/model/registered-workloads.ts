/**
 * Who runs what, by the registry's word: a proxy says its labels itself, and its certificate proves only a namespace and a service
 * account. Whether workloads of that account have such labels is known from pods and workload entries.
 */
import type { AnyResource } from '../resources/types.ts';
import { membersOf } from './groups.ts';
import { isEmptySelector, type Labels, labelsMatch } from './labels.ts';
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

/** See `Snapshot.runsWorkload`. */
export function runsWorkload(state: State, namespace: string, serviceAccount: string, selector: Labels): boolean {
  // It would be matched by every workload of the namespace, and so prove of none of them what it is.
  if (isEmptySelector(selector)) return false;
  const runs = (resource: AnyResource | undefined): boolean => {
    const registered = registeredBy(resource);
    return registered?.serviceAccount === serviceAccount && labelsMatch(selector, registered.labels);
  };
  const pods = state.resources.Pod;
  const entries = state.resources.WorkloadEntry;
  return (
    membersOf(state.podsByNamespace, namespace).some((key) => runs(pods.get(key))) ||
    membersOf(state.entriesByNamespace, namespace).some((key) => runs(entries.get(key)))
  );
}
