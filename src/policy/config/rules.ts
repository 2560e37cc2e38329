/** Rules: conditions, actions with their handlers and instances, header operations. */
import {
  type Expression,
  type Language,
  matchesConnections,
  type ValueType,
  type Vocabulary,
} from '../../expressions/index.ts';
import { fieldPath } from '../../resources/index.ts';
import type { Action, HeaderOperation, Instance, Rule, Variety } from '../types.ts';
import type { Compilation, TypedDocument } from './compilation.ts';
import type { CompiledHandler } from './handlers.ts';
import type { CompiledInstance } from './instances.ts';
import { INSTANCE_KINDS } from './params.ts';
import { idOf, meanings, type Reference } from './references.ts';

const HANDLER_KINDS: ReadonlySet<string> = new Set(['handler']);

/** What rules refer to, by `name.namespace`. */
export interface Parts {
  readonly vocabulary: Vocabulary;
  readonly handlers: ReadonlyMap<string, CompiledHandler>;
  readonly instances: ReadonlyMap<string, CompiledInstance>;
  /** Of all instances whose template is known, also of those that are wrong. */
  readonly varieties: ReadonlyMap<string, Variety>;
}

type RuleDocument = TypedDocument<'rule'>;

/**
 * With problems, if a part is wrong. What only records is left out then; a rule that decides is kept, and refuses the
 * requests to which it applies. Undefined if nothing is left.
 */
export function compileRule(compilation: Compilation, document: RuleDocument, parts: Parts): Rule | undefined {
  const whole = new WholeRule(compilation, document, parts);
  const refused = document.substitute === true;
  if (refused && !whole.decides()) return undefined;
  if (refused) whole.refuse();
  const language = compilation.languageOf(document);
  const context = language === undefined ? undefined : { language, vocabulary: parts.vocabulary };
  const match = context === undefined ? 'wrong' : conditionOf(compilation, document, context);
  const applies = context !== undefined && match !== 'wrong';
  if (!applies && whole.decides()) whole.lack(context === undefined ? 'metadata.annotations' : 'spec.match');
  const actions =
    applies && !refused
      ? (document.spec.actions ?? []).flatMap((_, index) => whole.action(index) ?? [])
      : ([] as readonly Action[]);
  const headerContext = { language: language ?? 'CEXL', vocabulary: withOutputs(parts.vocabulary, actions) };
  const headers = (field: HeaderField): readonly HeaderOperation[] =>
    applies && !refused
      ? (document.spec[field] ?? []).flatMap((_, index) => whole.header(field, index, headerContext) ?? [])
      : [];
  const [requestHeaders, responseHeaders] = [headers('requestHeaderOperations'), headers('responseHeaderOperations')];
  const { broken } = whole;
  const references = whole.references();
  if (broken !== undefined) {
    compilation.problems.add(
      document,
      'spec',
      'the rule is wrong and decides: it refuses requests to which it applies',
      references,
    );
  } else if (actions.length + requestHeaders.length + responseHeaders.length === 0) {
    if (applies)
      compilation.problems.add(document, 'spec.actions', 'no action is left: the rule has no effect', references);
    return undefined;
  }
  return {
    id: idOf(document),
    namespace: namespaceOf(compilation, document),
    ...(match === undefined || match === 'wrong' ? {} : { match }),
    matchesConnections: match === 'wrong' || matchesConnections(document.spec.match),
    ...(broken === undefined ? {} : { broken }),
    actions,
    requestHeaders,
    responseHeaders,
  };
}

/** In place of a rule that is not compiled: it refuses all requests of its namespace. Undefined if it only records. */
export function ruleBeyondLimit(
  compilation: Compilation,
  document: RuleDocument,
  parts: Omit<Parts, 'vocabulary'>,
): Rule | undefined {
  const whole = new WholeRule(compilation, document, { ...parts, vocabulary: new Map() });
  if (!whole.decides()) return undefined;
  return {
    id: idOf(document),
    namespace: namespaceOf(compilation, document),
    matchesConnections: true,
    broken: 'its namespace has too many rules',
    actions: [],
    requestHeaders: [],
    responseHeaders: [],
  };
}

/** Undefined for rules that apply to the traffic of all namespaces. */
function namespaceOf({ options }: Compilation, { namespace }: RuleDocument): string | undefined {
  return namespace === options.configNamespace ? undefined : namespace;
}

type HeaderField = 'requestHeaderOperations' | 'responseHeaderOperations';

interface Context {
  readonly language: Language;
  readonly vocabulary: Vocabulary;
}

function conditionOf(
  compilation: Compilation,
  document: RuleDocument,
  context: Context,
): Expression | undefined | 'wrong' {
  const { match = '' } = document.spec;
  if (match === '') return undefined;
  const compiled = compilation.expression(document, ['match'], match, { ...context, type: 'BOOL' });
  if (compiled !== undefined) return compiled;
  compilation.problems.counts.ruleMatchErrors++;
  return 'wrong';
}

/** Compiles the parts of a rule, and notes whether one that decides is lacking. */
class WholeRule {
  readonly #compilation: Compilation;
  readonly #document: RuleDocument;
  readonly #parts: Parts;
  /** The first part that decides and is lacking. */
  broken: string | undefined;

