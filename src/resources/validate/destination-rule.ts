/** Validates DestinationRule: host, subsets, and numbers that Envoy would refuse. */
import type {
  ConnectionPool,
  ConsistentHash,
  DestinationRuleSpec,
  LoadBalancerSettings,
  LocalityLbSetting,
  OutlierDetection,
  PortTrafficPolicy,
  TcpKeepalive,
  TrafficPolicy,
  Tunnel,
} from '../schema/destination-rule.ts';
import type { ClientTlsSettings } from '../schema/tls-settings.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDnsLabel,
  checkDuration,
  checkExportTo,
  checkHeaderName,
  checkHost,
  checkLabels,
  checkNotNegative,
  checkPercent,
  checkPort,
  checkWildcardHost,
  isIpAddress,
} from './values.ts';

/** Maximum size of the Maglev table and hash ring that Envoy accepts. */
const MAX_MAGLEV_TABLE = 5_000_011;
const MAX_RING = 8 * 1024 * 1024;
/**
 * Maximum number of labels of `failoverPriority`: together with the ranks of localities they result in no more
 * priorities than Envoy accepts (`LocalityLbEndpoints.priority`: 128).
 */
const MAX_PRIORITY_LABELS = 12;
/** Longest TLS server name that Envoy accepts. */
const MAX_SNI = 255;

export function validateDestinationRule(spec: DestinationRuleSpec, errors: ValidationErrors): void {
  if (!isIpAddress(spec.host)) checkWildcardHost(errors.at('host'), spec.host);
  if (spec.trafficPolicy !== undefined) checkTrafficPolicy(spec.trafficPolicy, errors.at('trafficPolicy'));
  errors.at('subsets').atMost('subsets', spec.subsets?.length);
  unique(errors.at('subsets'), spec.subsets, ['name'], 'subset', (subset) => subset.name);
  each(errors.at('subsets'), spec.subsets, (subset, at) => {
    checkDnsLabel(at.at('name'), subset.name);
    checkLabels(at.at('labels'), subset.labels);
    if (subset.trafficPolicy !== undefined) checkTrafficPolicy(subset.trafficPolicy, at.at('trafficPolicy'));
  });
  checkExportTo(errors.at('exportTo'), spec.exportTo);
  checkLabels(errors.at('workloadSelector', 'matchLabels'), spec.workloadSelector?.labels);
}

function checkTrafficPolicy(policy: TrafficPolicy, errors: ValidationErrors): void {
  if (Object.keys(policy).length === 0) errors.add([], 'expected at least one setting, such as loadBalancer or tls');
  checkPortPolicy(policy, errors);
  const ports = policy.portLevelSettings;
  errors.at('portLevelSettings').atMost('portSettings', ports?.length);
  unique(errors.at('portLevelSettings'), ports, ['port', 'number'], 'port', (setting) => setting.port.number);
  each(errors.at('portLevelSettings'), ports, (setting, at) => {
    checkPort(at.at('port', 'number'), setting.port.number);
    checkPortPolicy(setting, at);
  });
  if (policy.tunnel !== undefined) checkTunnel(policy.tunnel, errors.at('tunnel'));
  checkPercent(errors.at('retryBudget', 'percent'), policy.retryBudget?.percent);
  checkNotNegative(errors.at('retryBudget', 'budgetInterval'), policy.retryBudget?.budgetInterval);
}

function checkTunnel({ protocol, targetHost, targetPort }: Tunnel, errors: ValidationErrors): void {
  if (protocol !== undefined && !['', 'CONNECT', 'POST'].includes(protocol))
    errors.add(['protocol'], `expected CONNECT or POST, got ${JSON.stringify(protocol)}`);
  checkHost(errors.at('targetHost'), targetHost);
  checkPort(errors.at('targetPort'), targetPort);
}

function checkPortPolicy(policy: Omit<PortTrafficPolicy, 'port'>, errors: ValidationErrors): void {
  if (policy.loadBalancer !== undefined) checkLoadBalancer(policy.loadBalancer, errors.at('loadBalancer'));
  if (policy.connectionPool !== undefined) checkConnectionPool(policy.connectionPool, errors.at('connectionPool'));
  if (policy.outlierDetection !== undefined) checkOutliers(policy.outlierDetection, errors.at('outlierDetection'));
  if (policy.tls !== undefined) checkClientTls(policy.tls, errors.at('tls'));
}

