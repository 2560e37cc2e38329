/** DestinationRule as admission checks it: host, subsets, and numbers that Envoy would refuse. */
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
} from '../schema/destination-rule.ts';
import type { ClientTlsSettings } from '../schema/tls-settings.ts';
import { each, unique, type ValidationErrors } from './validation-errors.ts';
import {
  checkDnsLabel,
  checkDuration,
  checkExportTo,
  checkHeaderName,
  checkLabels,
  checkNotNegative,
  checkPercent,
  checkPort,
  checkSelectorLabels,
  checkWildcardHost,
  isIpAddress,
} from './values.ts';

/** Largest Maglev table and hash ring that Envoy takes. */
const MAX_MAGLEV_TABLE = 5_000_011;
const MAX_RING = 8 * 1024 * 1024;
/** Longest server name that Envoy takes for TLS. */
const MAX_SNI = 255;

export function validateDestinationRule(spec: DestinationRuleSpec, faults: ValidationErrors): void {
  if (!isIpAddress(spec.host)) checkWildcardHost(faults.at('host'), spec.host);
  if (spec.trafficPolicy !== undefined) checkTrafficPolicy(spec.trafficPolicy, faults.at('trafficPolicy'));
  unique(faults.at('subsets'), spec.subsets, ['name'], 'subset', (subset) => subset.name);
  each(faults.at('subsets'), spec.subsets, (subset, at) => {
    checkDnsLabel(at.at('name'), subset.name);
    checkLabels(at.at('labels'), subset.labels);
    if (subset.trafficPolicy !== undefined) checkTrafficPolicy(subset.trafficPolicy, at.at('trafficPolicy'));
  });
  checkExportTo(faults.at('exportTo'), spec.exportTo);
  checkSelectorLabels(
    faults.at('workloadSelector', 'matchLabels'),
    spec.workloadSelector,
    spec.workloadSelector?.labels,
  );
}

function checkTrafficPolicy(policy: TrafficPolicy, faults: ValidationErrors): void {
  if (Object.keys(policy).length === 0) faults.add([], 'expected at least one setting, such as loadBalancer or tls');
  checkPortPolicy(policy, faults);
  const ports = policy.portLevelSettings;
  unique(faults.at('portLevelSettings'), ports, ['port', 'number'], 'port', (setting) => setting.port.number);
  each(faults.at('portLevelSettings'), ports, (setting, at) => {
    checkPort(at.at('port', 'number'), setting.port.number);
    checkPortPolicy(setting, at);
  });
  if (policy.tunnel !== undefined) checkPort(faults.at('tunnel', 'targetPort'), policy.tunnel.targetPort);
  checkPercent(faults.at('retryBudget', 'percent'), policy.retryBudget?.percent?.value);
}

function checkPortPolicy(policy: Omit<PortTrafficPolicy, 'port'>, faults: ValidationErrors): void {
  if (policy.loadBalancer !== undefined) checkLoadBalancer(policy.loadBalancer, faults.at('loadBalancer'));
  if (policy.connectionPool !== undefined) checkConnectionPool(policy.connectionPool, faults.at('connectionPool'));
  if (policy.outlierDetection !== undefined) checkOutliers(policy.outlierDetection, faults.at('outlierDetection'));
  if (policy.tls !== undefined) checkClientTls(policy.tls, faults.at('tls'));
}

function checkLoadBalancer(settings: LoadBalancerSettings, faults: ValidationErrors): void {
  const { simple, consistentHash, localityLbSetting } = settings;
  if (simple !== undefined && consistentHash !== undefined) {
    faults.add(['consistentHash'], 'expected either simple or consistentHash');
  }
  if (consistentHash !== undefined) checkConsistentHash(consistentHash, faults.at('consistentHash'));
  if (localityLbSetting !== undefined) checkLocalityLb(localityLbSetting, faults.at('localityLbSetting'));
  checkNotNegative(faults.at('warmupDurationSecs'), settings.warmupDurationSecs);
  if (settings.warmup !== undefined) checkWarmup(settings.warmup, faults.at('warmup'));
}

function checkWarmup(
  { duration, minimumPercent, aggression }: NonNullable<LoadBalancerSettings['warmup']>,
  faults: ValidationErrors,
): void {
  if (duration === undefined) faults.add(['duration'], 'required, expected a duration such as "30s"');
  else checkDuration(faults.at('duration'), duration);
  checkPercent(faults.at('minimumPercent'), minimumPercent);
  if (aggression !== undefined && aggression < 1)
    faults.add(['aggression'], `expected a number from 1, got ${aggression}`);
}

function checkConsistentHash(hash: ConsistentHash, faults: ValidationErrors): void {
  const keys = (['httpHeaderName', 'httpCookie', 'useSourceIp', 'httpQueryParameterName'] as const).filter(
    (field) => hash[field] !== undefined && hash[field] !== false,
  );
  if (keys.length !== 1) {
    faults.add([], 'expected exactly one of httpHeaderName, httpCookie, useSourceIp, httpQueryParameterName');
  }
  if (hash.httpHeaderName !== undefined) checkHeaderName(faults.at('httpHeaderName'), hash.httpHeaderName);
  if (hash.httpCookie?.name === '') faults.add(['httpCookie', 'name'], 'expected a cookie name');
  checkNotNegative(faults.at('httpCookie', 'ttl'), hash.httpCookie?.ttl);
  if (hash.ringHash !== undefined && hash.maglev !== undefined)
    faults.add(['maglev'], 'expected either ringHash or maglev');
  const ring = hash.ringHash?.minimumRingSize ?? hash.minimumRingSize;
  if (ring !== undefined && ring > MAX_RING) faults.add([], `expected a ring size of at most ${MAX_RING}, got ${ring}`);
  const table = hash.maglev?.tableSize;
  if (table !== undefined && (table > MAX_MAGLEV_TABLE || !isPrime(table))) {
    faults.add(['maglev', 'tableSize'], `expected a prime number up to ${MAX_MAGLEV_TABLE}, got ${table}`);
  }
}

