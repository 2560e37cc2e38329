/** The maximum nesting of a document: code that walks documents is recursive. */
import type { ValidationError } from './issues.ts';

/** As in requests to webhooks: types of the API server end below 30 levels, patches for Envoy below 100. */
export const MAX_DEPTH = 200;
/** Maximum number of steps of the path in a message: its beginning is enough to find the value. */
const MAX_STEPS = 8;

/** The error of a document that is nested too deep; undefined for others. */
export function nestedTooDeep(document: unknown): ValidationError | undefined {
  const path = pathBelow(document, MAX_DEPTH);
  if (path === undefined) return undefined;
  return { path: path.reverse().slice(0, MAX_STEPS), message: `expected at most ${MAX_DEPTH} levels of nesting` };
}

/** The path, last step first, to a value that is nested too deep; undefined if there is none. */
function pathBelow(value: unknown, levels: number): (string | number)[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (levels === 0) return [];
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const below = pathBelow(value[index], levels - 1);
      if (below !== undefined) return added(below, index);
    }
    return undefined;
  }
  const entries = value as Record<string, unknown>;
  for (const key in entries) {
    const below = pathBelow(entries[key], levels - 1);
    if (below !== undefined) return added(below, key);
  }
  return undefined;
}

function added(path: (string | number)[], step: string | number): (string | number)[] {
  path.push(step);
  return path;
}
