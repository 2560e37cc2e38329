/** The vocabulary: standard attributes, and those of attribute manifests. */
import type { ValueType, Vocabulary } from '../../expressions/index.ts';
import { fieldPath } from '../../resources/index.ts';
import type { Compilation } from './compilation.ts';
import { STANDARD_ATTRIBUTES } from './vocabulary.ts';

/** Attributes of all manifests. */
const MAX_ATTRIBUTES = 10_000;

/**
 * The type of an attribute is that of the standard, else that of the configuration namespace, else that of the first
 * manifest: manifests that differ are reported.
 */
export function vocabularyOf(compilation: Compilation): Vocabulary {
  const { configNamespace } = compilation.options;
  const manifests = compilation.documents('attributemanifest');
  const ours = manifests.filter(({ namespace }) => namespace === configNamespace);
  const vocabulary = new Map<string, ValueType>(STANDARD_ATTRIBUTES);
  for (const manifest of [...ours, ...manifests.filter((each) => !ours.includes(each))]) {
    for (const [name, { valueType }] of Object.entries(manifest.spec.attributes ?? {})) {
      const field = fieldPath(['spec', 'attributes', name, 'valueType']);
      const known = vocabulary.get(name);
      if (known !== undefined && known !== valueType) {
        compilation.problems.add(manifest, field, `expected ${known}, which the attribute has elsewhere`);
      } else if (vocabulary.size >= MAX_ATTRIBUTES) {
        compilation.problems.add(manifest, field, `expected at most ${MAX_ATTRIBUTES} attributes in the mesh`);
      } else {
        vocabulary.set(name, valueType);
      }
    }
  }
  compilation.problems.counts.attributes = vocabulary.size;
  return vocabulary;
}
