/** The rules of a configuration by the namespace whose traffic they apply to. */
import type { PolicyConfig, Rule, Variety } from '../types.ts';
import type { VarietyCounts } from './stats.ts';

export class RuleIndex {
  readonly #everywhere: readonly Rule[];
  readonly #byNamespace: ReadonlyMap<string, readonly Rule[]>;

  constructor({ rules }: PolicyConfig) {
    this.#everywhere = rules.filter(({ namespace }) => namespace === undefined);
    const own = Map.groupBy(
      rules.filter((rule): rule is Rule & { readonly namespace: string } => rule.namespace !== undefined),
      ({ namespace }) => namespace,
    );
    this.#byNamespace = new Map([...own].map(([namespace, list]) => [namespace, [...this.#everywhere, ...list]]));
  }

  /** The rules for traffic of a namespace's workloads: those for all namespaces, then its own. */
  of(namespace: string): readonly Rule[] {
    return this.#byNamespace.get(namespace) ?? this.#everywhere;
  }
}

/** How many handlers' instances rules name, by variety. */
export function countVarieties({ rules }: PolicyConfig): VarietyCounts {
  const counts: Record<Variety, number> = { CHECK: 0, REPORT: 0, QUOTA: 0, CHECK_WITH_OUTPUT: 0 };
  for (const { actions } of rules)
    for (const { instances } of actions) for (const { variety } of instances) counts[variety]++;
  return counts;
}