function checkLoadBalancer(settings: LoadBalancerSettings, errors: ValidationErrors): void {
  const { simple, consistentHash, localityLbSetting } = settings;
  if (simple !== undefined && consistentHash !== undefined) {
    errors.add(['consistentHash'], 'expected either simple or consistentHash');
  }
  if (consistentHash !== undefined) checkConsistentHash(consistentHash, errors.at('consistentHash'));
  if (localityLbSetting !== undefined) checkLocalityLb(localityLbSetting, errors.at('localityLbSetting'));
  checkNotNegative(errors.at('warmupDurationSecs'), settings.warmupDurationSecs);
  if (settings.warmup !== undefined) checkWarmup(settings.warmup, errors.at('warmup'));
}

function checkWarmup(
  { duration, minimumPercent, aggression }: NonNullable<LoadBalancerSettings['warmup']>,
  errors: ValidationErrors,
): void {
  if (duration === undefined) errors.add(['duration'], 'required, expected a duration such as "30s"');
  else checkDuration(errors.at('duration'), duration);
  checkPercent(errors.at('minimumPercent'), minimumPercent);
  if (aggression !== undefined && aggression < 1)
    errors.add(['aggression'], `expected a number of at least 1, got ${aggression}`);
}

function checkConsistentHash(hash: ConsistentHash, errors: ValidationErrors): void {
  const keys = (['httpHeaderName', 'httpCookie', 'useSourceIp', 'httpQueryParameterName'] as const).filter(
    (field) => hash[field] !== undefined && hash[field] !== false,
  );
  if (keys.length !== 1) {
    errors.add([], 'expected exactly one of httpHeaderName, httpCookie, useSourceIp, httpQueryParameterName');
  }
  if (hash.httpHeaderName !== undefined) checkHeaderName(errors.at('httpHeaderName'), hash.httpHeaderName);
  if (hash.httpCookie?.name === '') errors.add(['httpCookie', 'name'], 'expected a cookie name');
  checkNotNegative(errors.at('httpCookie', 'ttl'), hash.httpCookie?.ttl);
  if (hash.ringHash !== undefined && hash.maglev !== undefined)
    errors.add(['maglev'], 'expected either ringHash or maglev');
  const ring = hash.ringHash?.minimumRingSize ?? hash.minimumRingSize;
  if (ring !== undefined && ring > MAX_RING) errors.add([], `expected a ring size of at most ${MAX_RING}, got ${ring}`);
  const table = hash.maglev?.tableSize;
  if (table !== undefined && (table > MAX_MAGLEV_TABLE || !isPrime(table))) {
    errors.add(['maglev', 'tableSize'], `expected a prime number up to ${MAX_MAGLEV_TABLE}, got ${table}`);
  }
}

/** Envoy refuses a Maglev table whose size is not a prime number. */
function isPrime(value: number): boolean {
  if (value < 2) return false;
  for (let divisor = 2; divisor * divisor <= value; divisor++) if (value % divisor === 0) return false;
  return true;
}

/** Localities are `region/zone/subzone`; also used for the mesh configuration. */
export function checkLocalityLb(setting: LocalityLbSetting, errors: ValidationErrors): void {
  const ways = (['distribute', 'failover', 'failoverPriority'] as const).filter((field) => setting[field]?.length);
  if (ways.includes('distribute') && ways.length > 1)
    errors.add(['distribute'], `expected only one of ${ways.join(', ')}`);
  each(errors.at('distribute'), setting.distribute, (rule, at) => {
    const weights = Object.values(rule.to ?? {});
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    if (total !== 100) at.add(['to'], `expected weights that add up to 100, got ${total}`);
    if (weights.includes(0)) at.add(['to'], 'expected weights above 0');
    if (!rule.from) at.add(['from'], 'required, expected a locality such as "region/zone/*"');
  });
  unique(errors.at('distribute'), setting.distribute, ['from'], 'locality', (rule) => rule.from);
  const labels = setting.failoverPriority ?? [];
  if (labels.length > MAX_PRIORITY_LABELS)
    errors.add(['failoverPriority'], `expected at most ${MAX_PRIORITY_LABELS} labels, got ${labels.length}`);
  each(errors.at('failoverPriority'), labels, (label, at) => {
    if (label === '' || label.startsWith('=')) at.add([], 'expected a label, or label=value');
  });
  each(errors.at('failover'), setting.failover, (rule, at) => {
    if (!rule.from) at.add(['from'], 'required, expected a region');
    if (!rule.to) at.add(['to'], 'required, expected a region');
    if (rule.from !== undefined && rule.from === rule.to) at.add(['to'], 'expected a region other than "from"');
    if (`${rule.from}${rule.to}`.includes('*')) at.add([], 'expected regions without wildcard');
  });
  unique(errors.at('failover'), setting.failover, ['from'], 'region', (rule) => rule.from);
}

