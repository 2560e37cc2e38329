/**
 * Checks the types of a syntax tree and compiles it to closures. Attribute expressions and CEL have the same tree and
 * differ in what a missing attribute means: in attribute expressions, it has no value; in CEL, that of its type's
 * default. In both, `|` tests whether it is present.
 *
 * No library for CEL is used: `@marcbachmann/cel-js`, which checks types, evaluates comprehensions without a limit of
 * steps and `matches` with backtracking, and knows no attribute that is absent.
 */
import { didYouMean } from '../core/nearest.ts';
import { arithmeticOf, negated } from './arithmetic.ts';
import { type Compiled, Context, required } from './compiled.ts';
import { FUNCTIONS, type FunctionType, type Semantics } from './functions.ts';
import { expressionError, type Node } from './nodes.ts';
import { compileMatches } from './patterns.ts';
import { EvaluationError, type Value, type ValueType, type Vocabulary } from './types.ts';
import { DEFAULTS, EQUAL, isOfType, ORDER } from './values.ts';

type Call = Extract<Node, { kind: 'call' }>;
type Form = (checker: Checker, call: Call) => Compiled;

export class Checker {
  readonly semantics: Semantics;
  readonly #vocabulary: Vocabulary;
  readonly #reads = new Set<string>();

  constructor(vocabulary: Vocabulary, semantics: Semantics) {
    this.#vocabulary = vocabulary;
    this.semantics = semantics;
  }

  /** The attributes that what was compiled can read. */
  get reads(): readonly string[] {
    return [...this.#reads].sort();
  }

  /** Throws CtlError `invalid_argument`. */
  compile(node: Node): Compiled {
    if (node.kind === 'literal') return required(node.type, () => node.value, true);
    if (node.kind === 'name') return this.#name(node.at, node.name);
    if (node.kind === 'list') throw expressionError(node.at, 'a list can only be the right operand of "in"');
    const form = FORMS.get(node.name);
    if (form !== undefined) return counted(form(this, node));
    return this.#function(node);
  }

  /** Compiles an operand that must have a type. */
  operand(node: Node, type: ValueType, what: string): Compiled {
    const compiled = this.compile(node);
    if (compiled.type !== type) {
      throw expressionError(node.at, `expected ${type} as ${what}, got ${compiled.type}`);
    }
    return compiled;
  }

  /** A name of an attribute, or in CEL also `map.key`. */
  #name(at: number, name: string): Compiled {
    const type = this.#vocabulary.get(name);
    if (type !== undefined) return this.#attribute(name, type);
    const dot = name.lastIndexOf('.');
    const map = name.slice(0, Math.max(0, dot));
    if (this.semantics === 'CEL' && this.#vocabulary.get(map) === 'STRING_MAP') {
      const key = name.slice(dot + 1);
      return indexed(
        this.semantics,
        this.#attribute(map, 'STRING_MAP'),
        required('STRING', () => key, true),
      );
    }
    const known = didYouMean(name, [...this.#vocabulary.keys()]);
    throw expressionError(at, `unknown attribute ${JSON.stringify(name.slice(0, 80))}${known}`);
  }

  #attribute(name: string, type: ValueType): Compiled {
    this.#reads.add(name);
    const read = ({ attributes }: Context): Value | undefined => {
      const value = attributes.get(name);
      if (value !== undefined && !isOfType(type, value)) {
        throw new EvaluationError(`expected ${type} as attribute ${name}, got another type`);
      }
      return value;
    };
    if (this.semantics === 'CEL') {
      const value = (context: Context): Value => read(context) ?? DEFAULTS[type];
      // As fields of messages, attributes with a dot have presence; variables always have a value.
      return { type, value, optional: name.includes('.') ? read : value, constant: false };
    }
    const value = (context: Context): Value => {
      const found = read(context);
      if (found === undefined) throw new EvaluationError(`attribute ${name} is missing`);
      return found;
    };
    return { type, value, optional: read, constant: false };
  }

  #function(call: Call): Compiled {
    const named = FUNCTIONS.filter(
      ({ name, only }) => name === call.name && (only ?? this.semantics) === this.semantics,
    );
    if (named.length === 0) throw this.unknownFunction(call);
    const args = call.args.map((arg) => this.compile(arg));
    const types = args.map(({ type }) => type);
    const found = named.find(({ method, params }) => method === call.method && sameTypes(params, types));
    if (found === undefined) {
      const written = call.method
        ? `${types[0]}.${call.name}(${types.slice(1).join(', ')})`
        : `${call.name}(${types.join(', ')})`;
      throw expressionError(call.at, `expected ${named.map(signature).join(' or ')}, got ${written}`);
    }
    return folded(call.at, found, args);
  }

