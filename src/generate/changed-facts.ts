/**
 * Computes the facts that a change of the mesh affects: the counterpart of the reads that a reader records (`reads/`).
 * Units that have read a changed fact are generated again, and no others; a property test compares that with generating
 * everything.
 */
import {
  type ChangeSet,
  clustersOfChange,
  gatewayName,
  hostMatches,
  isWildcardHost,
  type MergedDestinationRule,
  type MeshSnapshot,
  type Scope,
  type ScopeChange,
  type Service,
} from '../model/index.ts';
import type { AnyResource, Resource, ResourceKey } from '../resources/index.ts';
import { type EffectivePolicy, outboundRouteName, serviceRouteName } from './common/index.ts';
import { changedPolicyTraffic, isPolicyKey, policyNamespaces, targetHosts } from './indexes/index.ts';
import { passesOn } from './listener-plans/index.ts';
import { authorizerHostsOf } from './policies/index.ts';
import {
  DEFAULT_HTTP_PORT,
  type Fact,
  fact,
  isStream,
  mayBeHttp,
  routesConnections,
  routesRequests,
} from './reads/index.ts';
import { changedCredentials, namingSecrets } from './secrets/index.ts';
import type { Unit } from './types.ts';

/**
 * Changed facts. For a fact that is a list, the names of units that may be new. Undefined for other facts: if the list
 * of units depends on such a fact, any unit may have changed.
 */
export type FactChanges = ReadonlyMap<Fact, ReadonlySet<Unit> | undefined>;

export interface ChangedFacts {
  /** The mesh configuration or networks changed, so every fact may have changed. */
  readonly everything: boolean;
  readonly meshWide: FactChanges;
  /** By scope. For a scope that was replaced, added or removed, the only changed fact is `scope`. */
  readonly scopes: ReadonlyMap<string, FactChanges>;
}

type Collected = Map<Fact, Set<Unit> | undefined>;

/**
 * @param previous the snapshot before the change
 * @param next the snapshot after it
 */
export function changedFacts(previous: MeshSnapshot, next: MeshSnapshot, change: ChangeSet): ChangedFacts {
  const scopes = new Map<string, FactChanges>();
  if (change.everything) return { everything: true, meshWide: new Map(), scopes };
  for (const [id, scopeChange] of change.scopes) {
    scopes.set(id, scopeFacts(previous.scopeById(id), next.scopeById(id), scopeChange));
  }
  return { everything: false, meshWide: meshFacts(previous, next, change), scopes };
}

/**
 * The facts that a document is part of in this mesh and these scopes: a unit that has read one of them has read the
 * document.
 */
export function factsAbout(mesh: MeshSnapshot, key: ResourceKey, scopeIds: Iterable<string>): ChangedFacts {
  const scopes = new Map<string, FactChanges>();
  const meshWide: Collected = new Map([[fact.resource(key), undefined]]);
  if (key.startsWith('Telemetry/')) meshWide.set(fact.metrics(key), undefined);
  if (isPolicyKey(key))
    for (const namespace of policyNamespaces(mesh)) meshWide.set(fact.policyTraffic(namespace), undefined);
  const roots = new Set(mesh.rootsOf(key));
  for (const id of scopeIds) {
    const scope = mesh.scopeById(id);
    const facts: Collected = new Map();
    for (const [host, service] of scope?.services.sorted() ?? []) {
      if (scope === undefined) continue;
      if (service.source === key) {
        hostFacts(facts, [scope], host);
        meshWide.set(fact.peers(service.key), undefined).set(fact.endpoints(service.key), undefined);
      }
      if (scope.destinationRule(host)?.sources.includes(key) === true) ruleFacts(facts, [scope], host);
    }
    for (const { virtualServices } of scope?.egress ?? []) {
      const named = virtualServices.filter((each) => each.key === key || roots.has(each.key));
      for (const each of named) if (scope !== undefined) routeFacts(facts, [scope], each);
    }
    scopes.set(id, facts);
  }
  const bound = mesh.resources('VirtualService').get(key);
  if (bound !== undefined) boundFacts(meshWide, mesh, mesh, bound);
  rootFacts(meshWide, mesh, [mesh, mesh], key);
  return { everything: false, meshWide, scopes };
}

