/** The vocabularies: standard attributes, and those of attribute manifests. */
import type { ValueType, Vocabulary } from '../../expressions/index.ts';
import { fieldPath } from '../../resources/index.ts';
import type { Compilation, TypedDocument } from './compilation.ts';
import { STANDARD_ATTRIBUTES } from './vocabulary.ts';

/** Attributes of all manifests of a namespace. */
const MAX_ATTRIBUTES = 10_000;

/**
 * The attributes that documents of a namespace may name: the standard ones, those of the configuration namespace, and
 * those of the namespace itself, so that no namespace can change what the expressions of another one mean.
 */
export class Vocabularies {
  readonly #shared: Vocabulary;
  readonly #own = new Map<string, Vocabulary>();

  /** Counts the attributes, and reports those that have another type already. */
  constructor(compilation: Compilation) {
    const { configNamespace } = compilation.options;
    const manifests = Map.groupBy(compilation.documents('attributemanifest'), ({ namespace }) => namespace);
    this.#shared = extended(compilation, STANDARD_ATTRIBUTES, manifests.get(configNamespace) ?? []);
    manifests.delete(configNamespace);
    let attributes = this.#shared.size;
    for (const [namespace, own] of manifests) {
      const vocabulary = extended(compilation, this.#shared, own);
      this.#own.set(namespace, vocabulary);
      attributes += vocabulary.size - this.#shared.size;
    }
    compilation.problems.counts.attributes = attributes;
  }

  of(namespace: string): Vocabulary {
    return this.#own.get(namespace) ?? this.#shared;
  }
}

function extended(
  compilation: Compilation,
  known: Vocabulary,
  manifests: readonly TypedDocument<'attributemanifest'>[],
): Vocabulary {
  const vocabulary = new Map<string, ValueType>(known);
  for (const manifest of manifests) {
    for (const [name, { valueType }] of Object.entries(manifest.spec.attributes ?? {})) {
      const field = fieldPath(['spec', 'attributes', name, 'valueType']);
      const type = vocabulary.get(name);
      if (type !== undefined && type !== valueType) {
        compilation.problems.add(manifest, field, `expected ${type}, which the attribute has elsewhere`);
      } else if (vocabulary.size - known.size >= MAX_ATTRIBUTES) {
        compilation.problems.add(manifest, field, `expected at most ${MAX_ATTRIBUTES} attributes in a namespace`);
      } else {
        vocabulary.set(name, valueType);
      }
    }
  }
  return vocabulary;
}
