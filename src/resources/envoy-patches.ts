/**
 * Which patches of EnvoyFilters this version applies: the operations of Istio 1.7, and two newer operations that
 * replace filters and lists.
 */
import type { ValidationError } from './parsing/issues.ts';
import type { EnvoyConfigPatch } from './schema/envoy-filter.ts';

type ApplyTo = EnvoyConfigPatch['applyTo'];
type Operation = EnvoyConfigPatch['patch']['operation'];

const MERGE = ['MERGE', 'MERGE_AND_REPLACE_LIST'] as const;
const INSERT = ['INSERT_FIRST', 'INSERT_BEFORE', 'INSERT_AFTER'] as const;
const RESOURCE: ReadonlySet<Operation> = new Set([...MERGE, 'ADD', 'REMOVE']);
const ORDERED: ReadonlySet<Operation> = new Set([...RESOURCE, ...INSERT]);
const FILTERS: ReadonlySet<Operation> = new Set([...ORDERED, 'REPLACE']);

const OPERATIONS: Readonly<Partial<Record<ApplyTo, ReadonlySet<Operation>>>> = {
  CLUSTER: RESOURCE,
  EXTENSION_CONFIG: new Set(['ADD']),
  LISTENER: RESOURCE,
  FILTER_CHAIN: RESOURCE,
  NETWORK_FILTER: FILTERS,
  HTTP_FILTER: FILTERS,
  LISTENER_FILTER: FILTERS,
  ROUTE_CONFIGURATION: new Set(MERGE),
  VIRTUAL_HOST: RESOURCE,
  HTTP_ROUTE: ORDERED,
};

/**
 * Maximum size of a value that is merged into many resources: with ten thousand resources, its memory is needed ten
 * thousand times.
 */
export const MAX_VALUE_BYTES = 64 * 1024;

/** Whether the value of a patch is merged into many resources. An added cluster or listener exists only once. */
export function isMergedIntoMany(applyTo: unknown, operation: unknown): boolean {
  return operation !== 'ADD' || (applyTo !== 'CLUSTER' && applyTo !== 'LISTENER' && applyTo !== 'EXTENSION_CONFIG');
}

/**
 * @param bytes size of the value, if known
 */
export function valueTooLarge(bytes?: number): string {
  const got = bytes === undefined ? '' : `; got ${bytes}`;
  return `expected at most ${MAX_VALUE_BYTES} bytes, because it is merged into many resources${got}`;
}

/**
 * Why a patch is not applied: the first field that this version does not act on, with its path in the patch. Undefined
 * for a patch that is applied. A patch with a condition that cannot be checked is not applied anywhere.
 */
export function unappliedPatch({ applyTo, match, patch }: EnvoyConfigPatch): ValidationError | undefined {
  if (match?.context === 'WAYPOINT') {
    return { path: ['match', 'context'], message: 'waypoint proxies are not supported: the patch is not applied' };
  }
  const operations = OPERATIONS[applyTo];
  const message = 'not supported in this version: the patch is not applied';
  if (applyTo === 'BOOTSTRAP') {
    const instead = 'MESH_BOOTSTRAP_OVERRIDE of ctl-agent names a file that is merged into the bootstrap';
    return { path: ['applyTo'], message: `${message}; ${instead}` };
  }
  if (operations === undefined) return { path: ['applyTo'], message };
  if (!operations.has(patch.operation)) return { path: ['patch', 'operation'], message };
  return undefined;
}

/** Targets whose additions have a class. */
const CLASSIFIED: ReadonlySet<ApplyTo> = new Set(['NETWORK_FILTER', 'HTTP_FILTER']);

/** A field of a patch that is applied without effect; undefined where there is none. */
export function ineffectiveField({ applyTo, patch }: EnvoyConfigPatch): ValidationError | undefined {
  if ((patch.filterClass ?? 'UNSPECIFIED') === 'UNSPECIFIED') return undefined;
  if (CLASSIFIED.has(applyTo) && patch.operation === 'ADD') return undefined;
  const message = 'no effect: expected only with operation ADD of a NETWORK_FILTER or HTTP_FILTER';
  return { path: ['patch', 'filterClass'], message };
}
