/** The contract of translators, which turn documents of other APIs into documents of the mesh's own kinds. */
import type { ResourceChange } from '../resources/index.ts';

/**
 * Derives documents from those of another API. Pure and deterministic: what it derives depends only on the documents in
 * force, not on the order in which they arrived.
 *
 * Names of derived documents contain `~`, which is invalid in Kubernetes, so they differ from all names of users'
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
