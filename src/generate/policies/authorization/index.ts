/**
 * AuthorizationPolicy as Envoy's RBAC and external authorization filters. A request passes all of them, in this order:
 * the external authorizers of CUSTOM rules are called; no DENY rule may match it; if there are ALLOW policies, one of
 * their rules must match it; AUDIT rules record it. Policies in dry run record what they would do.
 */

import type { ModelSettings } from '../../../model/index.ts';
import {
  type AuthorizationRule,
  isDryRun,
  type MeshConfig,
  type Resource,
  type ResourceKey,
} from '../../../resources/index.ts';
import { scopeOfView, trustDomainsOf } from '../../common/index.ts';
import { fact, type MeshReader, note, unrecorded } from '../../reads/index.ts';
import type { Certificates, GuardedView, HttpFilter, NetworkFilter } from '../types.ts';
import type { PolicyContext } from './attributes.ts';
import {
  type Authorizer,
  authorizerOf,
  connectionFilters,
  providerHosts,
  requestFilters,
  type Unreachable,
} from './external.ts';
import { type ActionRules, actionFilter, auditFilter, denyFilter, type Protocol, uncalledFilter } from './rbac.ts';
import {
  asksForMoreThanGrpc,
  asksForPaths,
  type NamedPolicies,
  type RbacPolicy,
  type RuleContext,
  rbacPolicy,
} from './rules.ts';

export { isGrpcHeader } from './attributes.ts';
export { allowFilter, denyFilter } from './rbac.ts';
export type { RbacPolicy } from './rules.ts';

type Policy = Resource<'AuthorizationPolicy'>;
type Action = NonNullable<Policy['content']['action']>;

/** Prefix of metadata and counters about AUDIT rules. */
const AUDIT_PREFIX = 'mesh_audit_';

export interface RequestRules {
  /** CUSTOM: called before tokens are verified, because an authorizer may add them. */
  readonly external: readonly HttpFilter[];
  readonly local: readonly HttpFilter[];
}

export function requestRules(
  snapshot: MeshReader,
  view: GuardedView,
  certificates: Certificates = 'mesh',
): RequestRules {
  const rules = rulesFor(snapshot, view, 'http', certificates);
  return {
    external: [
      ...rules.custom.flatMap(({ authorizer, policies }) =>
        'problem' in authorizer ? [denyFilter('http', policies)] : requestFilters(authorizer, policies),
      ),
      ...uncalledFilters(rules, 'http'),
    ],
    local: localFilters(rules, 'http'),
  };
}

export interface ConnectionRules {
  readonly filters: readonly NetworkFilter[];
  /** Whether every connection is refused. */
  readonly refusesAll: boolean;
}

export function connectionRules(
  snapshot: MeshReader,
  view: GuardedView,
  certificates: Certificates = 'mesh',
): ConnectionRules {
  const rules = rulesFor(snapshot, view, 'tcp', certificates);
  const denied = [rules.deny.enforced ?? {}];
  const external = rules.custom.flatMap(({ authorizer, policies }) => {
    const filters = 'problem' in authorizer ? undefined : connectionFilters(authorizer, policies);
    if (filters === undefined) denied.push(policies);
    return filters ?? [denyFilter('tcp', policies)];
  });
  const allowed = rules.allow.enforced;
  return {
    filters: [...external, ...uncalledFilters(rules, 'tcp'), ...localFilters(rules, 'tcp')],
    refusesAll: (allowed !== undefined && !isFilled(allowed)) || denied.some(matchesAll),
  };
}

/** The rules of gRPC servers, which have no filters but these. */
export interface GrpcRules {
  readonly deny: NamedPolicies;
  /** Undefined without ALLOW policies; an empty list allows no requests. */
  readonly allow: NamedPolicies | undefined;
  /** Conditions that cannot be expressed and are denied, one line for each policy. */
  readonly problems: readonly string[];
}

/**
 * The rules for a gRPC server. Requests that match CUSTOM rules are denied: such servers have no external authorizers;
 * AUDIT rules and dry runs do nothing.
 */
