/**
 * Whether an expression can be true for traffic of which only a part is known. What cannot be decided is possible; so
 * is an expression that may fail, because a rule that fails refuses requests.
 *
 * `possible.ts` decides the opposite about failure: a condition of Envoy without a value is not true. It also knows
 * neither the syntax nor the types of a condition, and needs no sets of values. Hence two evaluators: one with both
 * rules would have to be asked which of them counts at each operator.
 */
import type { Node } from './nodes.ts';
import { parse } from './parser.ts';
import type { Language, Value } from './types.ts';

/** The attribute, or the key of the map, is missing. */
export const MISSING = Symbol('missing');

/** The values of which an attribute has one. */
export type Possible = readonly (Value | typeof MISSING)[];

/** What is known of attributes, by name; nothing of those that are not in it. */
export type Facts = ReadonlyMap<string, Possible>;

/** More values than this count as unknown: operators combine all of both sides. */
const MAX_VALUES = 64;

/** The syntax and the types of the expression are right. */
export function possibleIn(text: string, language: Language): (facts: Facts) => boolean {
  const node = parse(text, language === 'CEL' ? 'CEL' : 'CEXL');
  return (facts) => valuesOf(node, facts)?.some((value) => value !== false) ?? true;
}

/** Undefined: unknown. */
function valuesOf(node: Node, facts: Facts): Possible | undefined {
  if (node.kind === 'literal') return [node.value];
  if (node.kind === 'name') return facts.get(node.name);
  if (node.kind === 'list') return undefined;
  const [one, other] = node.args;
  const left = one && valuesOf(one, facts);
  // The right side counts only if the left one does not decide or fail before.
  if (left === undefined || (node.name !== '|' && left.includes(MISSING))) return undefined;
  if (node.name === '!') return left.map((value) => value !== true);
  const right = (): Possible | undefined => other && valuesOf(other, facts);
  switch (node.name) {
    case '&&':
      return logical(left, false, right);
    case '||':
      return logical(left, true, right);
    case '|':
      return withDefault(left, right);
    case '==':
      return compared(left, right(), true);
    case '!=':
      return compared(left, right(), false);
    case '[]':
      return keyOf(left, right());
    default:
      return undefined;
  }
}

/** @param decisive the value of the left side with which the right side does not count */
function logical(left: Possible, decisive: boolean, right: () => Possible | undefined): Possible | undefined {
  if (left.every((value) => value === decisive)) return [decisive];
  const others = right();
  if (others === undefined) return undefined;
  return left.includes(decisive) ? bounded([decisive, ...others]) : others;
}

/** The default always counts: what is known may be missing where the expression is evaluated. */
function withDefault(left: Possible, right: () => Possible | undefined): Possible | undefined {
  const others = right();
  return others && bounded([...left.filter((value) => value !== MISSING), ...others]);
}

function compared(left: Possible, right: Possible | undefined, equal: boolean): Possible | undefined {
  if (right === undefined || ![...left, ...right].every(isComparable)) return undefined;
  const results = left.flatMap((one) => right.map((other) => (one === other) === equal));
  return [...new Set(results)];
}

/** Values of other types are not compared by identity. */
function isComparable(value: Value | typeof MISSING): boolean {
  return typeof value === 'string' || typeof value === 'boolean';
}

function keyOf(maps: Possible, keys: Possible | undefined): Possible | undefined {
  const [key, ...moreKeys] = keys ?? [];
  if (typeof key !== 'string' || moreKeys.length > 0 || !maps.every(isMap)) return undefined;
  return bounded(maps.map((map) => map.get(key) ?? MISSING));
}

function isMap(value: Value | typeof MISSING): value is ReadonlyMap<string, string> {
  return value instanceof Map;
}

function bounded(values: Possible): Possible | undefined {
  const distinct = [...new Set(values)];
  return distinct.length > MAX_VALUES ? undefined : distinct;
}
