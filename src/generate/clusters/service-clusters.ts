/** The clusters of one service for its clients: one per port, and one per port and subset of its destination rule. */
import { CtlError } from '../../core/errors.ts';
import type { ClientFiles } from '../../core/proxy.ts';
import type { MergedDestinationRule, Protocol } from '../../model/index.ts';
import { encode, envoy } from '../../protobuf/index.ts';
import type { ClientTlsSettings } from '../../resources/index.ts';
import {
  clusterName,
  configMetadata,
  effectivePolicy,
  gatewayPolicy,
  InputCache,
  isGatewayTls,
  joinedMetadata,
  meshServerName,
} from '../common/index.ts';
import { type ClusterTarget, type Discovery, discoveryOf, type EnvoyClientView } from '../endpoints/index.ts';
import {
  announcesByFilter,
  DYNAMIC_FORWARD_PROXY_CLUSTER,
  hasExtension,
  isHttp,
  KEEPS_ALPN,
  type MetricsSource,
  metricsSource,
  sharedCapabilities,
  tellsServers,
} from '../filters/index.ts';
import { isPassedOn } from '../listener-plans/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import {
  type ClientCredential,
  clientCredentials,
  gatewayKeyPair,
  MISSING_KEY_PAIR,
  readCredential,
} from '../secrets/index.ts';
import type { GeneratedResource, GenerationFinding, UnitOutput } from '../types.ts';
import { DEFAULT_PLACEMENT, type Placement } from '../views.ts';
import { circuitBreakers, connectionSettings, hasBudgetInterval, usableBudget } from './circuit-breakers.ts';
import {
  balanced,
  type CarriedEndpoints,
  carriedEndpoints,
  type DiscoveryInputs,
  discovered,
  endpointsOf,
  NOTHING_CARRIED,
} from './discovery.ts';
import { type MeshPeering, meshTransport, type Transport } from './mesh-upstream.ts';
import { outlierDetection } from './outlier-detection.ts';
import { announced } from './proxy-protocol.ts';
import { outboundLabels } from './stat-names.ts';
import { emptyCluster, type NamedCluster } from './static.ts';
import { serverNames, type Traffic } from './upstream-names.ts';
import { protocolOptions, type UpstreamHttp, upstreamHttp } from './upstream-protocol.ts';
import { type FileReader, originatedTls, tlsSocket, verifiesServer, withClientFiles } from './upstream-tls.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;

const NO_LABELS: Readonly<Record<string, string>> = {};

interface ClusterInputs extends DiscoveryInputs, MeshPeering {
  readonly rule: MergedDestinationRule | undefined;
  readonly part: EnvoyClientView['part'];
  /** Whether the view also passes through other proxies' mutual TLS to the service. */
  readonly passedOn: boolean;
  readonly files: FileReader;
  /** Files of the proxies that replace those of the rule; one object for equal files. */
  readonly clientFiles: ClientFiles | undefined;
  /** Secrets for the rule's TLS settings, at gateways. */
  readonly credentials: string | undefined;
  /**
   * The key pair that the gateway presents if `atGateways` of the rule has TLS settings; undefined if there is none.
   */
  readonly keyPair: string | undefined;
  /** Whether ports without a declared protocol use HTTP/1.1. */
  readonly undeclaredHttp1: boolean;
  /** Whether Envoy supports the intervals of retry budgets; false if the rule has none. */
  readonly budgetIntervals: boolean;
  /** Whether the view's proxies have a filter that would override the ALPN protocols of TLS to external servers. */
  readonly keepsAlpn: boolean;
  /** The source of metrics, which reads the service from the metadata of clusters. */
  readonly metrics: MetricsSource | undefined;
}

const clusters = new InputCache<ClusterInputs, UnitOutput>('clusters of services', serviceClusters);

