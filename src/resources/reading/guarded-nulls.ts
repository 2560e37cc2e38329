/** Nulls in place of a value that restricts: the document without the field would allow more than what was written. */
import type { Kind } from '../kinds/types.ts';
import { firstNull } from './nulls.ts';
import { isGuarded, leavesAllSelected, mayBeGuarded } from './unknown-fields.ts';

type Path = readonly (string | number)[];

const SELECTOR = 'workloadSelector';

/**
 * Path of the first null for which a document is refused; undefined when there is none.
 *
 * @param written the document's spec with its nulls
 * @param spec the same without nulls
 */
export function guardedNull(kind: Kind, written: unknown, spec: unknown): Path | undefined {
  const leavesAll = leavesAllSelected(spec);
  if (mayBeGuarded(kind)) return firstNull(written, [], (path) => isGuarded(kind, path) || leavesAll(path));
  if (!isObject(written)) return undefined;
  return firstNull(written[SELECTOR], [SELECTOR], leavesAll);
}

/** Path of the first null in the TLS settings of each ingress listener of a Sidecar. */
export function nullsOfIngressTls(written: unknown): Path[] {
  if (!isObject(written) || !Array.isArray(written.ingress)) return [];
  return written.ingress.flatMap((listener: unknown, index) => {
    if (!isObject(listener)) return [];
    const path = ['ingress', index, 'tls'];
    const found = listener.tls === null ? path : firstNull(listener.tls, path, () => true);
    return found === undefined ? [] : [found];
  });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
