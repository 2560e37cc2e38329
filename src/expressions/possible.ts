/**
 * Whether a condition can be true where some attributes are known and others are always missing, without its
 * vocabulary: what is not understood can be true.
 *
 * An expression that fails has no value, and a condition without a value is not true. In `partial.ts`, which decides
 * whether a rule may concern traffic, failure counts as possible.
 */
import type { Node } from './nodes.ts';
import { parsedInAnySyntax } from './parser.ts';
import type { Value } from './types.ts';

/** What is known of attributes. */
export interface Known {
  /** Attributes with these values. */
  readonly values: ReadonlyMap<string, Value>;
  /** Whether an attribute is always missing; an expression that needs one has no value. */
  readonly isMissing: (name: string) => boolean;
}

/** What an expression may be. All false: it never has a value. */
interface Possible {
  readonly true: boolean;
  readonly false: boolean;
  /** Its value, when it can have no other. */
  readonly known?: Value;
}

const ANYTHING: Possible = { true: true, false: true };
const NOTHING: Possible = { true: false, false: false };

/** False only if the condition is false, or has no value, whatever the other attributes are. */
export function canBeTrue(text: string, known: Known): boolean {
  const trees = parsedInAnySyntax(text);
  return trees.length === 0 || trees.some((tree) => possible(tree, known).true);
}

function possible(node: Node, known: Known): Possible {
  switch (node.kind) {
    case 'literal':
      return constant(node.value);
    case 'name':
      return attribute(node.name, known);
    case 'list':
      return ANYTHING;
    case 'call':
      return call(node.name, node.args, known);
  }
}

function attribute(name: string, { values, isMissing }: Known): Possible {
  const value = values.get(name);
  if (value !== undefined) return constant(value);
  return isMissing(name) ? NOTHING : ANYTHING;
}

function constant(value: Value): Possible {
  return { true: value !== false, false: value !== true, known: value };
}

function call(name: string, args: readonly Node[], known: Known): Possible {
  const of = args.map((each) => possible(each, known));
  const [one = NOTHING, other = NOTHING, third = NOTHING] = of;
  switch (name) {
    case '&&':
      return { true: one.true && other.true, false: one.false || other.false };
    case '||':
      return { true: one.true || other.true, false: one.false && other.false };
    case '!':
      return { true: one.false, false: one.true };
    case '==':
      return equality(one, other);
    case '!=': {
      const equal = equality(one, other);
      return { true: equal.false, false: equal.true };
    }
    // Keys of maps may be missing, too.
    case '|':
    case 'pick':
      return of.reduce(either, NOTHING);
    case 'conditional':
    case 'conditionalString':
      return either(one.true ? other : NOTHING, one.false ? third : NOTHING);
    case 'has':
      return { true: hasValue(one), false: true };
    default:
      return of.every(hasValue) ? ANYTHING : NOTHING;
  }
}

function hasValue(part: Possible): boolean {
  return part.true || part.false;
}

function either(one: Possible, other: Possible): Possible {
  return { true: one.true || other.true, false: one.false || other.false };
}

function equality(one: Possible, other: Possible): Possible {
  if (!hasValue(one) || !hasValue(other)) return NOTHING;
  if (typeof one.known !== 'string' || typeof other.known !== 'string') return ANYTHING;
  return { true: one.known === other.known, false: one.known !== other.known };
}
