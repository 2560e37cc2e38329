/** Label selectors of the configuration (Kubernetes LabelSelector). */
import { z } from 'zod';
import { meshKey } from '../../resources/index.ts';

const requirement = z
  .strictObject({
    key: z.string().min(1, 'expected the key of a label'),
    operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
    values: z.array(z.string()).default([]),
  })
  .refine(({ operator, values }) => /^(Not)?In$/.test(operator) === values.length > 0, {
    path: ['values'],
    message: 'expected values for the operators In and NotIn, and no values for others',
  });

/** A selector without any requirement would select every Pod; the policy is for that. */
export const labelSelector = z
  .strictObject({
    matchLabels: z.record(z.string(), z.string()).default({}),
    matchExpressions: z.array(requirement).default([]),
  })
  .refine(({ matchLabels, matchExpressions }) => Object.keys(matchLabels).length + matchExpressions.length > 0, {
    message: 'expected matchLabels or matchExpressions: the policy field covers all Pods',
  });

export type Selector = z.output<typeof labelSelector>;

/** @param labels with the names of `mesh.io` beside those of `istio.io`: a selector may have either name */
export function selects(selector: Selector, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels, matchExpressions } = selector;
  const value = (key: string): string | undefined => {
    const name = meshKey(key);
    return Object.hasOwn(labels, name) ? labels[name] : undefined;
  };
  return (
    Object.entries(matchLabels).every(([key, wanted]) => value(key) === wanted) &&
    matchExpressions.every(({ key, operator, values }) => {
      const found = value(key);
      if (operator === 'Exists') return found !== undefined;
      if (operator === 'DoesNotExist') return found === undefined;
      return (found !== undefined && values.includes(found)) === (operator === 'In');
    })
  );
}
