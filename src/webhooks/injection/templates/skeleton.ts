/** The parsed text of a rendered template, with the outputs where values belong. */
import { type Document, isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml';
import { CtlError, messageOf } from '../../../core/errors.ts';

/** Texts of the template and indices of values, in turn. */
export type Text = readonly (string | number)[];

export type Skeleton =
  | { readonly kind: 'constant'; readonly value: unknown }
  /** The value itself. */
  | { readonly kind: 'output'; readonly index: number }
  | { readonly kind: 'text'; readonly text: Text }
  | { readonly kind: 'list'; readonly entries: readonly Skeleton[] }
  | { readonly kind: 'fields'; readonly fields: readonly (readonly [Text, Skeleton])[] };

/** Against aliases that multiply. */
const MAX_NODES = 100_000;
const MAX_DEPTH = 64;

/**
 * Parses the rendered text.
 * @param split the parts of a scalar
 * @returns the skeleton, or the problem with its line in the rendered text
 */
export function parseSkeleton(
  text: string,
  split: (scalar: string) => Text,
): { readonly skeleton: Skeleton } | { readonly problem: string } {
  try {
    const document = parseDocument(text, { logLevel: 'error', merge: false });
    const [error] = document.errors;
    if (error === undefined) return { skeleton: skeletonOf(document, split) };
    const line = error.linePos?.[0].line;
    const [message = ''] = error.message.split('\n');
    return { problem: `line ${line ?? 1}: expected YAML: ${message.replace(/ at line \d+, column \d+:?$/, '')}` };
  } catch (failure) {
    return { problem: messageOf(failure) };
  }
}

function skeletonOf(document: Document, split: (scalar: string) => Text): Skeleton {
  let nodes = 0;
  const convert = (node: unknown, depth: number): Skeleton => {
    if (++nodes > MAX_NODES) throw new CtlError('invalid_argument', `text: expected at most ${MAX_NODES} values`);
    if (depth > MAX_DEPTH) throw new CtlError('invalid_argument', `text: expected at most ${MAX_DEPTH} levels`);
    if (isAlias(node)) return convert(node.resolve(document), depth + 1);
    if (isSeq(node)) return { kind: 'list', entries: node.items.map((item) => convert(item, depth + 1)) };
    if (isMap(node)) {
      return {
        kind: 'fields',
        fields: node.items.map(({ key, value }) => [fieldName(key, split), convert(value, depth + 1)] as const),
      };
    }
    return isScalar(node) ? scalar(node.value, node.type === 'PLAIN', split) : { kind: 'constant', value: undefined };
  };
  return convert(document.contents, 0);
}

function fieldName(key: unknown, split: (scalar: string) => Text): Text {
  const name = isScalar(key) ? key.value : key;
  if (typeof name === 'object') throw new CtlError('invalid_argument', 'text: expected strings as field names');
  return split(String(name));
}

function scalar(value: unknown, isPlain: boolean, split: (scalar: string) => Text): Skeleton {
  if (typeof value !== 'string') return { kind: 'constant', value };
  const text = split(value);
  const [only] = text;
  if (text.length === 1 && typeof only === 'number' && isPlain) return { kind: 'output', index: only };
  return text.every((part) => typeof part === 'string') ? { kind: 'constant', value } : { kind: 'text', text };
}
