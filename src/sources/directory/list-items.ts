/** The resources of one YAML document: itself, or the items of a List. */
import { isObject } from '../../core/objects.ts';
import type { Slices } from '../../core/slices.ts';
import {
  type DocumentLimits,
  type Locate,
  type ParsedResource,
  parseResource,
  type ResourceOrigin,
  resembles,
  salvaged,
} from '../../resources/index.ts';

/** Maximum nesting of lists, which are flattened as in kubectl. An anchor could make a list an item of itself. */
const MAX_LISTS = 4;

export interface DocumentLocation {
  readonly origin: ResourceOrigin;
  /** Index of the document in its file, to identify it when it has no name. */
  readonly index: number;
  /** The origin of the document. */
  readonly text: string;
  readonly limits: DocumentLimits;
  /** Locates the lines of values below a path of the document. */
  readonly locate: (prefix: readonly (string | number)[]) => Locate;
}

const ENVELOPE: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

type Path = readonly (string | number)[];

/** Yields after each item. */
export function* readItems(raw: unknown, location: DocumentLocation, path: Path = []): Slices<ParsedResource[]> {
  const items = path.length > 2 * MAX_LISTS ? undefined : itemsOf(raw);
  if (items === undefined) return [readOne(raw, location, path)];
  const found: ParsedResource[] = [];
  for (const [position, item] of items.entries()) {
    const at = [...path, 'items', position];
    const line = location.locate(at)([]) ?? location.origin.line;
    const origin = line === undefined ? location.origin : { ...location.origin, line };
    found.push(...(yield* readItems(item, { ...location, origin, index: location.index + found.length }, at)));
    yield;
  }
  return found;
}

/** Items of `kind: List` and of typed lists such as `ServiceList`. */
function itemsOf(raw: unknown): readonly unknown[] | undefined {
  if (!isList(raw)) return undefined;
  return raw.items === null ? [] : Array.isArray(raw.items) ? raw.items : undefined;
}

function isList(raw: unknown): raw is { readonly kind: string; readonly items?: unknown } {
  if (typeof raw !== 'object' || raw === null || !('kind' in raw) || typeof raw.kind !== 'string') return false;
  return /list$/i.test(raw.kind) || resembles(raw.kind, 'List');
}

/** Whether a `v1` List, which may contain any kind, has no list of items in `items`. */
function isBrokenList(raw: unknown): boolean {
  if (!isList(raw) || ('apiVersion' in raw && raw.apiVersion !== 'v1')) return false;
  return Object.keys(raw).some((field) => !ENVELOPE.has(field));
}

function readOne(raw: unknown, location: DocumentLocation, path: Path): ParsedResource {
  const { origin, index, text, locate, limits } = location;
  if (isObject(raw) && !isBrokenList(raw)) return parseResource(raw, origin, locate(path), { index, limits });
  const found: ParsedResource = isObject(raw)
    ? { problem: { id: `${origin.file}#${index}`, origin, field: 'items', message: 'required, expected a list' } }
    : parseResource(raw, origin, locate(path), { index, limits });
  // None of its items can be read, and policies among them must not count as deleted.
  const substitutes = salvaged(typeof raw === 'string' ? raw : text);
  return 'problem' in found && substitutes !== undefined ? { problem: { ...found.problem, substitutes } } : found;
}
