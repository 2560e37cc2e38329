/** Which workloads' traffic the condition of a rule can match: proxies of others need neither filter nor logger. */
import { CtlError } from '../../core/errors.ts';
import { compileExpression, type Facts, MISSING, type Possible, possibleIn } from '../../expressions/index.ts';
import { STANDARD_ATTRIBUTES } from './vocabulary.ts';

/** A workload as its proxy is known. */
export interface ReachedWorkload {
  readonly namespace: string;
  /**
   * Those that its proxy states, and those that its addresses have: they differ when a Pod gets labels while it runs.
   * Undefined: unknown.
   */
  readonly labels?: readonly Readonly<Record<string, string>>[];
  /** Hosts of services at its addresses; undefined: unknown. */
  readonly hosts?: readonly string[];
}

/** The conditions that are true for a part of the traffic, or may be, of a workload. */
export type Matcher = (facts: Facts) => boolean;

/**
 * A condition that is wrong, or that has attributes of a manifest, matches everything: it is wrong for all traffic, or
 * nothing is known of the attributes.
 */
export function matcherOf(match: string): Matcher {
  if (match === '') return () => true;
  try {
    compileExpression(match, { language: 'CEXL', vocabulary: STANDARD_ATTRIBUTES, type: 'BOOL' });
    return possibleIn(match, 'CEXL');
  } catch (error) {
    if (error instanceof CtlError) return () => true;
    throw error;
  }
}

/** What all traffic that a proxy reports has in common. */
export function factsOf({ namespace, labels, hosts }: ReachedWorkload): Facts {
  const services = hosts === undefined ? [] : (['destination.service', 'destination.service.host'] as const);
  return new Map<string, Possible>([
    ['destination.namespace', [namespace]],
    ...(labels === undefined ? [] : [labelsFact(labels)]),
    // Sidecars and gateways ask about what arrives at them.
    ['context.reporter.kind', ['inbound']],
    // A port that belongs to no service has none.
    ...services.map((name): [string, Possible] => [name, [...(hosts ?? []), MISSING]]),
  ]);
}

function labelsFact(labels: NonNullable<ReachedWorkload['labels']>): [name: string, Possible] {
  return ['destination.labels', labels.map((each) => new Map(Object.entries(each)))];
}
