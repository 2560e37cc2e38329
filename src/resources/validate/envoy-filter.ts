/** EnvoyFilter as admission checks it: the match fits what is patched, and there is something to patch with. */
import type { EnvoyConfigPatch, EnvoyFilterSpec } from '../schema/envoy-filter.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkRegex, checkSelectorLabels } from './values.ts';

type ApplyTo = EnvoyConfigPatch['applyTo'];

/** Which of the three object matches goes with what is patched. */
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

export function validateEnvoyFilter(spec: EnvoyFilterSpec, faults: ValidationErrors): void {
  checkSelectorLabels(faults.at('workloadSelector', 'labels'), spec.workloadSelector, spec.workloadSelector?.labels);
  if (spec.workloadSelector !== undefined && spec.targetRefs?.length) {
    faults.add(['targetRefs'], 'expected either workloadSelector or targetRefs');
  }
  each(faults.at('configPatches'), spec.configPatches, checkPatch);
}

function checkPatch(patch: EnvoyConfigPatch, faults: ValidationErrors): void {
  const { applyTo, match } = patch;
  const { operation, value } = patch.patch;
  if (operation !== 'REMOVE' && value === undefined)
    faults.add(['patch', 'value'], `required for operation ${operation}`);
  if (operation === 'REPLACE' && !FILTERS.has(applyTo) && applyTo !== 'CLUSTER') {
    faults.add(['patch', 'operation'], `expected another operation than REPLACE for ${applyTo}`);
  }
  const version = match?.proxy?.proxyVersion;
  if (version !== undefined) checkRegex(faults.at('match', 'proxy', 'proxyVersion'), version);
  const wanted = OBJECT_MATCH[applyTo];
  for (const field of ['listener', 'routeConfiguration', 'cluster'] as const) {
    if (match?.[field] !== undefined && field !== wanted) {
      faults.add(
        ['match', field],
        wanted === undefined ? `expected no object match for ${applyTo}` : `expected ${wanted} for ${applyTo}`,
      );
    }
  }
  const filter = match?.listener?.filterChain?.filter;
  if (filter?.subFilter !== undefined && !filter.name) {
    faults.add(['match', 'listener', 'filterChain', 'filter', 'name'], 'required beside subFilter');
  }
}