function list(facts: Collected, name: Fact, ...members: readonly Unit[]): void {
  const known = facts.get(name) ?? new Set();
  for (const member of members) known.add(member);
  facts.set(name, known);
}

function scopeFacts(before: Scope | undefined, after: Scope | undefined, change: ScopeChange): FactChanges {
  const facts: Collected = new Map();
  if (change.everything || before === undefined || after === undefined) return facts.set(fact.SCOPE, undefined);
  const scopes = [before, after];
  if (change.destinationRules.size > 0) facts.set(fact.ANY_HOST, undefined);
  for (const host of change.hosts) {
    const clusters = clustersOfHost(before, after, host);
    if (clusters === undefined) hostFacts(facts.set(fact.ANY_HOST, undefined), scopes, host);
    else for (const cluster of clusters) addressFacts(facts, cluster, scopes, host);
  }
  for (const host of change.destinationRules) ruleFacts(facts, scopes, host);
  for (const { before: old, after: current } of change.virtualServices.values()) {
    for (const virtualService of [old, current]) {
      if (virtualService !== undefined) routeFacts(facts, scopes, virtualService);
    }
  }
  return facts;
}

/**
 * The clusters whose proxies are the only ones affected by a change of a host's service; undefined if all are affected.
 */
function clustersOfHost(before: Scope, after: Scope, host: string): ReadonlySet<string> | undefined {
  const clusters = new Set<string>();
  const lists = [before, after].map((scope) => [scope, ...scope.egress].map(({ services }) => services.get(host)));
  const [was = [], is = []] = lists;
  for (let index = 0; index < Math.max(was.length, is.length); index++) {
    if (was[index] === is[index]) continue;
    const found = clustersOfChange(was[index], is[index]);
    if (found === undefined) return undefined;
    for (const cluster of found) clusters.add(cluster);
  }
  return clusters;
}

/** The addresses of a service in a cluster changed. */
function addressFacts(facts: Collected, cluster: string, scopes: readonly Scope[], host: string): void {
  const ofHost: Collected = new Map([[fact.ANY_HOST, undefined]]);
  hostFacts(ofHost, scopes, host);
  for (const [name, members] of ofHost) {
    if (!fact.isOfServices(name)) continue;
    if (members === undefined) facts.set(fact.inCluster(cluster, name), undefined);
    else list(facts, fact.inCluster(cluster, name), ...members);
  }
}

/** A service was added, removed or redefined. */
function hostFacts(facts: Collected, scopes: readonly Scope[], host: string): void {
  facts.set(fact.ANY_SERVICE, undefined).set(fact.host(host), undefined);
  list(facts, fact.HOSTS, host);
  for (const scope of scopes) {
    for (const { number, http } of portsOf(scope, host)) {
      facts.set(fact.port(number), undefined);
      list(facts, fact.PORTS, String(number));
      if (!http) continue;
      facts.set(fact.httpPort(number), undefined);
      list(facts, fact.HTTP_PORTS, outboundRouteName(number), serviceRouteName(host, number));
    }
    for (const { port } of scope.services.get(host)?.ports ?? []) facts.set(fact.anyPort(port), undefined);
    if (namesSecrets(scope.destinationRule(host))) facts.set(fact.NAMING_SECRETS, undefined);
  }
}

function ruleFacts(facts: Collected, scopes: readonly Scope[], host: string): void {
  facts.set(fact.rule(host), undefined);
  const rules = scopes.map((scope) => scope.destinationRule(host));
  if (rules.some(namesSecrets)) facts.set(fact.NAMING_SECRETS, undefined);
  const [hashes, originates] = [rules.some(hashesBy), rules.some(originatesTls)];
  const forwards = rules.some(decidesForwarding);
  if (hashes) facts.set(fact.hash(host), undefined);
  if (forwards) facts.set(fact.forwarding(host), undefined);
  if (originates) facts.set(fact.tls(host), undefined);
  for (const { number, http } of scopes.flatMap((scope) => portsOf(scope, host))) {
    if (forwards) facts.set(fact.forwardingAt(number), undefined);
    if (hashes && http) facts.set(fact.httpHashAt(number), undefined);
    if (originates) facts.set(fact.tlsAt(number), undefined);
  }
}