  unknownFunction(call: Call): Error {
    const names = FUNCTIONS.filter(({ only }) => (only ?? this.semantics) === this.semantics).map(({ name }) => name);
    const forms = [...FORMS.keys()].filter((name) => /^\w/.test(name));
    const what = /^\w/.test(call.name) ? 'function' : 'operator';
    const known = what === 'function' ? didYouMean(call.name, [...new Set([...names, ...forms])]) : '';
    return expressionError(call.at, `unknown ${what} ${JSON.stringify(call.name.slice(0, 80))}${known}`);
  }
}

/** Each evaluation of a form is a step. */
function counted({ type, value, optional, constant }: Compiled): Compiled {
  const spending =
    <T>(read: (context: Context) => T) =>
    (context: Context): T => {
      context.spend(1);
      return read(context);
    };
  return { type, value: spending(value), optional: spending(optional), constant };
}

const sameTypes = (one: readonly ValueType[], other: readonly ValueType[]): boolean =>
  one.length === other.length && one.every((type, index) => type === other[index]);

function signature({ name, method, params }: FunctionType): string {
  return method ? `${params[0]}.${name}(${params.slice(1).join(', ')})` : `${name}(${params.join(', ')})`;
}

const NO_ATTRIBUTES = { get: (): undefined => undefined };

/** A call whose arguments are constant is evaluated now, so that a wrong literal is reported where it is written. */
function folded(at: number, { returns, call }: FunctionType, args: readonly Compiled[]): Compiled {
  const values = args.map(({ value }) => value);
  const compute = (context: Context): Value =>
    call(
      values.map((value) => value(context)),
      context,
    );
  if (!args.every(({ constant }) => constant)) return required(returns, compute);
  try {
    const result = compute(new Context(NO_ATTRIBUTES));
    return required(returns, () => result, true);
  } catch (error) {
    if (error instanceof EvaluationError) throw expressionError(at, error.message);
    throw error;
  }
}

/** The operands of a call, which has as many as `count`. */
function operands(checker: Checker, call: Call, count: number): readonly Node[] {
  if (call.method) throw expressionError(call.at, `${call.name} is a function, not a method`);
  if (call.args.length === count) return call.args;
  if (!/^\w/.test(call.name)) throw checker.unknownFunction(call);
  throw expressionError(call.at, `expected ${count} arguments of ${call.name}, got ${call.args.length}`);
}

function equality(checker: Checker, call: Call): Compiled {
  const [left, right] = pair(checker, call);
  const equal = EQUAL[left.type];
  if (equal === undefined) throw expressionError(call.at, `values of type ${left.type} cannot be compared`);
  const expected = call.name === '==';
  return required('BOOL', (context) => equal(left.value(context), right.value(context)) === expected);
}

const COMPARISONS: ReadonlyMap<string, (order: number) => boolean> = new Map([
  ['<', (order) => order < 0],
  ['<=', (order) => order <= 0],
  ['>', (order) => order > 0],
  ['>=', (order) => order >= 0],
]);

function comparison(checker: Checker, call: Call): Compiled {
  const [left, right] = pair(checker, call);
  const order = ORDER[left.type];
  const decides = COMPARISONS.get(call.name);
  if (order === undefined || decides === undefined) {
    throw expressionError(call.at, `values of type ${left.type} have no order`);
  }
  return required('BOOL', (context) => decides(order(left.value(context), right.value(context))));
}