/** All clusters of a host in a scope, for each placement if they depend on it; none if the host is not in the scope. */
export function clustersOfHost(
  snapshot: MeshReader,
  view: EnvoyClientView,
  scope: ScopeReader,
  host: string,
  placements: readonly Placement[],
): UnitOutput {
  const service = scope.services.get(host);
  if (service === undefined) return { resources: [], findings: [] };
  const { memos, mesh, settings } = snapshot;
  const { part, endpointNames } = view;
  const { sds } = view.capabilities;
  const peers = sds ? snapshot.peers.get(service.key) : undefined;
  const rule = scope.rules.of(host);
  const passedOn = isPassedOn(snapshot, view, service);
  const credentials = clientCredentials(snapshot, view, rule);
  const files = fileReader(view);
  const keyPair = rule?.atGateways === undefined ? undefined : gatewayKeyPair(snapshot, view);
  const undeclaredHttp1 = view.part === 'gateway' && view.isolated === true;
  const tells = tellsServers(settings, view);
  const keepsAlpn = view.part === 'outbound' && announcesByFilter(settings, view);
  const budgetIntervals = view.capabilities.fieldsOf140 === true && rule !== undefined && hasBudgetInterval(rule);
  const dynamicDns = service.resolution === 'dynamic' && hasExtension(view, DYNAMIC_FORWARD_PROXY_CLUSTER);
  const metrics = metricsSource(snapshot, view);
  const output = (carried: CarriedEndpoints): UnitOutput =>
    clusters.get(memos, service, {
      memos,
      service,
      rule,
      mesh,
      settings,
      part,
      passedOn,
      endpointNames,
      sds,
      files,
      clientFiles: sharedCapabilities(memos, view).clientFiles,
      peers,
      credentials,
      keyPair,
      undeclaredHttp1,
      budgetIntervals,
      dynamicDns,
      tellsServers: tells,
      keepsAlpn,
      metrics,
      ...carried,
    });
  if (dynamicDns) return output({ ...NOTHING_CARRIED, families: view.families });
  if (service.resolution !== 'dns') return output(NOTHING_CARRIED);
  const byDefault = carriedEndpoints(snapshot, view, DEFAULT_PLACEMENT, service, rule);
  if (!byDefault.placed) return output(byDefault);
  const outputs = placements.map((placement) => output(carriedEndpoints(snapshot, view, placement, service, rule)));
  // Findings are the same in every placement.
  const { findings } = outputs[0] ?? output(byDefault);
  return { resources: [], findings, placed: outputs.map(({ resources }) => resources) };
}

function fileReader({ capabilities }: EnvoyClientView): FileReader {
  if (!capabilities.sds) return 'envoy';
  return capabilities.istioAgent === true ? 'istio-agent' : 'agent';
}

function serviceClusters(inputs: ClusterInputs): UnitOutput {
  const { service, rule } = inputs;
  const host = service.hostname;
  const resources = new Map<string, GeneratedResource>();
  const findings: GenerationFinding[] = [];
  for (const port of service.ports) {
    if (port.protocol === 'UDP') continue;
    for (const subset of [undefined, ...(rule?.subsets ?? [])]) {
      const name = clusterName('outbound', port.port, subset?.name ?? '', host);
      if (resources.has(name)) {
        const message = `${name} is defined more than once; the first definition applies`;
        findings.push({ metric: 'ctl_duplicate_proxy_clusters', type: 'cds', unit: host, message });
        continue;
      }
      const policyOf = inputs.part === 'gateway' ? gatewayPolicy : effectivePolicy;
      const policy = policyOf(rule, subset, port.port);
      const target = { service, port, subset: subset?.name ?? '', labels: subset?.labels ?? NO_LABELS, policy };
      const credential = policy.tls && readCredential(inputs.credentials, policy.tls);
      const missing = missingFor(policy.tls, credential, inputs);
      if (missing !== undefined) {
        const message = `${name}: ${missing}`;
        findings.push({ metric: 'ctl_missing_credentials', type: 'cds', unit: host, message });
        resources.set(name, closedCluster(emptyCluster(name, inputs.mesh.connectTimeout)));
      } else resources.set(name, serviceCluster(inputs, name, target, credential));
      if (!inputs.passedOn) continue;
      const passed = meshServerName(port.port, target.subset, host);
      resources.set(passed, passingCluster(inputs, passed, target));
    }
  }
  return { resources: [...resources.values()], findings };
}

/** Why a cluster cannot make its TLS connections; undefined when it can. */
function missingFor(
  tls: ClientTlsSettings | undefined,
  credential: ClientCredential | undefined,
  { keyPair, rule }: ClusterInputs,
): string | undefined {
  if (tls === undefined) return undefined;
  if (tls.unusable === true) return 'the CA certificates to verify the server cannot be used';
  if (keyPair === MISSING_KEY_PAIR && isGatewayTls(rule, tls))
    return 'waits for the key pair of the gateway as a client';
  return credential?.missing;
}

