/** Changes of YAML documents that keep comments, order and spelling of everything else. */
import { Document, isAlias, isMap, isScalar, isSeq, type Node, visit } from 'yaml';
import type { JsonPatchOperation } from '../types.ts';

export type Path = readonly (string | number)[];

/** Strings that YAML 1.1, which other programs read, takes for booleans, numbers or times. */
const AMBIGUOUS = /^([yn]|yes|no|on|off|true|false|null|~|[-+]?[\d._:,][\d._:,xXeE+-]*|\d{4}-\d\d?-\d\d?.*)$/i;

/** Changes of the value at a path. */
export interface Edit {
  readonly path: Path;
  readonly operations: readonly JsonPatchOperation[];
}

/**
 * Changes a document.
 * @param whole its content after the changes
 */
export function editDocument(document: Document, edits: readonly Edit[], whole: unknown): void {
  // A change of an aliased value would change the others with it.
  const isEdited =
    !hasAliases(document) &&
    edits.every(({ path, operations }) => operations.every((operation) => applied(document, path, operation)));
  if (isEdited) return;
  document.contents = new Document(whole).contents;
  quoteAmbiguous(document.contents);
}

function hasAliases(document: Document): boolean {
  let found = false;
  visit(document, {
    Alias: () => {
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

/** False if the document has no such path. */
function applied(document: Document, path: Path, operation: JsonPatchOperation): boolean {
  const steps = operation.path
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = steps.pop();
  const parent: unknown = document.getIn([...path, ...steps], true);
  if (last === undefined) return false;
  const value = 'value' in operation ? document.createNode(operation.value) : undefined;
  quoteAmbiguous(value);
  if (isSeq(parent)) {
    const index = Number(last);
    if (operation.op === 'add') parent.items.splice(index, 0, value);
    else if (operation.op === 'remove') parent.items.splice(index, 1);
    else parent.items[index] = value;
    return true;
  }
  if (!isMap(parent)) return false;
  if (operation.op === 'remove') return parent.delete(last);
  parent.set(last, value);
  return true;
}

function quoteAmbiguous(node: unknown): void {
  if (node === undefined || node === null) return;
  visit(node as Node, {
    Scalar: (_key, scalar) => {
      if (typeof scalar.value === 'string' && AMBIGUOUS.test(scalar.value)) scalar.type = 'QUOTE_DOUBLE';
    },
  });
}

/** Offset of the value at a path, or of the closest one around it. */
export function offsetOf(document: Document, path: Path): number | undefined {
  for (let length = path.length; length >= 0; length--) {
    const node: unknown = length === 0 ? document.contents : document.getIn(path.slice(0, length), true);
    if ((isScalar(node) || isMap(node) || isSeq(node) || isAlias(node)) && node.range) return node.range[0];
  }
  return undefined;
}

/** Steps of a field such as `metadata.annotations[a.b/c]` or `spec.containers[0].name`. */
export function stepsOf(field: string): Path {
  return [...field.matchAll(/\[("(?:[^"\\]|\\.)*"|[^\]]*)\]|[^.[\]]+/g)].map(([whole, inside]) => {
    if (inside === undefined) return whole;
    if (/^\d+$/.test(inside)) return Number(inside);
    return inside.startsWith('"') ? unquoted(inside) : inside;
  });
}

function unquoted(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}
