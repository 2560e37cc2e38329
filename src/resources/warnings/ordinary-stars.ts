/**
 * Values of AuthorizationPolicies with a star in the middle, which other products support. Here a star is a wildcard
 * only at one end, so such a value matches almost nothing: a DENY with it denies nothing, and `not…` of an ALLOW
 * excludes nothing.
 */

import type { ValidationError } from '../parsing/issues.ts';
import { isPathTemplate } from '../path-templates.ts';
import type { AuthorizationPolicySpec } from '../schema/security.ts';

/** Values of conditions may be secrets, so values are not quoted. */
const MESSAGE = '"*" in the middle is not a wildcard: it matches literally';

/** Paths start at the content. */
export function ordinaryStars({ rules = [] }: AuthorizationPolicySpec): readonly ValidationError[] {
  return rules.flatMap(({ from = [], to = [], when = [] }, index) => {
    const rule = ['rules', index] as const;
    return [
      ...from.flatMap(({ source }, at) => inLists(source, [...rule, 'from', at, 'source'])),
      ...to.flatMap(({ operation }, at) => inLists(operation, [...rule, 'to', at, 'operation'])),
      ...when.flatMap(({ values, notValues }, at) => inLists({ values, notValues }, [...rule, 'when', at])),
    ];
  });
}

function inLists(
  lists: Readonly<Record<string, readonly string[] | undefined>>,
  path: readonly (string | number)[],
): ValidationError[] {
  return Object.entries(lists).flatMap(([field, values = []]) =>
    values.flatMap((value, index) =>
      hasInnerStar(value) && !(isPaths(field) && isPathTemplate(value))
        ? [{ path: [...path, field, index], message: MESSAGE }]
        : [],
    ),
  );
}

function isPaths(field: string): boolean {
  return field === 'paths' || field === 'notPaths';
}

/** Whether there is a star that is not the wildcard: validation refuses values with a star at both ends. */
function hasInnerStar(value: string): boolean {
  return value.slice(1, -1).includes('*');
}
