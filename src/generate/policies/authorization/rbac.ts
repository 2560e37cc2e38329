/** Envoy's RBAC filters, for requests and for connections. */
import { envoy } from '../../../protobuf/index.ts';
import { typedConfig } from '../../filters/index.ts';
import type { HttpFilter, NetworkFilter } from '../types.ts';
import type { NamedPolicies } from './rules.ts';

const { RBAC: HttpRbac } = envoy.extensions.filters.http.rbac.v3;
const { RBAC: NetworkRbac } = envoy.extensions.filters.network.rbac.v3;
const { Action } = envoy.config.rbac.v3.RBAC;

const HTTP_RBAC = 'envoy.filters.http.rbac';
const NETWORK_RBAC = 'envoy.filters.network.rbac';
/** Prefix of the counters of network filters: `tcp.rbac.denied` and the like. */
const STAT_PREFIX = 'tcp.';

export type Protocol = 'http' | 'tcp';

interface Rules {
  readonly rules?: envoy.config.rbac.v3.RBAC.Input;
  readonly shadowRules?: envoy.config.rbac.v3.RBAC.Input;
  readonly shadowRulesStatPrefix?: string;
}

/** Denies everything that some policy matches. */
export function denyFilter(protocol: Protocol, policies: NamedPolicies): HttpFilter & NetworkFilter {
  return filter(protocol, { rules: { action: Action.DENY, policies } });
}

/** Denies everything that no policy matches. */
export function allowFilter(protocol: Protocol, policies: NamedPolicies): HttpFilter & NetworkFilter {
  return filter(protocol, { rules: { action: Action.ALLOW, policies } });
}

/** The policies of an action: those that are enforced, and those in dry run; undefined without such policies. */
export interface ActionRules {
  readonly enforced: NamedPolicies | undefined;
  readonly dryRun: NamedPolicies | undefined;
}

/**
 * Names of the counters and the metadata of dry runs (`shadow_denied`, `shadow_engine_result`), as in Istio. Those of
 * CUSTOM are ours.
 */
const DRY_RUN_PREFIX = {
  ALLOW: 'istio_dry_run_allow_',
  DENY: 'istio_dry_run_deny_',
  CUSTOM: 'istio_dry_run_custom_',
} as const;

/** The filter of an action. Policies in dry run allow everything, and record what they would do. */
export function actionFilter(
  protocol: Protocol,
  action: 'ALLOW' | 'DENY',
  { enforced, dryRun }: ActionRules,
): (HttpFilter & NetworkFilter)[] {
  if (enforced === undefined && dryRun === undefined) return [];
  const rules: Rules = {
    ...(enforced !== undefined && { rules: { action: Action[action], policies: enforced } }),
    ...(dryRun !== undefined && {
      shadowRules: { action: Action[action], policies: dryRun },
      shadowRulesStatPrefix: DRY_RUN_PREFIX[action],
    }),
  };
  return [filter(protocol, rules)];
}

/**
 * The filter for CUSTOM policies in dry run, which records for which requests an authorizer would be called
 * (`shadow_denied`), without calling it.
 */
export function uncalledFilter(protocol: Protocol, policies: NamedPolicies): HttpFilter & NetworkFilter {
  return markFilter(protocol, policies, DRY_RUN_PREFIX.CUSTOM);
}

/**
 * Lets everything pass, and records which policy matched: as dynamic metadata `<prefix>shadow_effective_policy_id` of
 * the filter, and in counters `<prefix>shadow_denied`.
 */
export function markFilter(protocol: Protocol, policies: NamedPolicies, prefix: string): HttpFilter & NetworkFilter {
  return filter(protocol, { shadowRules: { action: Action.DENY, policies }, shadowRulesStatPrefix: prefix });
}

/** {@link markFilter}, which also sets `access_log_hint` of the metadata `envoy.common`, which access logs may read. */
export function auditFilter(protocol: Protocol, policies: NamedPolicies, prefix: string): HttpFilter & NetworkFilter {
  return filter(protocol, {
    rules: { action: Action.LOG, policies },
    shadowRules: { action: Action.DENY, policies },
    shadowRulesStatPrefix: prefix,
  });
}

/** The metadata by which a filter after {@link markFilter} sees that some policy matched. */
export function markedBy(protocol: Protocol, prefix: string): envoy.type.matcher.v3.MetadataMatcher.Input {
  return {
    filter: protocol === 'http' ? HTTP_RBAC : NETWORK_RBAC,
    path: [{ key: `${prefix}shadow_effective_policy_id` }],
    value: { presentMatch: true },
  };
}

function filter(protocol: Protocol, rules: Rules): HttpFilter & NetworkFilter {
  return protocol === 'http'
    ? typedConfig(HTTP_RBAC, HttpRbac, rules)
    : typedConfig(NETWORK_RBAC, NetworkRbac, { ...rules, statPrefix: STAT_PREFIX });
}
