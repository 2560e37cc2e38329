/** Instances of the templates inside: expressions by field, compiled. */
import type {
  Attributes,
  Duration,
  Expression,
  Language,
  Value,
  ValueType,
  Vocabulary,
} from '../../expressions/index.ts';
import { fieldPath, templateParams } from '../../resources/index.ts';
import type { Instance, InstanceValue, Variety } from '../types.ts';
import type { Compilation, TypedDocument } from './compilation.ts';
import { instanceId } from './references.ts';

type Template = NonNullable<TypedDocument<'instance'>['spec']['compiledTemplate']>;

/** What instances of the templates inside are for. */
export const VARIETIES: Readonly<Record<Template, Variety>> = {
  checknothing: 'CHECK',
  listentry: 'CHECK',
  logentry: 'REPORT',
  metric: 'REPORT',
  quota: 'QUOTA',
};

/** An instance and the template that decides which handlers accept it: its name inside, or its ID. */
export interface CompiledInstance {
  readonly instance: Instance;
  readonly template: string;
}

/** Compiles the expressions of one document. */
class Fields {
  readonly #compilation: Compilation;
  readonly #document: TypedDocument<'instance'>;
  readonly #vocabulary: Vocabulary;
  readonly #language: Language;
  readonly #reads = new Set<string>();
  failed = false;

  constructor(
    compilation: Compilation,
    document: TypedDocument<'instance'>,
    { vocabulary, language }: { vocabulary: Vocabulary; language: Language },
  ) {
    this.#compilation = compilation;
    this.#document = document;
    this.#vocabulary = vocabulary;
    this.#language = language;
  }

  get reads(): readonly string[] {
    return [...this.#reads].sort();
  }

  /** An expression of one of the types; a constant without meaning if it is wrong. */
  one(path: readonly string[], text: string, types?: readonly ValueType[]): Expression {
    const options = { vocabulary: this.#vocabulary, language: this.#language };
    const expression = this.#compilation.expression(this.#document, ['params', ...path], text, options);
    if (expression === undefined) return this.#wrong();
    if (types !== undefined && !types.includes(expression.type)) {
      const field = fieldPath(['spec', 'params', ...path]);
      const message = `expected an expression of type ${types.join(' or ')}, got ${expression.type}`;
      this.#compilation.problems.add(this.#document, field, message);
      return this.#wrong();
    }
    for (const name of expression.reads) this.#reads.add(name);
    return expression;
  }

  #wrong(): Expression {
    this.failed = true;
    return { type: 'STRING', reads: [], evaluate: () => '' };
  }

  /** Expressions by key. */
  map(field: string, texts: Readonly<Record<string, string>>): (attributes: Attributes) => ReadonlyMap<string, Value> {
    const all = Object.entries(texts).map(([key, text]) => [key, this.one([field, key], text)] as const);
    return (attributes) => new Map(all.map(([key, expression]) => [key, expression.evaluate(attributes)]));
  }
}

/** Expressions of a document: more than real ones have. */
const MAX_FIELDS = 256;

/** Undefined, with problems, if something is wrong. */
export function compileInstance(
  compilation: Compilation,
  document: TypedDocument<'instance'>,
  vocabulary: Vocabulary,
): CompiledInstance | undefined {
  const template = document.spec.compiledTemplate;
  const language = compilation.languageOf(document);
  if (template === undefined || language === undefined) return undefined;
  const fields = new Fields(compilation, document, { vocabulary, language });
  const build = builderOf(compilation, document, template, fields);
  if (build === undefined || fields.failed) return undefined;
  const instance: Instance = { id: instanceId(document), variety: VARIETIES[template], reads: fields.reads, build };
  return { instance, template };
}

function builderOf(
  compilation: Compilation,
  document: TypedDocument<'instance'>,
  template: Template,
  fields: Fields,
): Instance['build'] | undefined {
  if (template === 'checknothing') return () => ({ template });
  const read = templateParams(template, document.spec.params);
  if ('errors' in read) {
    for (const { path, message } of read.errors) {
      compilation.problems.add(document, fieldPath(['spec', 'params', ...path]), message);
    }
    return undefined;
  }
  const { params } = read;
  const count = Object.keys('variables' in params ? params.variables : 'dimensions' in params ? params.dimensions : {});
  if (count.length > MAX_FIELDS) {
    compilation.problems.add(document, 'spec.params', `expected at most ${MAX_FIELDS} fields, got ${count.length}`);
    return undefined;
  }
  return BUILDERS[template](params as never, fields);
}

type Params<T extends Template> = Extract<ReturnType<typeof templateParams<T>>, { params: unknown }>['params'];

const BUILDERS: { readonly [T in Exclude<Template, 'checknothing'>]: (p: Params<T>, f: Fields) => Instance['build'] } =
  {
    listentry({ value }, fields) {
      const entry = fields.one(['value'], value, ['STRING', 'IP_ADDRESS']);
      return (attributes) => ({ template: 'listentry', value: entry.evaluate(attributes) });
    },
    quota({ dimensions }, fields) {
      const all = fields.map('dimensions', dimensions);
      return (attributes) => ({ template: 'quota', dimensions: all(attributes) });
    },
    logentry({ variables, timestamp = '', severity }, fields) {
      const all = fields.map('variables', variables);
      const level = fields.one(['severity'], severity, ['STRING']);
      const time = timestamp === '' ? undefined : fields.one(['timestamp'], timestamp, ['TIMESTAMP']);
      return (attributes): InstanceValue => ({
        template: 'logentry',
        variables: all(attributes),
        severity: level.evaluate(attributes) as string,
        ...(time === undefined ? {} : { timestamp: time.evaluate(attributes) }),
      });
    },
    metric({ value, dimensions }, fields) {
      const amount = fields.one(['value'], value, ['INT64', 'DOUBLE', 'DURATION']);
      const all = fields.map('dimensions', dimensions);
      return (attributes) => ({
        template: 'metric',
        value: amountOf(amount.evaluate(attributes)),
        dimensions: all(attributes),
      });
    },
  };

/** Durations are measured in seconds. */
function amountOf(value: Value): bigint | number {
  return typeof value === 'bigint' || typeof value === 'number' ? value : Number((value as Duration).nanos) / 1e9;
}
