/** Judges the documents of a file as the validating webhook does, with the lines of their fields. */
import { type Document, LineCounter, type ParsedNode, parseAllDocuments } from 'yaml';
import { messageOf } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import { checkDocument, type DocumentLimits } from '../resources/index.ts';

/** Aliases that one document may expand to: the library's protection against exponential documents. */
const MAX_ALIASES = 100;

export interface CheckedLine {
  readonly level: 'error' | 'warning';
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  /** `Kind/namespace/name`, as far as the document has them. */
  readonly resource: string;
  readonly field: string;
  readonly message: string;
}

export interface CheckedFile {
  readonly lines: readonly CheckedLine[];
  /** Documents of kinds of a mesh. */
  readonly checked: number;
  /** Documents of other kinds, which are not judged. */
  readonly others: number;
}

export function checkFile(file: string, text: string, limits: DocumentLimits): CheckedFile {
  const counter = new LineCounter();
  const parsed = parseAllDocuments(text, { lineCounter: counter, logLevel: 'error', merge: true });
  const lines: CheckedLine[] = [];
  let [checked, others] = [0, 0];
  const lineAt = (offset: number): number => counter.linePos(offset).line;
  for (const document of 'empty' in parsed ? [] : parsed) {
    const start = document.contents?.range?.[0] ?? document.range[0];
    const [error] = document.errors;
    const content =
      error === undefined ? contentOf(document) : { problem: `expected YAML: ${firstLine(error.message)}` };
    if ('problem' in content) {
      const line = lineAt(error?.pos[0] ?? start);
      lines.push({ level: 'error', file, line, resource: '', field: '', message: content.problem });
      continue;
    }
    // An empty document.
    if (content.value === null) continue;
    const judged = checkDocument(content.value, limits);
    if (judged === undefined) others += 1;
    else checked += 1;
    const add = (level: CheckedLine['level']) => (found: { readonly field: string; readonly message: string }) => {
      const line = lineAt(offsetOf(document, found.field) ?? start);
      lines.push({ level, file, line, resource: nameOf(content.value), ...found });
    };
    judged?.errors.forEach(add('error'));
    judged?.warnings.forEach(add('warning'));
  }
  return { lines, checked, others };
}

function contentOf(document: Document.Parsed): { readonly value: unknown } | { readonly problem: string } {
  try {
    return { value: document.toJS({ maxAliasCount: MAX_ALIASES }) as unknown };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

const firstLine = (text: string): string => text.split('\n')[0] ?? '';

/** Where a field such as `spec.http[0].route` begins, or the innermost part of its path that the document has. */
function offsetOf(document: Document.Parsed, field: string): number | undefined {
  const path = [...field.matchAll(/\["([^"]+)"\]|\[(\d+)\]|([^.[\]]+)/g)].map(([, quoted, index, name]) =>
    index === undefined ? (quoted ?? name ?? '') : Number(index),
  );
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true) as ParsedNode | undefined;
    if (node?.range) return node.range[0];
  }
  return undefined;
}

function nameOf(value: unknown): string {
  if (!isObject(value)) return '';
  const { namespace, name } = isObject(value.metadata) ? value.metadata : {};
  return [value.kind, namespace, name].filter((part) => typeof part === 'string' && part !== '').join('/');
}
