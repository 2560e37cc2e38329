/**
 * Which settings of a destination rule apply to one port and subset. Clusters, hash policies of routes and TCP proxies
 * all use this function.
 */
import type { MergedDestinationRule } from '../../model/index.ts';
import type { TrafficPolicy } from '../../resources/index.ts';

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
