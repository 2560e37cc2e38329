/** Collects what is wrong with the documents, and counts it for the metrics. */
import type { PolicyCounts, PolicyDocument, PolicyProblem } from '../types.ts';

type Counter = { -readonly [K in keyof PolicyCounts]: PolicyCounts[K] };

/** Problems that are kept: with more, the documents are wrong as a whole. All are counted. */
const MAX_PROBLEMS = 1000;

export class Problems {
  readonly list: PolicyProblem[] = [];
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

  /** @param field path from the document's root */
  add(document: PolicyDocument, field: string, message: string): void {
    const counter = ERRORS[document.kind];
    if (counter !== undefined) this.counts[counter] += 1;
    if (this.list.length >= MAX_PROBLEMS) return;
    const { kind, namespace, name, origin } = document;
    this.list.push({ kind, namespace, name, origin, field, message });
  }
}

const ERRORS: Readonly<Partial<Record<PolicyDocument['kind'], keyof PolicyCounts>>> = {
  adapter: 'adapterErrors',
  handler: 'handlerErrors',
  instance: 'instanceErrors',
  rule: 'ruleErrors',
  template: 'templateErrors',
};
