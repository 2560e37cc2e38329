/** The contract of translators: from documents of other APIs to documents of the mesh's own kinds. */
import type { ResourceChange } from '../resources/index.ts';

/**
 * Derives documents from those of another API. Pure and deterministic: what it derives depends only on the documents in
 * force, not on the order in which they arrived.
 *
 * Names of derived documents contain `~`, which no name in Kubernetes may have, so that they are never those of users'
 * documents.
 */
export interface Translator {
  /**
   * @param changes of the documents in force; those of kinds that the translator does not read are skipped
   * @returns the changes of the derived documents, without the given ones
   */
  apply(changes: readonly ResourceChange[]): readonly ResourceChange[];
}

export interface TranslatorOptions {
  /** The cluster's domain: a Service's host is `<name>.<namespace>.svc.<domain>`. */
  readonly domain: string;
}
