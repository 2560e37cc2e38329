/** Parts of all security kinds: selectors, lists of values, ports as strings. */

import { shown } from '../parsing/issues.ts';
import { TARGETS } from '../policy-targets.ts';
import type { TargetRef } from '../schema/common.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkLabels } from './values.ts';

export const MAX_PORT = 65_535;
/** Longest value in a list: Envoy compares each with every request. */
const MAX_VALUE = 2048;

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
}

export function checkSelector(errors: ValidationErrors, selector: Selector | undefined): void {
  for (const [key, value] of Object.entries(selector?.matchLabels ?? {})) {
    if (`${key}${value}`.includes('*')) errors.add(['matchLabels', key], 'expected a label without wildcard');
  }
  checkLabels(errors.at('matchLabels'), selector?.matchLabels);
}

interface Targeting {
  readonly selector?: Selector | undefined;
  readonly targetRef?: TargetRef | undefined;
  readonly targetRefs?: readonly TargetRef[] | undefined;
}

/** Checks what a policy is attached to: with any other target, the policy would apply to nothing. */
export function checkTarget({ selector, targetRef, targetRefs }: Targeting, errors: ValidationErrors): void {
  if (targetRef !== undefined) checkTargetRef(targetRef, errors.at('targetRef'));
  each(errors.at('targetRefs'), targetRefs, checkTargetRef);
  const field = targetRef === undefined ? 'targetRefs' : 'targetRef';
  if (targetRef !== undefined && targetRefs?.length)
    errors.add(['targetRefs'], 'expected either targetRef or targetRefs');
  else if (selector !== undefined && (targetRef !== undefined || targetRefs?.length)) {
    errors.add([field], 'expected either a selector or targets');
  }
}

/** The names of the targets, each with its first group. */
const TARGET_NAMES = TARGETS.map(({ kind, groups: [group = ''] }) => (group === '' ? kind : `${group}/${kind}`)).join(
  ', ',
);

export function checkTargetRef({ group = '', kind, name, namespace }: TargetRef, errors: ValidationErrors): void {
  if (!TARGETS.some((target) => target.kind === kind && target.groups.includes(group))) {
    errors.add(['kind'], `expected one of ${TARGET_NAMES}, got ${shown(`${group}/${kind}`)}`);
  }
  if (name === '') errors.add(['name'], 'expected a name that is not empty');
  if (namespace) errors.add(['namespace'], 'expected none: targets are in the namespace of the policy');
}

/** Lists of strings: an empty string in one matches nothing and hides a mistake. */
export function checkFilled(items: readonly string[] | undefined, errors: ValidationErrors): void {
  each(errors, items, (item, at) => {
    if (item === '') at.add([], 'expected a value that is not empty');
    if (item.length > MAX_VALUE) at.add([], `expected at most ${MAX_VALUE} characters, got ${item.length}`);
  });
}

export function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_PORT;
}

export function checkPorts(items: readonly string[] | undefined, errors: ValidationErrors): void {
  each(errors, items, (item, at) => {
    if (!isPort(item)) at.add([], `expected a port from 1 to ${MAX_PORT}, got ${shown(item)}`);
  });
}
