/** Parts of all security kinds: selectors, lists of values, ports as text. */
import { shown } from '../issues.ts';
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

/** A policy attached to a target that is not read here would apply to nobody, and its author would not notice. */
export function checkTarget(spec: { targetRef?: unknown; targetRefs?: unknown }, errors: ValidationErrors): void {
  for (const field of ['targetRef', 'targetRefs'] as const) {
    if (spec[field] !== undefined) {
      errors.add([field], 'expected a selector: the Gateway API is not served, and the policy would hold for nobody');
    }
  }
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
