/**
 * Which settings of a destination rule apply to one port and subset. Clusters, hash policies of routes and TCP proxies
 * all use this function.
 */
import type { MergedDestinationRule } from '../../model/index.ts';
import type { ClientTlsSettings, TrafficPolicy } from '../../resources/index.ts';

/** The settings in force for one cluster: absent ones have their default. */
export type EffectivePolicy = Pick<TrafficPolicy, 'connectionPool' | 'loadBalancer' | 'outlierDetection' | 'tls'>;

const DEFAULTS: EffectivePolicy = {};

/**
 * The policy for a service port and subset (`''` for the service as a whole). A subset's settings replace the rule's
 * field by field; settings for the port replace both entirely: absent fields have their default, not the rule's value.
 */
export function effectivePolicy(
  rule: MergedDestinationRule | undefined,
  subset: string,
  port: number,
): EffectivePolicy {
  if (rule === undefined) return DEFAULTS;
  const ofRule = rule.trafficPolicy;
  const ofSubset = subset === '' ? undefined : rule.subsets.find(({ name }) => name === subset)?.trafficPolicy;
  const byPort = [...(ofSubset?.portLevelSettings ?? []), ...(ofRule?.portLevelSettings ?? [])];
  const ofPort = byPort.find((settings) => settings.port.number === port);
  if (ofPort !== undefined) return ofPort;
  if (ofSubset === undefined) return ofRule ?? DEFAULTS;
  return { ...defined(ofRule), ...defined(ofSubset) };
}

/**
 * The same at a gateway, where the TLS settings and the HTTP version of `atGateways` replace the others: those for the
 * port, else those for all ports.
 */
export function gatewayPolicy(rule: MergedDestinationRule | undefined, subset: string, port: number): EffectivePolicy {
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
