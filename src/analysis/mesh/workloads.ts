/**
 * Workloads by their labels. Workloads with the same labels are kept once, and a selector looks only at those that have
 * its rarest label, so that looking up many selectors among many Pods stays cheap.
 */
import { labelsMatch } from '../../model/index.ts';
import type { Workload } from '../types.ts';

type Labels = Readonly<Record<string, string>>;

const NONE: readonly Workload[] = [];

export class WorkloadIndex {
  /** By `namespace/key=value`, and by `key=value` of all namespaces. */
  readonly #byLabel = new Map<string, Workload[]>();
  /** By namespace; '' has all. */
  readonly #byNamespace = new Map<string, Workload[]>();
  readonly #known = new Set<string>();

  add(workload: Workload): void {
    const { namespace, labels, isOutside } = workload;
    const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
    const id = JSON.stringify([namespace, isOutside, entries]);
    if (this.#known.has(id)) return;
    this.#known.add(id);
    for (const place of [namespace, '']) {
      push(this.#byNamespace, place, workload);
      for (const [key, value] of entries) push(this.#byLabel, `${place}/${key}=${value}`, workload);
    }
  }

  /**
   * Workloads that a selector selects, one for each set of labels.
   * @param namespace '' for all namespaces
   */
  *selected(namespace: string, selector: Labels): Generator<Workload> {
    const labels = Object.entries(selector);
    let candidates = this.#byNamespace.get(namespace) ?? NONE;
    for (const [key, value] of labels) {
      const having = this.#byLabel.get(`${namespace}/${key}=${value}`) ?? NONE;
      if (having.length < candidates.length) candidates = having;
    }
    for (const workload of candidates) if (labelsMatch(selector, workload.labels)) yield workload;
  }

  first(namespace: string, selector: Labels): Workload | undefined {
    for (const workload of this.selected(namespace, selector)) return workload;
    return undefined;
  }

  /** One workload for each namespace and set of labels. */
  of(namespace: string): readonly Workload[] {
    return this.#byNamespace.get(namespace) ?? NONE;
  }
}

function push(map: Map<string, Workload[]>, key: string, workload: Workload): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [workload]);
  else known.push(workload);
}
