/**
 * Which settings of a destination rule apply to one port and subset. Clusters, hash policies of routes and TCP proxies
 * all use this function.
 */
import type { MergedDestinationRule } from '../../model/index.ts';
import type { ClientTlsSettings, TrafficPolicy } from '../../resources/index.ts';

/** The settings in force for one cluster: absent ones have their default. */
export type EffectivePolicy = Pick<TrafficPolicy, 'connectionPool' | 'loadBalancer' | 'outlierDetection' | 'tls'>;

const DEFAULTS: EffectivePolicy = {};

/** A subset of the rule, or its name; '' and undefined: the service as a whole. */
type SubsetOf = MergedDestinationRule['subsets'][number] | string | undefined;

/**
 * The policy for a service port and subset. A subset's settings replace the rule's field by field; settings for the
 * port replace both entirely: absent fields have their default, not the rule's value.
 */
export function effectivePolicy(
  rule: MergedDestinationRule | undefined,
  subset: SubsetOf,
  port: number,
): EffectivePolicy {
  if (rule === undefined) return DEFAULTS;
  const ofRule = rule.trafficPolicy;
  const ofSubset = (typeof subset === 'string' ? subsetNamed(rule, subset) : subset)?.trafficPolicy;
  const isOfPort = (settings: { readonly port: { readonly number?: number | undefined } }) =>
    settings.port.number === port;
  const ofPort = ofSubset?.portLevelSettings?.find(isOfPort) ?? ofRule?.portLevelSettings?.find(isOfPort);
  if (ofPort !== undefined) return ofPort;
  if (ofSubset === undefined) return ofRule ?? DEFAULTS;
  return { ...defined(ofRule), ...defined(ofSubset) };
}

function subsetNamed({ subsets }: MergedDestinationRule, name: string): (typeof subsets)[number] | undefined {
  return name === '' ? undefined : subsets.find((subset) => subset.name === name);
}

/**
 * The same at a gateway, where the TLS settings and the HTTP version of `atGateways` replace the others: those for the
 * port, else those for all ports.
 */
export function gatewayPolicy(
  rule: MergedDestinationRule | undefined,
  subset: SubsetOf,
  port: number,
): EffectivePolicy {
  const policy = effectivePolicy(rule, subset, port);
  const own = rule?.atGateways;
  if (own === undefined) return policy;
  const ofPort = own.portLevelSettings?.find((settings) => settings.port.number === port);
  const tls = ofPort?.tls ?? own.tls;
  const h2UpgradePolicy = (ofPort ?? own).connectionPool?.http?.h2UpgradePolicy;
  const { connectionPool } = policy;
  return {
    ...policy,
    ...(tls !== undefined && { tls }),
    ...(h2UpgradePolicy !== undefined && {
      connectionPool: { ...connectionPool, http: { ...connectionPool?.http, h2UpgradePolicy } },
    }),
  };
}

/** Whether TLS settings of {@link gatewayPolicy} come from `atGateways`. */
export function isGatewayTls(rule: MergedDestinationRule | undefined, tls: ClientTlsSettings): boolean {
  const own = rule?.atGateways;
  return own !== undefined && [own, ...(own.portLevelSettings ?? [])].some((settings) => settings.tls === tls);
}

function defined(policy: EffectivePolicy | undefined): EffectivePolicy {
  if (policy === undefined) return DEFAULTS;
  const { connectionPool, loadBalancer, outlierDetection, tls } = policy;
  return {
    ...(connectionPool !== undefined && { connectionPool }),
    ...(loadBalancer !== undefined && { loadBalancer }),
    ...(outlierDetection !== undefined && { outlierDetection }),
    ...(tls !== undefined && { tls }),
  };
}