/** Two operands of one type. */
function pair(checker: Checker, call: Call): readonly [Compiled, Compiled] {
  const [leftNode, rightNode] = operands(checker, call, 2) as [Node, Node];
  const left = checker.compile(leftNode);
  return [left, checker.operand(rightNode, left.type, `the right operand of ${call.name}`)];
}

/** `&&` and `||`. In CEL, an operand without a value does not matter if the other one decides. */
function logical(checker: Checker, call: Call): Compiled {
  const [leftNode, rightNode] = operands(checker, call, 2) as [Node, Node];
  const left = checker.operand(leftNode, 'BOOL', `the left operand of ${call.name}`).value;
  const right = checker.operand(rightNode, 'BOOL', `the right operand of ${call.name}`).value;
  const deciding = call.name === '||';
  if (checker.semantics === 'CEXL') {
    return required('BOOL', (context) => (left(context) === deciding ? deciding : right(context)));
  }
  return required('BOOL', (context) => {
    let one: Value;
    try {
      one = left(context);
    } catch (error) {
      if (!(error instanceof EvaluationError) || right(context) !== deciding) throw error;
      return deciding;
    }
    return one === deciding ? deciding : right(context);
  });
}

function not(checker: Checker, call: Call): Compiled {
  const [node] = operands(checker, call, 1) as [Node];
  const { value } = checker.operand(node, 'BOOL', 'the operand of !');
  return required('BOOL', (context) => value(context) !== true);
}

/** `left | right`, or `pick(first, …, last)` in CEL: the first that is present. */
function alternative(checker: Checker, call: Call): Compiled {
  if (call.name === 'pick' && checker.semantics === 'CEXL') throw checker.unknownFunction(call);
  if (call.method || call.args.length === 0) throw checker.unknownFunction(call);
  const [first, ...rest] = call.args as readonly [Node, ...Node[]];
  let all = checker.compile(first);
  for (const node of rest) {
    const left = all;
    const right = checker.operand(node, left.type, 'the alternative');
    all = {
      type: left.type,
      value: (context) => left.optional(context) ?? right.value(context),
      optional: (context) => left.optional(context) ?? right.optional(context),
      constant: false,
    };
  }
  return all;
}

function index(checker: Checker, call: Call): Compiled {
  const [map, key] = operands(checker, call, 2) as [Node, Node];
  return indexed(
    checker.semantics,
    checker.operand(map, 'STRING_MAP', 'what is indexed'),
    checker.operand(key, 'STRING', 'the index'),
  );
}

/** A key that is missing has the value "" in attribute expressions, and none in CEL. */
function indexed(semantics: Semantics, map: Compiled, key: Compiled): Compiled {
  const at = (values: Value | undefined, name: Value | undefined): string | undefined =>
    values === undefined || name === undefined
      ? undefined
      : (values as ReadonlyMap<string, string>).get(name as string);
  const value = (context: Context): Value => {
    const name = key.value(context);
    const found = at(map.value(context), name);
    if (found === undefined && semantics === 'CEXL') return '';
    if (found === undefined) throw new EvaluationError(`the map has no key ${JSON.stringify(name)}`);
    return found;
  };
  const optional =
    semantics === 'CEL'
      ? (context: Context) => at(map.value(context), key.value(context))
      : (context: Context) => at(map.optional(context), key.optional(context));
  return { type: 'STRING', value, optional, constant: false };
}

function conditional(checker: Checker, call: Call): Compiled {
  if (call.name === 'conditionalString' && checker.semantics === 'CEL') throw checker.unknownFunction(call);
  const [conditionNode, yesNode, noNode] = operands(checker, call, 3) as [Node, Node, Node];
  const condition = checker.operand(conditionNode, 'BOOL', 'the condition').value;
  const yes =
    call.name === 'conditionalString'
      ? checker.operand(yesNode, 'STRING', 'the first value')
      : checker.compile(yesNode);
  const no = checker.operand(noNode, yes.type, 'the second value').value;
  return required(yes.type, (context) => (condition(context) === true ? yes.value(context) : no(context)));
}