  constructor(compilation: Compilation, document: RuleDocument, parts: Parts) {
    this.#compilation = compilation;
    this.#document = document;
    this.#parts = parts;
  }

  lack(field: string): void {
    this.broken ??= `${field} is wrong`;
  }

  /** Notes that the document was refused, and another one is in its place. */
  refuse(): void {
    this.broken = 'the document is refused, and no good version of it is known';
  }

  /** Whether any part decides, or may. */
  decides(): boolean {
    const { actions = [], requestHeaderOperations = [], responseHeaderOperations = [] } = this.#document.spec;
    const headers = requestHeaderOperations.length + responseHeaderOperations.length > 0;
    return headers || actions.some(({ instances = [] }) => !instances.every((text) => this.#records(text)));
  }

  /** Whether an instance is known to record only. */
  #records(text: string): boolean {
    const { varieties } = this.#parts;
    return this.#compilation.find(text, this.#document.namespace, INSTANCE_KINDS, varieties) === 'REPORT';
  }

  /** What the handlers and the instances of all actions may mean. */
  references(): readonly Reference[] {
    return (this.#document.spec.actions ?? []).flatMap((_, index) => this.#referencesOf(index));
  }

  #referencesOf(index: number): readonly Reference[] {
    const { namespace, spec } = this.#document;
    const { handler = '', instances = [] } = spec.actions?.[index] ?? {};
    return [
      ...meanings(handler, namespace, HANDLER_KINDS),
      ...instances.flatMap((text) => meanings(text, namespace, INSTANCE_KINDS)),
    ];
  }

  action(index: number): Action | undefined {
    const { problems } = this.#compilation;
    const { namespace, spec } = this.#document;
    const { handler: reference = '', instances: names = [], name = '' } = spec.actions?.[index] ?? {};
    const at = (...path: (string | number)[]): string => fieldPath(['spec', 'actions', index, ...path]);
    const handler = this.#compilation.find(reference, namespace, HANDLER_KINDS, this.#parts.handlers);
    if (handler === undefined) {
      problems.counts.unsatisfiedActions++;
      const message = `handler ${JSON.stringify(reference)} does not exist or is wrong`;
      problems.add(this.#document, at('handler'), message, this.#referencesOf(index));
      if (!names.every((text) => this.#records(text))) this.lack(at('handler'));
      return undefined;
    }
    const found = new Map<string, Instance>();
    names.forEach((text, position) => {
      const compiled = this.#compilation.find(text, namespace, INSTANCE_KINDS, this.#parts.instances);
      const isTwice = compiled !== undefined && found.has(compiled.instance.id);
      const problem = isTwice ? `instance ${JSON.stringify(text)} is listed twice` : misfit(text, compiled, handler);
      if (problem === undefined && compiled !== undefined) found.set(compiled.instance.id, compiled.instance);
      if (problem === undefined) return;
      problems.add(this.#document, at('instances', position), problem, this.#referencesOf(index));
      if (!isTwice && !this.#records(text)) this.lack(at('instances', position));
    });
    if (found.size === 0) {
      const message = 'no instance is left: the action has no effect';
      problems.add(this.#document, at('instances'), message, this.#referencesOf(index));
      return undefined;
    }
    return { ...(name === '' ? {} : { name }), handler: handler.handler, instances: [...found.values()] };
  }

  header(field: HeaderField, index: number, context: Context): HeaderOperation | undefined {
    const { name = '', values = [], operation = 'REPLACE' } = this.#document.spec[field]?.[index] ?? {};
    const path = [field, index] as const;
    // Outputs of actions have the types that their instances say.
    const options = { ...context, type: 'STRING', references: this.references() } as const;
    const compiled = values.flatMap(
      (text, at) => this.#compilation.expression(this.#document, [...path, 'values', at], text, options) ?? [],
    );
    if (compiled.length === values.length) return { name: name.toLowerCase(), operation, values: compiled };
    this.lack(fieldPath(['spec', ...path]));
    return undefined;
  }
}

/** Why an instance cannot be given to a handler. */
function misfit(
  text: string,
  compiled: CompiledInstance | undefined,
  { handler, templates }: CompiledHandler,
): string | undefined {
  if (compiled === undefined) return `instance ${JSON.stringify(text)} does not exist or is wrong`;
  const { instance, template } = compiled;
  if (!templates.has(template)) return `handler ${handler.id} does not support instances of template ${template}`;
  const limited = handler.adapter === 'memquota' || handler.adapter === 'redisquota';
  if (!limited || handler.params.quotas.some(({ name }) => name === instance.id)) return undefined;
  return `handler ${handler.id} has no quota for ${instance.id}`;
}

/** The vocabulary of header operations: also the outputs of actions with a name. */
function withOutputs(vocabulary: Vocabulary, actions: readonly Action[]): Vocabulary {
  return new Map([...vocabulary, ...actions.flatMap(outputsOf)]);
}

function outputsOf({ name, instances }: Action): readonly (readonly [string, ValueType])[] {
  if (name === undefined) return [];
  return instances.flatMap(({ dynamic }) =>
    [...(dynamic?.output ?? [])].map(([field, type]) => [`${name}.output.${field}`, type] as const),
  );
}
