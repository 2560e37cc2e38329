/**
 * Validates EnvoyFilter: the match must fit the target of the patch, and the value must be valid for the message of the
 * target.
 */
import { CtlError } from '../../core/errors.ts';
import { fromProtoJson } from '../../protobuf/index.ts';
import { isMergedIntoMany, MAX_VALUE_BYTES, unappliedPatch, valueTooLarge } from '../envoy-patches.ts';
import { PATCHED_MESSAGES } from '../patched-messages.ts';
import type { EnvoyConfigPatch, EnvoyFilterSpec } from '../schema/envoy-filter.ts';
import { checkTargetRef } from './policy-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkLabels, checkVersionRegex } from './values.ts';

type ApplyTo = EnvoyConfigPatch['applyTo'];

/** Which of the three object matches belongs to each target. */
const OBJECT_MATCH: Readonly<Partial<Record<ApplyTo, 'listener' | 'routeConfiguration' | 'cluster'>>> = {
  LISTENER: 'listener',
  FILTER_CHAIN: 'listener',
  NETWORK_FILTER: 'listener',
  HTTP_FILTER: 'listener',
  LISTENER_FILTER: 'listener',
  ROUTE_CONFIGURATION: 'routeConfiguration',
  VIRTUAL_HOST: 'routeConfiguration',
  HTTP_ROUTE: 'routeConfiguration',
  CLUSTER: 'cluster',
};
const FILTERS: ReadonlySet<ApplyTo> = new Set(['NETWORK_FILTER', 'HTTP_FILTER', 'LISTENER_FILTER']);

export function validateEnvoyFilter(spec: EnvoyFilterSpec, errors: ValidationErrors): void {
  checkLabels(errors.at('workloadSelector', 'labels'), spec.workloadSelector?.labels);
  if (spec.workloadSelector !== undefined && spec.targetRefs?.length) {
    errors.add(['targetRefs'], 'expected either workloadSelector or targetRefs');
  }
  each(errors.at('targetRefs'), spec.targetRefs, checkTargetRef);
  errors.at('configPatches').atMost('configPatches', spec.configPatches?.length);
  each(errors.at('configPatches'), spec.configPatches, checkPatch);
  checkVersions(spec, errors.at('configPatches'));
}

/** Most patches have the same expression. */
function checkVersions({ configPatches }: EnvoyFilterSpec, errors: ValidationErrors): void {
  const checked = new Set<string>();
  each(errors, configPatches, ({ match }, at) => {
    const version = match?.proxy?.proxyVersion;
    if (version === undefined || checked.has(version)) return;
    checked.add(version);
    checkVersionRegex(at.at('match', 'proxy', 'proxyVersion'), version);
  });
}

function checkPatch(patch: EnvoyConfigPatch, errors: ValidationErrors): void {
  const { applyTo, match } = patch;
  const { operation, value } = patch.patch;
  if (operation !== 'REMOVE' && value === undefined)
    errors.add(['patch', 'value'], `required for operation ${operation}`);
  if (operation === 'REPLACE' && !FILTERS.has(applyTo) && applyTo !== 'CLUSTER') {
    errors.add(['patch', 'operation'], `expected an operation other than REPLACE for ${applyTo}`);
  }
  const wanted = OBJECT_MATCH[applyTo];
  for (const field of ['listener', 'routeConfiguration', 'cluster'] as const) {
    if (match?.[field] !== undefined && field !== wanted) {
      errors.add(
        ['match', field],
        wanted === undefined ? `expected no object match for ${applyTo}` : `expected ${wanted} for ${applyTo}`,
      );
    }
  }
  if (match?.waypoint !== undefined && match.context !== 'WAYPOINT') {
    errors.add(['match', 'waypoint'], 'expected only with context WAYPOINT');
  }
  const names = operation === 'REMOVE' || operation === 'REPLACE' || operation.startsWith('MERGE');
  if (applyTo === 'LISTENER_FILTER' && names && !match?.listener?.listenerFilter) {
    errors.addForAuthor(['match', 'listener', 'listenerFilter'], `required for operation ${operation}`);
  }
  checkFilterMatch(patch, errors.at('match', 'listener', 'filterChain', 'filter'));
  if (value !== undefined && unappliedPatch(patch) === undefined) checkValue(patch, value, errors.at('patch', 'value'));
}

const MANAGER = /^envoy\.(?:filters\.network\.)?http_connection_manager$/;

/** A match of filters without a name would match every filter. */
function checkFilterMatch({ applyTo, match }: EnvoyConfigPatch, errors: ValidationErrors): void {
  const filter = match?.listener?.filterChain?.filter;
  if (filter === undefined) return;
  const { name, subFilter } = filter;
  if (!name) {
    if (subFilter !== undefined) errors.add(['name'], 'required when subFilter is set');
    else errors.addForAuthor(['name'], 'required, expected the name of a filter');
  } else if (subFilter !== undefined) {
    if (applyTo !== 'HTTP_FILTER') errors.addForAuthor(['subFilter'], 'expected only with applyTo HTTP_FILTER');
    else if (!MANAGER.test(name)) {
      errors.addForAuthor(['name'], 'expected envoy.filters.network.http_connection_manager when subFilter is set');
    }
    if (!subFilter.name) errors.addForAuthor(['subFilter', 'name'], 'required, expected the name of an HTTP filter');
  }
}

/** Names of generated clusters and listeners, which added ones must not have. */
const GENERATED_NAMES: Readonly<Partial<Record<ApplyTo, RegExp>>> = {
  CLUSTER: /^(?:(?:out|in)bound[|_]|BlackHoleCluster$|PassthroughCluster$|InboundPassthroughCluster)/,
  LISTENER: /^(?:virtual(?:In|Out)bound$|[\d.]+_\d+$|[\da-f]*:[\da-f:.]*_\d+$|\/)/i,
};
/** Targets that cannot be added without a name. */
const NAMED: ReadonlySet<ApplyTo> = new Set([
  'CLUSTER',
  'EXTENSION_CONFIG',
  'LISTENER',
  'LISTENER_FILTER',
  'VIRTUAL_HOST',
  'NETWORK_FILTER',
  'HTTP_FILTER',
]);

type Value = NonNullable<EnvoyConfigPatch['patch']['value']>;

function checkValue({ applyTo, patch: { operation } }: EnvoyConfigPatch, value: Value, errors: ValidationErrors): void {
  try {
    const { length } = fromProtoJson(PATCHED_MESSAGES[applyTo], value);
    if (length > MAX_VALUE_BYTES && isMergedIntoMany(applyTo, operation)) errors.add([], valueTooLarge(length));
  } catch (error) {
    if (!(error instanceof CtlError)) throw error;
    errors.add(stepsOf(error.location.field ?? ''), error.message);
    return;
  }
  if (operation === 'MERGE' || operation === 'MERGE_AND_REPLACE_LIST') return;
  const { name } = value;
  if (NAMED.has(applyTo) && (typeof name !== 'string' || name === '')) {
    errors.add(['name'], `required for operation ${operation}`);
  } else if (operation === 'ADD' && GENERATED_NAMES[applyTo]?.test(String(name)) === true) {
    errors.add(['name'], 'expected a name that no generated resource has');
  }
}

/** The steps of a path such as `filters[0].typed_config["a.b"]`. */
function stepsOf(path: string): (string | number)[] {
  const steps = path.matchAll(/\["(?<key>[^"]*)"\]|\[(?<index>\d+)\]|(?<name>[^.[\]]+)/g);
  return [...steps].map(({ groups }) =>
    groups?.index === undefined ? (groups?.key ?? groups?.name ?? '') : Number(groups.index),
  );
}