export function grpcRules(snapshot: MeshReader, policies: GuardedView['policies']): GrpcRules {
  const { enforced } = policiesFor(snapshot, { policies });
  const of = (action: Action) => actionOf(enforced, action);
  const [allow, custom, deny] = [of('ALLOW'), of('CUSTOM'), of('DENY')];
  const restrictContext = {
    effect: 'restrict',
    protocol: 'grpc',
    certificates: 'mesh',
    sourcedMetadata: false,
  } as const;
  const inexact = [...allow, ...deny].filter(({ content }) => (content.rules ?? []).some(asksForMoreThanGrpc));
  return {
    deny: named(snapshot, [...custom, ...deny], restrictContext),
    allow: allow.length === 0 ? undefined : named(snapshot, allow, { ...restrictContext, effect: 'allow' }),
    problems: [
      ...custom.map(
        (policy) =>
          `${nameOf(policy)}: gRPC servers do not support external authorizers; requests that match it are denied`,
      ),
      ...inexact.map((policy) => {
        const denies = policy.content.action === 'DENY';
        const result = denies
          ? 'it denies more requests than its rules name'
          : 'its rules with such attributes allow no requests';
        return `${nameOf(policy)}: gRPC servers do not support some of its attributes; ${result}`;
      }),
    ],
  };
}

function nameOf({ meta: { namespace, name } }: Policy): string {
  return `AuthorizationPolicy ${namespace}/${name}`;
}

/** Whether the result depends on a request's path. A dry run does not change how paths are normalized either. */
export function guardsPaths(snapshot: MeshReader, view: GuardedView): boolean {
  return policiesFor(snapshot, view).enforced.some(({ content }) => (content.rules ?? []).some(asksForPaths));
}

/** The hosts of services that a policy calls, whether or not they exist. */
export function authorizerHostsOf(
  policy: Policy | undefined,
  { plugins }: ModelSettings,
  mesh: MeshConfig,
): readonly string[] {
  if (policy === undefined || isDryRun(policy) || !isServed(policy, plugins)) return [];
  const { provider } = policy.content;
  return provider?.name === undefined ? [] : providerHosts(mesh, provider.name);
}

/** The hosts that the policies of a view call. */
export function authorizerHosts(snapshot: MeshReader, view: GuardedView): ReadonlySet<string> {
  for (const key of view.policies.authorization) note(fact.authorizerHosts(key));
  return unrecorded(() => new Set(view.policies.authorization.flatMap((key) => hostsOfPolicy(snapshot, key))));
}

export function callsHost(snapshot: MeshReader, view: GuardedView, host: string): boolean {
  for (const key of view.policies.authorization) note(fact.authorizerHost(key, host));
  return unrecorded(() => view.policies.authorization.some((key) => hostsOfPolicy(snapshot, key).includes(host)));
}

function hostsOfPolicy(snapshot: MeshReader, key: ResourceKey): readonly string[] {
  return authorizerHostsOf(snapshot.resources('AuthorizationPolicy').get(key), snapshot.settings, snapshot.mesh);
}

/** Problems of the policies that apply here, one line each. */
export function policyProblems(snapshot: MeshReader, view: GuardedView): string[] {
  const { custom, uncalled } = rulesFor(snapshot, view, 'http', 'mesh');
  const problems = (rules: readonly CustomRules[], effect: string) =>
    rules.flatMap(({ authorizer, policies }) =>
      'problem' in authorizer
        ? [`${authorizer.problem}; requests that match ${Object.keys(policies).join(', ')} ${effect}`]
        : [],
    );
  return [...problems(custom, 'are denied'), ...problems(uncalled, 'would be denied (dry run)')];
}

interface CustomRules {
  readonly authorizer: Authorizer | Unreachable;
  readonly policies: NamedPolicies;
}

interface Rules {
  /** By authorizer. */
  readonly custom: readonly CustomRules[];
  /** The same of policies in dry run, whose authorizers are not called. */
  readonly uncalled: readonly CustomRules[];
  readonly deny: ActionRules;
  /** An empty list allows no requests. */
  readonly allow: ActionRules;
  readonly audit: NamedPolicies;
}

const NONE: ActionRules = { enforced: undefined, dryRun: undefined };
const NO_RULES: Rules = { custom: [], uncalled: [], deny: NONE, allow: NONE, audit: {} };

