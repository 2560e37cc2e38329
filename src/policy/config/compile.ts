/** Compiles all documents of the policy component: what is wrong is left out and reported, the rest is in force. */
import type { Vocabulary } from '../../expressions/index.ts';
import type { Handler, PolicyConfig, PolicyDocument, PolicyOptions } from '../types.ts';
import { vocabularyOf } from './attributes.ts';
import { Compilation } from './compilation.ts';
import {
  adaptersOf,
  type CompiledAdapter,
  compileRemoteHandler,
  compileRemoteInstance,
  templatesOf,
} from './dynamic/remote.ts';
import type { CompiledTemplate } from './dynamic/template.ts';
import { type CompiledHandler, compileHandler } from './handlers.ts';
import { type CompiledInstance, compileInstance } from './instances.ts';
import { idOf } from './references.ts';
import { compileRule } from './rules.ts';

export function compilePolicy(documents: Iterable<PolicyDocument>, options: PolicyOptions): PolicyConfig {
  const compilation = new Compilation(documents, options);
  const { problems } = compilation;
  const vocabulary = vocabularyOf(compilation);
  const templates = templatesOf(compilation);
  const adapters = adaptersOf(compilation, templates);
  const handlers = handlersOf(compilation, adapters);
  const instances = instancesOf(compilation, { vocabulary, templates });
  const parts = { vocabulary, handlers, instances };
  const rules = compilation.documents('rule').flatMap((document) => compileRule(compilation, document, parts) ?? []);
  return {
    rules,
    handlers: new Map<string, Handler>([...handlers].map(([id, { handler }]) => [id, handler])),
    problems: problems.list,
    counts: {
      ...problems.counts,
      adapters: adapters.size,
      handlers: handlers.size,
      instances: instances.size,
      rules: rules.length,
      templates: templates.size,
    },
  };
}

function handlersOf(
  compilation: Compilation,
  adapters: ReadonlyMap<string, CompiledAdapter>,
): ReadonlyMap<string, CompiledHandler> {
  const found = new Map<string, CompiledHandler>();
  for (const document of compilation.documents('handler')) {
    const compiled =
      document.spec.compiledAdapter === undefined
        ? compileRemoteHandler(compilation, document, adapters)
        : compileHandler(compilation, document);
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}

function instancesOf(
  compilation: Compilation,
  parts: { readonly vocabulary: Vocabulary; readonly templates: ReadonlyMap<string, CompiledTemplate> },
): ReadonlyMap<string, CompiledInstance> {
  const found = new Map<string, CompiledInstance>();
  for (const document of compilation.documents('instance')) {
    const compiled =
      document.spec.compiledTemplate === undefined
        ? compileRemoteInstance(compilation, document, parts)
        : compileInstance(compilation, document, parts.vocabulary);
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}
