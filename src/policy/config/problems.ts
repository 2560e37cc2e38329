/** Collects what is wrong with the documents, and counts it for the metrics. */
import type { PolicyCounts, PolicyDocument, PolicyProblem } from '../types.ts';
import type { Reference } from './references.ts';

type Counter = { -readonly [K in keyof PolicyCounts]: PolicyCounts[K] };

/** Problems of a namespace that are kept, so that those of one do not displace others. All are counted. */
const MAX_PROBLEMS = 100;

export class Problems {
  readonly list: PolicyProblem[] = [];
  readonly #kept = new Map<string, number>();
  readonly counts: Counter = {
    attributes: 0,
    adapters: 0,
    adapterErrors: 0,
    handlers: 0,
    handlerErrors: 0,
    instances: 0,
    instanceErrors: 0,
    rules: 0,
    ruleErrors: 0,
    ruleMatchErrors: 0,
    templates: 0,
    templateErrors: 0,
    unsatisfiedActions: 0,
  };

  /**
   * @param field path from the document's root
   * @param references to documents on which the problem depends
   */
  add(document: PolicyDocument, field: string, message: string, references: readonly Reference[] = []): void {
    const counter = ERRORS[document.kind];
    if (counter !== undefined) this.counts[counter] += 1;
    const { kind, namespace, name, origin } = document;
    const kept = this.#kept.get(namespace) ?? 0;
    if (kept >= MAX_PROBLEMS) return;
    this.#kept.set(namespace, kept + 1);
    const reveals = [...new Set(references.map((each) => each.namespace))].filter((each) => each !== namespace);
    const more = reveals.length === 0 ? {} : { reveals };
    this.list.push({ kind, namespace, name, origin, field, message, ...more });
  }
}

const ERRORS: Readonly<Partial<Record<PolicyDocument['kind'], keyof PolicyCounts>>> = {
  adapter: 'adapterErrors',
  handler: 'handlerErrors',
  instance: 'instanceErrors',
  rule: 'ruleErrors',
  template: 'templateErrors',
};
