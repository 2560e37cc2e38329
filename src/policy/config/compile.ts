/** Compiles all documents of the policy component: what is wrong is left out and reported, the rest is in force. */
import type { Vocabulary } from '../../expressions/index.ts';
import type { Handler, PolicyConfig, PolicyDocument, PolicyOptions } from '../types.ts';
import { vocabularyOf } from './attributes.ts';
import { Compilation } from './compilation.ts';
import { type CompiledHandler, compileHandler } from './handlers.ts';
import { type CompiledInstance, compileInstance } from './instances.ts';
import { idOf } from './references.ts';
import { compileRule } from './rules.ts';

export function compilePolicy(documents: Iterable<PolicyDocument>, options: PolicyOptions): PolicyConfig {
  const compilation = new Compilation(documents, options);
  const { problems } = compilation;
  const vocabulary = vocabularyOf(compilation);
  const handlers = handlersOf(compilation);
  const instances = instancesOf(compilation, vocabulary);
  const parts = { vocabulary, handlers, instances };
  const rules = compilation.documents('rule').flatMap((document) => compileRule(compilation, document, parts) ?? []);
  return {
    rules,
    handlers: new Map<string, Handler>([...handlers].map(([id, { handler }]) => [id, handler])),
    problems: problems.list,
    counts: { ...problems.counts, handlers: handlers.size, instances: instances.size, rules: rules.length },
  };
}

function handlersOf(compilation: Compilation): ReadonlyMap<string, CompiledHandler> {
  const found = new Map<string, CompiledHandler>();
  for (const document of compilation.documents('handler')) {
    const compiled = compileHandler(compilation, document);
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}

function instancesOf(compilation: Compilation, vocabulary: Vocabulary): ReadonlyMap<string, CompiledInstance> {
  const found = new Map<string, CompiledInstance>();
  for (const document of compilation.documents('instance')) {
    const compiled = compileInstance(compilation, document, vocabulary);
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}