/** Also used for `inboundConnectionPool` of a Sidecar. */
export function checkConnectionPool(pool: ConnectionPool, errors: ValidationErrors): void {
  const { tcp, http } = pool;
  if (tcp === undefined && http === undefined) errors.add([], 'expected tcp or http');
  checkNotNegative(errors.at('tcp', 'maxConnections'), tcp?.maxConnections);
  for (const field of ['connectTimeout', 'maxConnectionDuration'] as const)
    checkDuration(errors.at('tcp', field), tcp?.[field]);
  checkNotNegative(errors.at('tcp', 'idleTimeout'), tcp?.idleTimeout);
  if (tcp?.tcpKeepalive !== undefined) checkTcpKeepalive(tcp.tcpKeepalive, errors.at('tcp', 'tcpKeepalive'));
  for (const field of [
    'http1MaxPendingRequests',
    'http2MaxRequests',
    'maxRequestsPerConnection',
    'maxRetries',
    'maxConcurrentStreams',
  ] as const) {
    checkNotNegative(errors.at('http', field), http?.[field]);
  }
  checkNotNegative(errors.at('http', 'idleTimeout'), http?.idleTimeout);
  for (const field of ['interval', 'timeout'] as const)
    checkDuration(errors.at('http', 'http2KeepAlive', field), http?.http2KeepAlive?.[field]);
  if (http?.useClientProtocol === true && http.h2UpgradePolicy === 'UPGRADE') {
    errors.add(['http', 'useClientProtocol'], 'expected no useClientProtocol with h2UpgradePolicy UPGRADE');
  }
}

/** Also used for the mesh configuration. */
export function checkTcpKeepalive(keepalive: TcpKeepalive, errors: ValidationErrors): void {
  checkWholeSeconds(errors.at('time'), keepalive.time);
  checkWholeSeconds(errors.at('interval'), keepalive.interval);
}

/** Kernel keepalive options count seconds. */
function checkWholeSeconds(errors: ValidationErrors, millis: number | undefined): void {
  if (millis !== undefined && millis < 1000) errors.add([], `expected at least 1s, got ${millis}ms`);
}

function checkOutliers(outliers: OutlierDetection, errors: ValidationErrors): void {
  checkDuration(errors.at('interval'), outliers.interval);
  checkDuration(errors.at('baseEjectionTime'), outliers.baseEjectionTime);
  checkPercent(errors.at('maxEjectionPercent'), outliers.maxEjectionPercent);
  checkPercent(errors.at('minHealthPercent'), outliers.minHealthPercent);
  checkNotNegative(errors.at('consecutiveErrors'), outliers.consecutiveErrors);
  if (outliers.consecutiveLocalOriginFailures !== undefined && outliers.splitExternalLocalOriginErrors !== true) {
    errors.add(['consecutiveLocalOriginFailures'], 'requires splitExternalLocalOriginErrors: true');
  }
}

function checkClientTls(tls: ClientTlsSettings, errors: ValidationErrors): void {
  const files = [tls.clientCertificate, tls.privateKey, tls.caCertificates].some(Boolean);
  if (tls.credentialName && files) errors.add(['credentialName'], 'expected either credentialName or files');
  if (tls.insecureSkipVerify === true) checkNothingVerified(tls, errors);
  if (tls.sni !== undefined && tls.sni.length > MAX_SNI) errors.add(['sni'], `expected at most ${MAX_SNI} characters`);
  if (tls.mode !== 'MUTUAL' || tls.credentialName) return;
  if (!tls.clientCertificate) errors.add(['clientCertificate'], 'required for mode MUTUAL');
  if (!tls.privateKey) errors.add(['privateKey'], 'required for mode MUTUAL');
}

/** In mode MUTUAL, the credential is also that of the client. */
function checkNothingVerified(tls: ClientTlsSettings, errors: ValidationErrors): void {
  const fields = tls.mode === 'MUTUAL' ? VERIFYING : ([...VERIFYING, 'credentialName'] as const);
  for (const field of fields) {
    if (tls[field]?.length)
      errors.addForAuthor([field], 'expected none with insecureSkipVerify: certificates are not verified');
  }
}

/** Fields that verify servers. */
const VERIFYING = ['caCertificates', 'caCrl', 'subjectAltNames'] as const;