function arithmetic(checker: Checker, call: Call): Compiled {
  const minus = call.name === '-' && call.args.length === 1;
  if (minus && checker.semantics === 'CEL') return negation(checker, call);
  const [leftNode, rightNode] = operands(checker, call, 2) as [Node, Node];
  const [left, right] = [checker.compile(leftNode), checker.compile(rightNode)];
  const found = arithmeticOf(checker.semantics, left.type, call.name, right.type);
  if (found === undefined) {
    throw expressionError(call.at, `operator ${call.name} is not defined for ${left.type} and ${right.type}`);
  }
  return required(found.returns, (context) => found.compute(left.value(context), right.value(context)));
}

function negation(checker: Checker, call: Call): Compiled {
  const { type, value } = checker.compile(call.args[0] as Node);
  if (type !== 'INT64' && type !== 'DOUBLE') {
    throw expressionError(call.at, `expected a number as the operand of -, got ${type}`);
  }
  return required(type, (context) => negated(value(context)));
}

/** The text comes first in CEL; in attribute expressions, the pattern does. */
function matches(checker: Checker, call: Call): Compiled {
  const cel = checker.semantics === 'CEL';
  if (call.args.length !== 2 || !(call.method || cel)) {
    throw expressionError(call.at, `expected ${cel ? 'text.matches(pattern)' : 'pattern.matches(text)'}`);
  }
  const [first, second] = call.args as [Node, Node];
  const [textNode, patternNode] = cel ? [first, second] : [second, first];
  const text = checker.operand(textNode, 'STRING', 'the text');
  return compileMatches(patternNode, checker.operand(patternNode, 'STRING', 'the pattern'), text);
}

/** In CEL: whether an attribute, or a key of a map, is present. */
function has(checker: Checker, call: Call): Compiled {
  const [node] = operands(checker, call, 1) as [Node];
  if (checker.semantics === 'CEXL') throw checker.unknownFunction(call);
  if (node.kind !== 'name' || !node.name.includes('.')) {
    throw expressionError(node.at, 'expected an attribute with a dot in its name');
  }
  const { optional } = checker.compile(node);
  return required('BOOL', (context) => optional(context) !== undefined);
}

/** In CEL: whether a map has a key, or a list an item. */
function within(checker: Checker, call: Call): Compiled {
  const [itemNode, listNode] = operands(checker, call, 2) as [Node, Node];
  if (listNode.kind !== 'list') {
    const key = checker.operand(itemNode, 'STRING', 'the key').value;
    const map = checker.operand(listNode, 'STRING_MAP', 'the right operand of in').value;
    return required('BOOL', (context) => (map(context) as ReadonlyMap<string, string>).has(key(context) as string));
  }
  const item = checker.compile(itemNode);
  const equal = EQUAL[item.type];
  if (equal === undefined) throw expressionError(call.at, `values of type ${item.type} cannot be compared`);
  const items = listNode.items.map((node) => checker.operand(node, item.type, 'an item of the list').value);
  return required('BOOL', (context) => {
    const value = item.value(context);
    return items.some((each) => equal(value, each(context)));
  });
}

/** Operators and functions whose operands are evaluated only if they matter, or whose types depend on each other. */
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ['==', equality],
  ['!=', equality],
  ...[...COMPARISONS.keys()].map((name): [string, Form] => [name, comparison]),
  ['&&', logical],
  ['||', logical],
  ['!', not],
  ['|', alternative],
  ['pick', alternative],
  ['[]', index],
  ['conditional', conditional],
  ['conditionalString', conditional],
  ...['+', '-', '*', '/', '%'].map((name): [string, Form] => [name, arithmetic]),
  ['matches', matches],
  ['has', has],
  ['in', within],
]);