/** Called with a virtual service as it was before the change and as it is after it. */
function routeFacts(
  facts: Collected,
  scopes: readonly Scope[],
  virtualService: Parameters<typeof routesRequests>[0],
): void {
  const [requests, connections] = [routesRequests(virtualService), routesConnections(virtualService)];
  for (const scope of scopes) {
    for (const pattern of virtualService.hosts) {
      const services = servicesMatching(scope, pattern);
      if (requests && !services.some(hasDefaultPort)) facts.set(fact.routesAt(DEFAULT_HTTP_PORT), undefined);
      for (const { hostname } of services) {
        if (requests) facts.set(fact.routesFor(hostname), undefined);
        for (const { number, http } of portsOf(scope, hostname)) {
          if (requests && http) facts.set(fact.routesAt(number), undefined);
          if (connections) facts.set(fact.connectionsAt(number), undefined);
        }
      }
    }
  }
}

/** Prefix of an egress listener's `bind` for a unix domain socket. */
const SOCKET = 'unix://';

/**
 * The ports at which a scope has listeners for a service: its own, and those of egress listeners for any service port.
 */
function portsOf(scope: Scope, host: string): { readonly number: number; readonly http: boolean }[] {
  const own = scope.services.get(host)?.ports.filter(isStream) ?? [];
  const found = own.map((port) => ({ number: port.port, http: mayBeHttp(port) }));
  for (const { port, bind, services } of scope.egress) {
    if (port === undefined || !services.has(host)) continue;
    const http = mayBeHttp(port);
    found.push({ number: port.number, http });
    if (bind.startsWith(SOCKET)) found.push({ number: 0, http });
  }
  return found;
}

function servicesMatching({ services }: Scope, pattern: string): readonly Service[] {
  if (isWildcardHost(pattern)) return [...services.values()].filter(({ hostname }) => hostMatches(pattern, hostname));
  const service = services.get(pattern);
  return service === undefined ? [] : [service];
}

function hasDefaultPort({ ports }: Service): boolean {
  return ports.some(({ port }) => port === DEFAULT_HTTP_PORT);
}

/** A rule and its variants. */
function eachOf(rule: MergedDestinationRule | undefined): readonly MergedDestinationRule[] {
  return rule === undefined ? [] : [rule, ...(rule.variants ?? []).map((variant) => variant.rule)];
}

/** Every traffic policy in a rule. */
function policiesOf(rule: MergedDestinationRule | undefined): EffectivePolicy[] {
  const policies = eachOf(rule).flatMap((each) => [
    each.atGateways,
    ...[each, ...each.subsets].map(({ trafficPolicy }) => trafficPolicy),
  ]);
  return policies.flatMap((policy) => (policy === undefined ? [] : [policy, ...(policy.portLevelSettings ?? [])]));
}

function hashesBy(rule: MergedDestinationRule | undefined): boolean {
  return policiesOf(rule).some(({ loadBalancer }) => loadBalancer?.consistentHash !== undefined);
}

/** Whether TCP proxies to the host have settings of the rule. */
function decidesForwarding(rule: MergedDestinationRule | undefined): boolean {
  return policiesOf(rule).some(({ loadBalancer, connectionPool, tunnel }) => {
    const { idleTimeout, maxConnectionDuration } = connectionPool?.tcp ?? {};
    const settings = [loadBalancer?.consistentHash, tunnel, idleTimeout, maxConnectionDuration];
    return loadBalancer?.simple === 'PASSTHROUGH' || settings.some((it) => it !== undefined);
  });
}

function originatesTls(rule: MergedDestinationRule | undefined): boolean {
  return policiesOf(rule).some(({ tls }) => tls?.mode === 'SIMPLE' || tls?.mode === 'MUTUAL');
}