function serviceCluster(
  inputs: ClusterInputs,
  name: string,
  target: ClusterTarget,
  credential: ClientCredential | undefined,
): GeneratedResource {
  const { service, port, policy } = target;
  const { mesh, settings } = inputs;
  const pool = policy.connectionPool;
  const tls = originatedTls(policy.tls);
  const undeclared = inputs.undeclaredHttp1 && port.protocol === 'Unsupported';
  const speaks = upstreamHttp(
    undeclared ? 'HTTP' : port.protocol,
    pool?.http,
    settings.sniffOutbound,
    mesh.h2UpgradePolicy === 'UPGRADE' && !undeclared,
  );
  const discovery = discoveryOf(service, policy, settings, inputs);
  const names = tls && serverNames(tls, service, trafficOf(port.protocol, speaks), verifiesServer(tls));
  const transport: Transport =
    tls !== undefined && names !== undefined
      ? {
          ...(inputs.keepsAlpn && KEEPS_ALPN),
          transportSocket: tlsSocket({
            tls: withClientFiles(tls, inputs.clientFiles),
            credential,
            keyPair: isGatewayTls(inputs.rule, tls) ? inputs.keyPair : undefined,
            names,
            files: inputs.files,
            http2: speaks === 'http2',
          }),
        }
      : policy.tls !== undefined && policy.tls.mode !== 'MESH_MUTUAL'
        ? {}
        : meshTransport(inputs, target, discovery, speaks);
  const labels = outboundLabels(inputs.mesh, inputs.metrics, target);
  const cluster: Cluster = {
    name,
    ...labels,
    ...connectionSettings(pool, mesh.connectTimeout, mesh.tcpKeepalive),
    ...circuitBreakers(pool, usableBudget(policy.retryBudget, inputs.budgetIntervals)),
    ...protocolOptions(speaks, pool, names),
    ...(policy.proxyProtocol === undefined ? transport : announced(transport, policy.proxyProtocol)),
    ...joinedMetadata(originOf(inputs.rule), labels, transport),
    ...(policy.outlierDetection !== undefined && { outlierDetection: outlierDetection(policy.outlierDetection) }),
    ...endpointsOf(inputs, name, target, discovery, 'transportSocket' in transport),
  };
  return encodeCluster(cluster, name, discovery);
}

/** The first of the rules that are merged for the host, as in Istio. */
function originOf(rule: MergedDestinationRule | undefined): Pick<Cluster, 'metadata'> {
  const [, namespace = '', name = ''] = rule?.sources[0]?.split('/') ?? [];
  return configMetadata('destination-rule', namespace, name);
}

/** The traffic of a cluster: if the protocol is detected, it has TCP connections, too. */
function trafficOf(protocol: Protocol, speaks: UpstreamHttp): Traffic {
  if (speaks === 'none') return 'bytes';
  return isHttp(protocol) ? 'requests' : 'both';
}

/** A cluster for mutual TLS connections of other proxies, which are passed through unchanged. */
function passingCluster(inputs: ClusterInputs, name: string, target: ClusterTarget): GeneratedResource {
  const { service, policy } = target;
  const { mesh, settings } = inputs;
  const pool = policy.connectionPool;
  const discovery = discoveryOf(service, policy, settings, inputs);
  if (discovery === 'none') return closedCluster(emptyCluster(name, mesh.connectTimeout));
  if (discovery === 'original' || discovery === 'dynamic')
    throw new CtlError('internal', `${name}: gateways have no original destination`);
  const labels = outboundLabels(inputs.mesh, inputs.metrics, target);
  const cluster: Cluster = {
    name,
    ...labels,
    ...joinedMetadata(originOf(inputs.rule), labels),
    ...connectionSettings(pool, mesh.connectTimeout, mesh.tcpKeepalive),
    ...circuitBreakers(pool, usableBudget(policy.retryBudget, inputs.budgetIntervals)),
    ...(policy.outlierDetection !== undefined && { outlierDetection: outlierDetection(policy.outlierDetection) }),
    ...balanced(inputs, target),
    ...discovered(inputs, name, target, discovery, true),
  };
  return encodeCluster(cluster, name, discovery);
}

function encodeCluster(cluster: Cluster, name: string, discovery: Discovery): GeneratedResource {
  const bytes = encode(envoy.config.cluster.v3.Cluster, cluster);
  return { name, bytes, refs: discovery === 'eds' ? [cluster.edsClusterConfig?.serviceName ?? name] : [] };
}

/** A cluster without references to other resources. */
export function closedCluster(cluster: NamedCluster): GeneratedResource {
  return { name: cluster.name, bytes: encode(envoy.config.cluster.v3.Cluster, cluster), refs: [] };
}
