/** Compiles all documents of the policy component: what is wrong is left out and reported, the rest is in force. */
import type { Handler, PolicyConfig, PolicyDocument, PolicyOptions, Rule, Variety } from '../types.ts';
import { Vocabularies } from './attributes.ts';
import { Compilation } from './compilation.ts';
import {
  adaptersOf,
  type CompiledAdapter,
  compileRemoteHandler,
  compileRemoteInstance,
  remoteVariety,
  templatesOf,
} from './dynamic/remote.ts';
import type { CompiledTemplate } from './dynamic/template.ts';
import { type CompiledHandler, compileHandler } from './handlers.ts';
import { type CompiledInstance, compileInstance, VARIETIES } from './instances.ts';
import { idOf } from './references.ts';
import { compileRule, type Parts, ruleBeyondLimit } from './rules.ts';

export function compilePolicy(documents: Iterable<PolicyDocument>, options: PolicyOptions): PolicyConfig {
  const steps = compilePolicySteps(documents, options);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** The same, with interruptions between documents. */
export function* compilePolicySteps(
  documents: Iterable<PolicyDocument>,
  options: PolicyOptions,
): Generator<undefined, PolicyConfig> {
  const compilation = new Compilation(documents, options);
  const { problems } = compilation;
  const vocabularies = new Vocabularies(compilation);
  const templates = yield* templatesOf(compilation);
  const adapters = yield* adaptersOf(compilation, templates);
  const handlers = yield* handlersOf(compilation, adapters);
  const { instances, varieties } = yield* instancesOf(compilation, { vocabularies, templates });
  const rules: Rule[] = [];
  for (const document of compilation.documents('rule')) {
    yield undefined;
    const vocabulary = vocabularies.of(document.namespace);
    const rule = compileRule(compilation, document, { vocabulary, handlers, instances, varieties });
    if (rule !== undefined) rules.push(rule);
  }
  rules.push(...(yield* rulesBeyondLimit(compilation, { handlers, instances, varieties })));
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

/** One for each namespace with a rule beyond its limit that decides: requests of the namespace are refused. */
function* rulesBeyondLimit(compilation: Compilation, parts: Omit<Parts, 'vocabulary'>): Generator<undefined, Rule[]> {
  const found = new Map<string, Rule>();
  for (const document of compilation.rulesBeyondLimit()) {
    yield undefined;
    if (found.has(document.namespace)) continue;
    const rule = ruleBeyondLimit(compilation, document, parts);
    if (rule !== undefined) found.set(document.namespace, rule);
  }
  return [...found.values()];
}

function* handlersOf(
  compilation: Compilation,
  adapters: ReadonlyMap<string, CompiledAdapter>,
): Generator<undefined, ReadonlyMap<string, CompiledHandler>> {
  const found = new Map<string, CompiledHandler>();
  for (const document of compilation.documents('handler')) {
    yield undefined;
    const compiled =
      document.spec.compiledAdapter === undefined
        ? compileRemoteHandler(compilation, document, adapters)
        : compileHandler(compilation, document);
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}

function* instancesOf(
  compilation: Compilation,
  parts: { readonly vocabularies: Vocabularies; readonly templates: ReadonlyMap<string, CompiledTemplate> },
): Generator<undefined, Pick<Parts, 'instances' | 'varieties'>> {
  const instances = new Map<string, CompiledInstance>();
  const varieties = new Map<string, Variety>();
  for (const document of compilation.documents('instance')) {
    yield undefined;
    const { compiledTemplate } = document.spec;
    const variety =
      compiledTemplate === undefined
        ? remoteVariety(compilation, document, parts.templates)
        : VARIETIES[compiledTemplate];
    if (variety !== undefined) varieties.set(idOf(document), variety);
    const vocabulary = parts.vocabularies.of(document.namespace);
    const compiled =
      compiledTemplate === undefined
        ? compileRemoteInstance(compilation, document, { vocabulary, templates: parts.templates })
        : compileInstance(compilation, document, vocabulary);
    if (compiled !== undefined) instances.set(idOf(document), compiled);
  }
  return { instances, varieties };
}
