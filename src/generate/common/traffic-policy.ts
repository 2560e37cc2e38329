/**
 * Which settings of a destination rule apply to one port and subset. Clusters, hash policies of routes and TCP proxies
 * all use this function.
 */
import type { MergedDestinationRule } from '../../model/index.ts';
import type { ClientTlsSettings, TrafficPolicy } from '../../resources/index.ts';

/** The effective settings of one cluster; absent settings have their default. */
export type EffectivePolicy = Omit<TrafficPolicy, 'portLevelSettings'>;

const DEFAULTS: EffectivePolicy = {};

/** A subset of the rule, or its name; '' and undefined: the service as a whole. */
type SubsetOf = MergedDestinationRule['subsets'][number] | string | undefined;

/**
 * The policy for a service port and subset: the subset's settings replace the rule's one by one, as in Istio 1.7. In
 * each of the two, the settings for the port replace those for all ports entirely: settings that are absent for the
 * port are not taken from those for all ports.
 */
export function effectivePolicy(
  rule: MergedDestinationRule | undefined,
  subset: SubsetOf,
  port: number,
): EffectivePolicy {
  if (rule === undefined) return DEFAULTS;
  const ofRule = policyAt(rule.trafficPolicy, port);
  const ofSubset = policyAt((typeof subset === 'string' ? subsetNamed(rule, subset) : subset)?.trafficPolicy, port);
  if (ofRule === undefined || ofSubset === undefined) return ofSubset ?? ofRule ?? DEFAULTS;
  return { ...defined(ofRule), ...defined(ofSubset) };
}

function policyAt(policy: TrafficPolicy | undefined, port: number): EffectivePolicy | undefined {
  const ofPort = policy?.portLevelSettings?.find((settings) => settings.port.number === port);
  return ofPort === undefined ? policy : { ...defined(policy, ONLY_FOR_ALL_PORTS), ...defined(ofPort) };
}

function subsetNamed({ subsets }: MergedDestinationRule, name: string): (typeof subsets)[number] | undefined {
  return name === '' ? undefined : subsets.find((subset) => subset.name === name);
}

/**
 * The same at a gateway, where the TLS settings and the HTTP version of `atGateways` (for the port, else for all ports)
 * replace the others.
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

/** Settings that cannot be set for a port, and are therefore not replaced. */
const ONLY_FOR_ALL_PORTS = ['tunnel', 'proxyProtocol', 'retryBudget'] as const satisfies (keyof EffectivePolicy)[];
const SETTINGS = ['connectionPool', 'loadBalancer', 'outlierDetection', 'tls', ...ONLY_FOR_ALL_PORTS] as const;

/** Those of these settings that a policy has. */
function defined(
  policy: EffectivePolicy | undefined,
  settings: readonly (keyof EffectivePolicy)[] = SETTINGS,
): EffectivePolicy {
  const found: { -readonly [K in keyof EffectivePolicy]: EffectivePolicy[K] } = {};
  if (policy !== undefined)
    for (const name of settings) if (policy[name] !== undefined) Object.assign(found, { [name]: policy[name] });
  return found;
}