function rulesFor(snapshot: MeshReader, view: GuardedView, protocol: Protocol, certificates: Certificates): Rules {
  const { enforced, dryRun } = policiesFor(snapshot, view);
  if (enforced.length + dryRun.length === 0) return NO_RULES;
  const context = { protocol, certificates, sourcedMetadata: view.capabilities.replacements === true };
  const restrictContext = { ...context, effect: 'restrict' } as const;
  const allowContext = { ...context, effect: 'allow' } as const;
  const deny = (policies: readonly Policy[]) => filled(named(snapshot, actionOf(policies, 'DENY'), restrictContext));
  const allow = (policies: readonly Policy[]) => {
    const allowing = actionOf(policies, 'ALLOW');
    return allowing.length === 0 ? undefined : named(snapshot, allowing, allowContext);
  };
  const scope = scopeOfView(snapshot, view);
  const custom = (policies: readonly Policy[]) =>
    [...Map.groupBy(actionOf(policies, 'CUSTOM'), ({ content }) => content.provider?.name ?? '')]
      .map(([name, ofProvider]) => ({
        authorizer: authorizerOf(snapshot, scope, name),
        policies: named(snapshot, ofProvider, restrictContext),
      }))
      .filter((rules) => isFilled(rules.policies));
  return {
    custom: custom(enforced),
    uncalled: custom(dryRun),
    deny: { enforced: deny(enforced), dryRun: deny(dryRun) },
    allow: { enforced: allow(enforced), dryRun: allow(dryRun) },
    audit: named(snapshot, actionOf(enforced, 'AUDIT'), restrictContext),
  };
}

function actionOf(policies: readonly Policy[], action: Action): Policy[] {
  return policies.filter(({ content }) => (content.action ?? 'ALLOW') === action);
}

function localFilters({ deny, allow, audit }: Rules, protocol: Protocol): (HttpFilter & NetworkFilter)[] {
  return [
    ...actionFilter(protocol, 'DENY', deny),
    ...actionFilter(protocol, 'ALLOW', allow),
    ...(isFilled(audit) ? [auditFilter(protocol, audit, AUDIT_PREFIX)] : []),
  ];
}

function uncalledFilters({ uncalled }: Rules, protocol: Protocol): (HttpFilter & NetworkFilter)[] {
  const policies: NamedPolicies = Object.fromEntries(uncalled.flatMap((rules) => Object.entries(rules.policies)));
  return isFilled(policies) ? [uncalledFilter(protocol, policies)] : [];
}

/** Policies in order of precedence. */
interface Policies {
  readonly enforced: readonly Policy[];
  readonly dryRun: readonly Policy[];
}

const NO_POLICIES: Policies = { enforced: [], dryRun: [] };

/** The plugin `policy` is for external authorizers, `authz` for all other policies. */
function policiesFor(snapshot: MeshReader, { policies }: Pick<GuardedView, 'policies'>): Policies {
  if (policies.authorization.length === 0) return NO_POLICIES;
  const { plugins } = snapshot.settings;
  const table = snapshot.resources('AuthorizationPolicy');
  const served = policies.authorization
    .flatMap((key) => table.get(key) ?? [])
    .filter((policy) => isServed(policy, plugins));
  return { enforced: served.filter((policy) => !isDryRun(policy)), dryRun: served.filter(isDryRun) };
}

function isServed({ content }: Policy, plugins: readonly string[]): boolean {
  return plugins.includes(content.action === 'CUSTOM' ? 'policy' : 'authz');
}

/** The rules of policies, named as in Envoy's logs: `ns[…]-policy[…]-rule[…]`. */
function named(
  { settings, mesh }: MeshReader,
  policies: readonly Policy[],
  context: Omit<RuleContext, keyof PolicyContext>,
): NamedPolicies {
  const found: Record<string, NamedPolicies[string]> = {};
  const trustDomains = trustDomainsOf(settings, mesh);
  for (const { meta, content } of policies) {
    content.rules?.forEach((rule: AuthorizationRule, index) => {
      const policy = rbacPolicy(rule, { ...context, trustDomains, namespace: meta.namespace });
      if (policy !== undefined) found[`ns[${meta.namespace}]-policy[${meta.name}]-rule[${index}]`] = policy;
    });
  }
  return found;
}

/** Whether one of the policies matches everything. */
function matchesAll(policies: NamedPolicies): boolean {
  const isAny = (conditions: RbacPolicy['permissions'] | RbacPolicy['principals']) =>
    conditions?.some((condition) => condition.any === true) === true;
  return Object.values(policies).some(({ permissions, principals }) => isAny(permissions) && isAny(principals));
}

function isFilled(policies: NamedPolicies): boolean {
  return Object.keys(policies).length > 0;
}

function filled(policies: NamedPolicies): NamedPolicies | undefined {
  return isFilled(policies) ? policies : undefined;
}
