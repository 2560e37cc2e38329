/**
 * Checks limits on the plain data of a document, before validation: schemas take far longer for a list of 40,000 wrong
 * entries than counting them. `validate/` counts the resulting configuration, such as hosts times routes; here a
 * document is refused only if it exceeds the same limits in any case.
 */
import { isMergedIntoMany, MAX_VALUE_BYTES, valueTooLarge } from '../envoy-patches.ts';
import type { Kind } from '../kinds/types.ts';
import { beyondLimit, type DocumentLimit, type DocumentLimits } from '../limits.ts';
import type { ValidationError } from './issues.ts';

interface LimitedList {
  /** Steps from the spec to the list. */
  readonly list: readonly string[];
  /** Field of the entries whose lists are counted together, in place of the entries. */
  readonly of?: string;
  readonly limit: DocumentLimit;
}

const ROUTES: readonly LimitedList[] = ['http', 'tls', 'tcp'].flatMap((field): LimitedList[] => [
  { list: [field], limit: 'routes' },
  { list: [field], of: 'match', limit: 'matches' },
  { list: [field], of: 'route', limit: 'destinations' },
]);

const LISTS: Readonly<Partial<Record<Kind, readonly LimitedList[]>>> = {
  AuthorizationPolicy: [{ list: ['rules'], limit: 'rules' }],
  DestinationRule: [
    { list: ['subsets'], limit: 'subsets' },
    { list: ['trafficPolicy', 'portLevelSettings'], limit: 'portSettings' },
  ],
  EnvoyFilter: [{ list: ['configPatches'], limit: 'configPatches' }],
  Gateway: [
    { list: ['servers'], limit: 'servers' },
    { list: ['servers'], of: 'hosts', limit: 'serverHosts' },
  ],
  RequestAuthentication: [{ list: ['jwtRules'], limit: 'jwtRules' }],
  ServiceEntry: [
    { list: ['hosts'], limit: 'serviceHosts' },
    { list: ['addresses'], limit: 'serviceAddresses' },
    { list: ['endpoints'], limit: 'hostEndpoints' },
  ],
  Sidecar: [
    { list: ['ingress'], limit: 'ingressListeners' },
    { list: ['egress'], limit: 'egressListeners' },
    { list: ['egress'], of: 'hosts', limit: 'egressHosts' },
  ],
  VirtualService: [{ list: ['hosts'], limit: 'virtualServiceHosts' }, ...ROUTES],
};

type Plain = Readonly<Record<string, unknown>>;

/** The first limit that a document exceeds; undefined when there is none. */
export function beyondRawLimits(kind: Kind, document: Plain, limits: DocumentLimits): ValidationError | undefined {
  for (const field of ['labels', 'annotations'] as const) {
    const count = Object.keys(objectAt(objectAt(document.metadata)[field])).length;
    if (count > limits[field]) return excess(['metadata', field], field, limits[field], count);
  }
  for (const { list, of, limit } of LISTS[kind] ?? []) {
    const entries = listAt(list.reduce<unknown>((at, step) => objectAt(at)[step], document.spec));
    const count = of === undefined ? entries.length : countOf(entries, of);
    if (count > limits[limit]) return excess(['spec', ...list], limit, limits[limit], count);
  }
  return kind === 'EnvoyFilter' ? largeValue(listAt(objectAt(document.spec).configPatches)) : undefined;
}

function excess(path: readonly string[], name: DocumentLimit, limit: number, count: number): ValidationError {
  return { path, message: beyondLimit(name, limit, count) };
}

function countOf(entries: readonly unknown[], field: string): number {
  let count = 0;
  for (const entry of entries) count += listAt(objectAt(entry)[field]).length;
  return count;
}

function largeValue(patches: readonly unknown[]): ValidationError | undefined {
  for (const [index, entry] of patches.entries()) {
    const { applyTo, patch } = objectAt(entry);
    const { operation, value } = objectAt(patch);
    if (isMergedIntoMany(applyTo, operation) && sizeLeft(value, MAX_VALUE_TEXT) < 0) {
      return { path: ['spec', 'configPatches', index, 'patch', 'value'], message: valueTooLarge() };
    }
  }
  return undefined;
}

/**
 * Maximum number of characters of a value in JSON: larger than the limit in bytes, because the encoded value has no
 * field names.
 */
const MAX_VALUE_TEXT = 4 * MAX_VALUE_BYTES;
/** Characters that are added for each value, so that many short values are limited as well. */
const LEAST_TEXT = 4;

/** Subtracts the size of a value from the remaining characters; counting ends below 0. */
function sizeLeft(value: unknown, characters: number): number {
  let left = characters - LEAST_TEXT;
  if (typeof value === 'string') return left - value.length;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = sizeLeft(value[index], left);
    return left;
  }
  const fields = objectAt(value);
  for (const key in fields) {
    if (left < 0) break;
    left = sizeLeft(fields[key], left - key.length);
  }
  return left;
}

const NOTHING: Plain = {};

function objectAt(value: unknown): Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Plain) : NOTHING;
}

function listAt(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
