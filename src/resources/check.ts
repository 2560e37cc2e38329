/** Checks a document for its author: reports all errors, and valid settings that are likely mistakes. */
import { kindOf } from './kinds/aliases.ts';
import type { Kind } from './kinds/types.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { fieldPath, type ValidationError } from './parsing/issues.ts';
import { readDocument } from './parsing/parse.ts';
import { likelyMistakes } from './warnings/likely-mistakes.ts';

/** A message about a field; an empty field is the whole document. */
export interface FieldMessage {
  readonly field: string;
  readonly message: string;
}

export interface CheckedDocument {
  /** Undefined where it cannot be read. */
  readonly kind: Kind | undefined;
  /** Empty if the mesh accepts the document. */
  readonly errors: readonly FieldMessage[];
  /** Set if a stored document with these errors is not refused. */
  readonly stored?: 'in force' | 'closed';
  readonly warnings: readonly FieldMessage[];
}

/**
 * Checks like `parseResource`, and also refuses mistakes that are tolerated in stored documents only, because the
 * author can still correct them. Undefined for documents of kinds that the mesh does not read.
 */
export function checkDocument(document: unknown, limits = DEFAULT_LIMITS): CheckedDocument | undefined {
  const read = readDocument(document, { source: 'check' }, limits);
  if ('ignored' in read) return undefined;
  if ('errors' in read) return { kind: kindIn(document), errors: read.errors.map(fieldMessage), warnings: [] };
  const { resource, warnings } = read;
  const mistakes = warnings.filter((warning) => warning.stored !== undefined);
  if (mistakes.length > 0) {
    const stored = mistakes.some((mistake) => mistake.stored === 'closed') ? 'closed' : 'in force';
    return { kind: resource.kind, errors: mistakes.map(fieldMessage), stored, warnings: [] };
  }
  const likely = likelyMistakes(resource).map(({ path, message }) => ({ path: ['spec', ...path], message }));
  return { kind: resource.kind, errors: [], warnings: [...warnings, ...likely].map(fieldMessage) };
}

function fieldMessage({ path, message }: ValidationError): FieldMessage {
  return { field: fieldPath(path), message };
}

function kindIn(document: unknown): Kind | undefined {
  if (typeof document !== 'object' || document === null) return undefined;
  const { apiVersion, kind } = document as Readonly<Record<string, unknown>>;
  return typeof apiVersion === 'string' && typeof kind === 'string' ? kindOf(apiVersion, kind) : undefined;
}
