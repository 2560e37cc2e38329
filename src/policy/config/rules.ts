/** Rules: conditions, actions with their handlers and instances, header operations. */
import type { Expression, Language, ValueType, Vocabulary } from '../../expressions/index.ts';
import { fieldPath, type PolicyHeaderOperation } from '../../resources/index.ts';
import type { Action, HeaderOperation, Instance, Rule } from '../types.ts';
import type { Compilation, TypedDocument } from './compilation.ts';
import type { CompiledHandler } from './handlers.ts';
import type { CompiledInstance } from './instances.ts';
import { INSTANCE_KINDS } from './params.ts';
import { idOf } from './references.ts';

const HANDLER_KINDS: ReadonlySet<string> = new Set(['handler']);

/** What rules refer to, by `name.namespace`. */
export interface Parts {
  readonly vocabulary: Vocabulary;
  readonly handlers: ReadonlyMap<string, CompiledHandler>;
  readonly instances: ReadonlyMap<string, CompiledInstance>;
}

type RuleDocument = TypedDocument<'rule'>;

/** Undefined, with problems, if nothing of the rule is left, or its condition is wrong. */
export function compileRule(compilation: Compilation, document: RuleDocument, parts: Parts): Rule | undefined {
  const { spec, namespace } = document;
  const language = compilation.languageOf(document);
  if (language === undefined) return undefined;
  const match = conditionOf(compilation, document, { language, vocabulary: parts.vocabulary });
  if (match === 'wrong') return undefined;
  const actions = (spec.actions ?? []).flatMap((_, index) => compileAction(compilation, document, index, parts) ?? []);
  const vocabulary = new Map([...parts.vocabulary, ...actions.flatMap(outputsOf)]);
  const headers = (field: 'requestHeaderOperations' | 'responseHeaderOperations'): readonly HeaderOperation[] =>
    (spec[field] ?? []).flatMap(
      (operation, index) =>
        compileHeader(compilation, document, [field, index], operation, { language, vocabulary }) ?? [],
    );
  const [requestHeaders, responseHeaders] = [headers('requestHeaderOperations'), headers('responseHeaderOperations')];
  if (actions.length + requestHeaders.length + responseHeaders.length === 0) {
    compilation.problems.add(document, 'spec.actions', 'no action is left: the rule has no effect');
    return undefined;
  }
  return {
    id: idOf(document),
    namespace: namespace === compilation.options.configNamespace ? undefined : namespace,
    ...(match === undefined ? {} : { match }),
    actions,
    requestHeaders,
    responseHeaders,
  };
}

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

function compileAction(
  compilation: Compilation,
  document: RuleDocument,
  index: number,
  { handlers, instances }: Parts,
): Action | undefined {
  const { handler: reference = '', instances: names = [], name = '' } = document.spec.actions?.[index] ?? {};
  const at = (...path: (string | number)[]): string => fieldPath(['spec', 'actions', index, ...path]);
  const handler = compilation.find(reference, document.namespace, HANDLER_KINDS, handlers);
  if (handler === undefined) {
    compilation.problems.counts.unsatisfiedActions++;
    compilation.problems.add(
      document,
      at('handler'),
      `handler ${JSON.stringify(reference)} does not exist or is wrong`,
    );
    return undefined;
  }
  const found = new Map<string, Instance>();
  names.forEach((text, position) => {
    const compiled = compilation.find(text, document.namespace, INSTANCE_KINDS, instances);
    const problem = instanceProblem(text, compiled, handler, found);
    if (problem !== undefined) compilation.problems.add(document, at('instances', position), problem);
    else if (compiled !== undefined) found.set(compiled.instance.id, compiled.instance);
  });
  if (found.size === 0) {
    compilation.problems.add(document, at('instances'), 'no instance is left: the action has no effect');
    return undefined;
  }
  return { ...(name === '' ? {} : { name }), handler: handler.handler, instances: [...found.values()] };
}

function instanceProblem(
  text: string,
  compiled: CompiledInstance | undefined,
  { handler, templates }: CompiledHandler,
  found: ReadonlyMap<string, Instance>,
): string | undefined {
  if (compiled === undefined) return `instance ${JSON.stringify(text)} does not exist or is wrong`;
  const { instance, template } = compiled;
  if (found.has(instance.id)) return `instance ${JSON.stringify(text)} is listed twice`;
  if (!templates.has(template)) return `handler ${handler.id} does not support instances of template ${template}`;
  const limited = handler.adapter === 'memquota' || handler.adapter === 'redisquota';
  if (!limited || handler.params.quotas.some(({ name }) => name === instance.id)) return undefined;
  return `handler ${handler.id} has no quota for ${instance.id}`;
}

/** Attributes for header operations: the outputs of an action with a name. */
function outputsOf({ name, instances }: Action): readonly (readonly [string, ValueType])[] {
  if (name === undefined) return [];
  return instances.flatMap(({ dynamic }) =>
    [...(dynamic?.output ?? [])].map(([field, type]) => [`${name}.output.${field}`, type] as const),
  );
}

function compileHeader(
  compilation: Compilation,
  document: RuleDocument,
  path: readonly (string | number)[],
  { name, values = [], operation = 'REPLACE' }: PolicyHeaderOperation,
  context: Context,
): HeaderOperation | undefined {
  const expressions = values.map((text, index) =>
    compilation.expression(document, [...path, 'values', index], text, { ...context, type: 'STRING' }),
  );
  const compiled = expressions.filter((each) => each !== undefined);
  return compiled.length === values.length ? { name: name.toLowerCase(), operation, values: compiled } : undefined;
}