function namesSecrets(rule: MergedDestinationRule | undefined): boolean {
  return eachOf(rule).some((each) => namingSecrets(each).length > 0);
}

function meshFacts(previous: MeshSnapshot, next: MeshSnapshot, change: ChangeSet): FactChanges {
  const facts: Collected = new Map();
  if (change.workloadRanges) facts.set(fact.WORKLOAD_RANGES, undefined);
  for (const key of change.endpoints) facts.set(fact.endpoints(key), undefined);
  for (const key of change.peers) facts.set(fact.peers(key), undefined);
  for (const [key, { before, after }] of change.configs) {
    facts.set(fact.resource(key), undefined);
    for (const resource of [before, after]) {
      if (resource?.kind === 'Gateway' && passesOn(resource)) {
        facts.set(fact.passing(`${resource.meta.namespace}/${resource.meta.name}`), undefined);
      }
      if (resource?.kind === 'VirtualService') boundFacts(facts, previous, next, resource);
    }
    for (const mesh of [previous, next]) rootFacts(facts, mesh, [previous, next], key);
    if (key.startsWith('Secret/')) {
      const changed = changedCredentials(previous.resources('Secret'), next.resources('Secret'), key);
      for (const each of changed) facts.set(each, undefined);
    }
    authorizerFacts(facts, key, [previous, next], before, after);
    if (key.startsWith('Telemetry/') && metricsOf(before) !== metricsOf(after)) facts.set(fact.metrics(key), undefined);
  }
  for (const namespace of changedPolicyTraffic(previous, next, change.configs.keys()))
    facts.set(fact.policyTraffic(namespace), undefined);
  return facts;
}

function metricsOf(resource: AnyResource | undefined): string | undefined {
  return resource?.kind === 'Telemetry' ? JSON.stringify(resource.content.metrics) : undefined;
}

/** Adds the gateways of the virtual services that delegate to a virtual service. */
function rootFacts(
  facts: Collected,
  mesh: MeshSnapshot,
  [previous, next]: readonly [MeshSnapshot, MeshSnapshot],
  key: ResourceKey,
): void {
  if (!key.startsWith('VirtualService/')) return;
  for (const root of mesh.rootsOf(key)) {
    const resource = mesh.resources('VirtualService').get(root);
    if (resource !== undefined) boundFacts(facts, previous, next, resource);
  }
}

/** Adds facts for the gateways that a virtual service is bound to, before or after the change. */
function boundFacts(
  facts: Collected,
  previous: MeshSnapshot,
  next: MeshSnapshot,
  { meta, content }: Resource<'VirtualService'>,
): void {
  for (const written of content.gateways ?? []) {
    const gateway = gatewayName(written, meta.namespace);
    if ((content.http ?? []).length > 0) facts.set(fact.gatewayRoutes(gateway), undefined);
    if ((content.tcp ?? []).length > 0 || (content.tls ?? []).length > 0)
      facts.set(fact.gatewayConnections(gateway), undefined);
    if (!next.settings.filterGatewayClusters) continue;
    const [before, after] = [previous, next].map((mesh) =>
      targetHosts(mesh.memos, mesh.virtualServicesOfGateway(gateway)),
    );
    if (before === undefined || after === undefined || before === after) continue;
    for (const host of before.symmetricDifference(after)) {
      facts.set(fact.target(gateway, host), undefined);
      list(facts, fact.targets(gateway), host);
    }
  }
}

function authorizerFacts(
  facts: Collected,
  key: ResourceKey,
  meshes: readonly MeshSnapshot[],
  ...policies: readonly (AnyResource | undefined)[]
): void {
  if (!key.startsWith('AuthorizationPolicy/')) return;
  const [before, after] = meshes.map(({ settings, mesh }, index) => {
    const policy = policies[index];
    return new Set(authorizerHostsOf(policy?.kind === 'AuthorizationPolicy' ? policy : undefined, settings, mesh));
  });
  if (before === undefined || after === undefined) return;
  for (const host of before.symmetricDifference(after)) {
    facts.set(fact.authorizerHost(key, host), undefined);
    list(facts, fact.authorizerHosts(key), host);
  }
}
