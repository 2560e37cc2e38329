/** What the compilation of every kind needs: documents by kind, the vocabulary, problems, options. */
import { CtlError } from '../../core/errors.ts';
import {
  compileExpression,
  type Expression,
  LANGUAGES,
  type Language,
  type ValueType,
  type Vocabulary,
} from '../../expressions/index.ts';
import { type ContentOf, fieldPath, type PolicyKind } from '../../resources/index.ts';
import type { PolicyDocument, PolicyOptions } from '../types.ts';
import { Problems } from './problems.ts';
import { idOf, type Reference, visibleMeanings } from './references.ts';

/** Documents of a kind in a namespace; the configuration namespace has the limit, too. */
const MAX_DOCUMENTS = 1000;
const LANGUAGE_ANNOTATION = 'policy.mesh.io/lang';

export type TypedDocument<K extends PolicyKind> = PolicyDocument & { readonly kind: K; readonly spec: ContentOf<K> };

interface ExpressionContext {
  readonly vocabulary: Vocabulary;
  readonly language: Language;
  readonly type?: ValueType;
  /** To documents on which the vocabulary depends. */
  readonly references?: readonly Reference[];
}

export class Compilation {
  readonly options: PolicyOptions;
  readonly problems = new Problems();
  readonly #documents: readonly PolicyDocument[];
  readonly #beyond: PolicyDocument[] = [];

  constructor(documents: Iterable<PolicyDocument>, options: PolicyOptions) {
    this.options = options;
    const sorted = [...documents].sort((one, other) => (sortKey(one) < sortKey(other) ? -1 : 1));
    this.#documents = this.#withinLimits(sorted);
  }

  #withinLimits(sorted: readonly PolicyDocument[]): PolicyDocument[] {
    const counts = new Map<string, number>();
    return sorted.filter((document) => {
      const key = `${document.kind}/${document.namespace}`;
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      if (count <= MAX_DOCUMENTS) return true;
      this.problems.add(document, '', `expected at most ${MAX_DOCUMENTS} documents of this kind in a namespace`);
      this.#beyond.push(document);
      return false;
    });
  }

  /** Sorted by namespace and name. The schema of the kind has checked each spec. */
  documents<K extends PolicyKind>(kind: K): readonly TypedDocument<K>[] {
    return this.#documents.filter((document): document is TypedDocument<K> => document.kind === kind);
  }

  /** The rules that are not compiled, because their namespaces have more than the limit. */
  rulesBeyondLimit(): readonly TypedDocument<'rule'>[] {
    return this.#beyond.filter((document): document is TypedDocument<'rule'> => document.kind === 'rule');
  }

  /** The document that a reference means. */
  find<T>(text: string, namespace: string, kinds: ReadonlySet<string>, all: ReadonlyMap<string, T>): T | undefined {
    const { configNamespace } = this.options;
    for (const meaning of visibleMeanings(text, { namespace, configNamespace }, kinds)) {
      const found = all.get(idOf(meaning));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The language of a document's expressions; undefined, with a problem, if its annotation names none. */
  languageOf(document: PolicyDocument): Language | undefined {
    if (this.options.language !== undefined) return this.options.language;
    const written = document.annotations[LANGUAGE_ANNOTATION] ?? '';
    if (written === '') return 'CEXL';
    const language = LANGUAGES.find((each) => each === written);
    if (language === undefined) {
      const field = fieldPath(['metadata', 'annotations', LANGUAGE_ANNOTATION]);
      this.problems.add(document, field, `expected one of ${LANGUAGES.join(', ')}`);
    }
    return language;
  }

  /** Compiles an expression of a document; undefined, with a problem, if it is wrong. */
  expression(
    document: PolicyDocument,
    path: readonly (string | number)[],
    text: string,
    { vocabulary, language, type, references }: ExpressionContext,
  ): Expression | undefined {
    try {
      return compileExpression(text, { vocabulary, language, ...(type === undefined ? {} : { type }) });
    } catch (error) {
      if (!(error instanceof CtlError)) throw error;
      this.problems.add(document, fieldPath(['spec', ...path]), error.message, references);
      return undefined;
    }
  }
}

const sortKey = ({ kind, namespace, name }: PolicyDocument): string => `${kind}/${namespace}/${name}`;
