/** What differs between two messages, field by field. */

export interface Difference {
  /** `virtualHosts[0].domains` */
  readonly path: string;
  /** Undefined: it does not have the field. */
  readonly here: unknown;
  readonly there: unknown;
}

/** More differences than a person reads. */
const MAX = 200;

export function differences(here: unknown, there: unknown, path = '', found: Difference[] = []): Difference[] {
  if (found.length >= MAX || JSON.stringify(here) === JSON.stringify(there)) return found;
  if (!isObject(here) || !isObject(there) || Array.isArray(here) !== Array.isArray(there)) {
    found.push({ path, here, there });
    return found;
  }
  for (const key of new Set([...Object.keys(here), ...Object.keys(there)])) {
    const step = Array.isArray(here) ? `[${key}]` : path === '' ? key : `.${key}`;
    differences(here[key], there[key], path + step, found);
  }
  return found;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