/** Envoy refuses a Maglev table whose size is no prime number. */
function isPrime(value: number): boolean {
  if (value < 2) return false;
  for (let divisor = 2; divisor * divisor <= value; divisor++) if (value % divisor === 0) return false;
  return true;
}

/** Localities are `region/zone/subzone`; also used for the mesh configuration's setting. */
export function checkLocalityLb(setting: LocalityLbSetting, faults: ValidationErrors): void {
  const ways = (['distribute', 'failover', 'failoverPriority'] as const).filter((field) => setting[field]?.length);
  if (ways.includes('distribute') && ways.length > 1)
    faults.add(['distribute'], `expected only one of ${ways.join(', ')}`);
  each(faults.at('distribute'), setting.distribute, (rule, at) => {
    const weights = Object.values(rule.to ?? {});
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    if (total !== 100) at.add(['to'], `expected weights with the sum 100, got ${total}`);
    if (weights.includes(0)) at.add(['to'], 'expected weights above 0');
    if (!rule.from) at.add(['from'], 'required, expected a locality such as "region/zone/*"');
  });
  unique(faults.at('distribute'), setting.distribute, ['from'], 'locality', (rule) => rule.from);
  each(faults.at('failover'), setting.failover, (rule, at) => {
    if (!rule.from) at.add(['from'], 'required, expected a region');
    if (!rule.to) at.add(['to'], 'required, expected a region');
    if (rule.from !== undefined && rule.from === rule.to) at.add(['to'], 'expected a region other than "from"');
    if (`${rule.from}${rule.to}`.includes('*')) at.add([], 'expected regions without wildcard');
  });
  unique(faults.at('failover'), setting.failover, ['from'], 'region', (rule) => rule.from);
}

/** Also the pool of a Sidecar's inbound side. */
export function checkConnectionPool(pool: ConnectionPool, faults: ValidationErrors): void {
  const { tcp, http } = pool;
  if (tcp === undefined && http === undefined) faults.add([], 'expected tcp or http');
  checkNotNegative(faults.at('tcp', 'maxConnections'), tcp?.maxConnections);
  for (const field of ['connectTimeout', 'maxConnectionDuration'] as const)
    checkDuration(faults.at('tcp', field), tcp?.[field]);
  checkNotNegative(faults.at('tcp', 'idleTimeout'), tcp?.idleTimeout);
  if (tcp?.tcpKeepalive !== undefined) checkTcpKeepalive(tcp.tcpKeepalive, faults.at('tcp', 'tcpKeepalive'));
  for (const field of [
    'http1MaxPendingRequests',
    'http2MaxRequests',
    'maxRequestsPerConnection',
    'maxRetries',
    'maxConcurrentStreams',
  ] as const) {
    checkNotNegative(faults.at('http', field), http?.[field]);
  }
  checkNotNegative(faults.at('http', 'idleTimeout'), http?.idleTimeout);
  if (http?.useClientProtocol === true && http.h2UpgradePolicy === 'UPGRADE') {
    faults.add(['http', 'useClientProtocol'], 'expected no useClientProtocol beside h2UpgradePolicy UPGRADE');
  }
}

/** Also the mesh configuration's. */
export function checkTcpKeepalive(keepalive: TcpKeepalive, faults: ValidationErrors): void {
  checkWholeSeconds(faults.at('time'), keepalive.time);
  checkWholeSeconds(faults.at('interval'), keepalive.interval);
}

/** Kernel keepalive options count seconds. */
function checkWholeSeconds(faults: ValidationErrors, millis: number | undefined): void {
  if (millis !== undefined && millis < 1000) faults.add([], `expected at least 1s, got ${millis}ms`);
}

function checkOutliers(outliers: OutlierDetection, faults: ValidationErrors): void {
  checkDuration(faults.at('interval'), outliers.interval);
  checkDuration(faults.at('baseEjectionTime'), outliers.baseEjectionTime);
  checkPercent(faults.at('maxEjectionPercent'), outliers.maxEjectionPercent);
  checkPercent(faults.at('minHealthPercent'), outliers.minHealthPercent);
  checkNotNegative(faults.at('consecutiveErrors'), outliers.consecutiveErrors);
  if (outliers.consecutiveLocalOriginFailures !== undefined && outliers.splitExternalLocalOriginErrors !== true) {
    faults.add(['consecutiveLocalOriginFailures'], 'expected splitExternalLocalOriginErrors: true beside it');
  }
}

function checkClientTls(tls: ClientTlsSettings, faults: ValidationErrors): void {
  const files = [tls.clientCertificate, tls.privateKey, tls.caCertificates].some(Boolean);
  if (tls.credentialName && files) faults.add(['credentialName'], 'expected either credentialName or files');
  if (tls.sni !== undefined && tls.sni.length > MAX_SNI) faults.add(['sni'], `expected at most ${MAX_SNI} characters`);
  if (tls.mode !== 'MUTUAL' || tls.credentialName) return;
  if (!tls.clientCertificate) faults.add(['clientCertificate'], 'required for mode MUTUAL');
  if (!tls.privateKey) faults.add(['privateKey'], 'required for mode MUTUAL');
}
