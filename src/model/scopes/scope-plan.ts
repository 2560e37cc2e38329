/**
 * The plan of a scope, parsed once from its Sidecar: which host names of which namespaces each of its egress listeners
 * imports. Without a Sidecar, one listener imports everything.
 */
import { type ConnectionPool, type Destination, keyOf, type MeshConfig, type Resource } from '../../resources/index.ts';
import { addTo } from '../common/groups.ts';
import { canonicalHost, fullHostname, hostMatches, hostsOverlap, isWildcardHost } from '../common/hosts.ts';
import { parseProtocol } from '../common/protocol.ts';
import type { EgressListener, ModelSettings, Scope } from '../types/types.ts';

type Sidecar = Resource<'Sidecar'>;

/** Host patterns of one namespace, or of all (`*`). */
interface Patterns {
  readonly exact: ReadonlySet<string>;
  readonly wildcards: readonly string[];
}

export interface ListenerPlan {
  readonly port: EgressListener['port'];
  /** Only services with this port are imported; 0: with any. */
  readonly servicePort: number;
  readonly bind: string;
  readonly captureMode: EgressListener['captureMode'];
  /** Imports everything that the namespace sees and that has the port. */
  readonly everything: boolean;
  /** Namespace or `*` → the imported host patterns. */
  readonly imports: ReadonlyMap<string, Patterns>;
  /** Namespace or `*` → host patterns that are excluded, even if other entries import them. */
  readonly excluded: ReadonlyMap<string, Patterns>;
  /** Equal for listeners with the same imports, at any ports. */
  readonly importsKey: string;
}

export interface ScopePlan {
  readonly id: string;
  readonly namespace: string;
  readonly sidecar: Sidecar | undefined;
  readonly listeners: readonly ListenerPlan[];
  readonly ingress: Scope['ingress'];
  /** Undefined: that of the mesh configuration. */
  readonly outboundTrafficPolicy: Scope['outboundTrafficPolicy'] | undefined;
  readonly egressProxy: Destination | undefined;
  readonly inboundConnectionPool: ConnectionPool | undefined;
}

const ALL: readonly string[] = ['*/*'];
const NO_PATTERNS: Patterns = { exact: new Set(), wildcards: [] };

/** Id of the scope of proxies without a Sidecar, and of gateways. */
export function defaultScopeId(namespace: string): string {
  return `${namespace}/`;
}

/** Id of the scope of a Sidecar. The root namespace's Sidecar has one scope for each namespace that it applies to. */
export function sidecarScopeId(namespace: string, sidecar: Sidecar): string {
  const { namespace: owner, name } = sidecar.meta;
  return owner === namespace ? `${namespace}/${name}` : `${namespace}/${owner}/${name}`;
}

/** The settings of the program and the mesh configuration that plans read. */
export interface PlanSettings {
  /** DNS domain of the mesh's services, for short host names. */
  readonly domain: string;
  /** Port of the HTTP proxy listener; 0: none. */
  readonly proxyHttpPort: number;
}

export function planSettings({
  settings,
  mesh,
}: {
  readonly settings: Pick<ModelSettings, 'domain'>;
  readonly mesh: Pick<MeshConfig, 'proxyHttpPort'>;
}): PlanSettings {
  return { domain: settings.domain, proxyHttpPort: mesh.proxyHttpPort };
}

export function planScope(
  namespace: string,
  sidecar: Sidecar | undefined,
  { domain, proxyHttpPort }: PlanSettings,
): ScopePlan {
  const content = sidecar?.content;
  const egress = content?.egress === undefined || content.egress.length === 0 ? undefined : content.egress;
  const policy = content?.outboundTrafficPolicy;
  return {
    id: sidecar === undefined ? defaultScopeId(namespace) : sidecarScopeId(namespace, sidecar),
    namespace,
    sidecar,
    listeners: withHttpProxy(egress ?? [{ hosts: ALL }], proxyHttpPort).map((each) => planListener(each, namespace)),
    ingress: content?.ingress === undefined || content.ingress.length === 0 ? undefined : content.ingress,
    // REGISTRY_ONLY is the first value of the enumeration, so `outboundTrafficPolicy: {}` means it.
    outboundTrafficPolicy: policy === undefined ? undefined : (policy.mode ?? 'REGISTRY_ONLY'),
    egressProxy: sidecar && egressProxyOf(sidecar, domain),
    inboundConnectionPool: content?.inboundConnectionPool,
  };
}

function egressProxyOf({ meta, content }: Sidecar, domain: string): Destination | undefined {
  const { mode, egressProxy } = content.outboundTrafficPolicy ?? {};
  if (mode !== 'ALLOW_ANY' || egressProxy === undefined) return undefined;
  return { ...egressProxy, host: fullHostname(egressProxy.host, meta.namespace, domain) };
}

/**
 * Adds the listener of `proxyHttpPort` at the loopback address, with the imports of the listeners without a port. If
 * all listeners of a Sidecar have ports, it is not added.
 */
function withHttpProxy(listeners: readonly WrittenListener[], port: number): readonly WrittenListener[] {
  if (port === 0 || listeners.some((each) => each.port?.number === port)) return listeners;
  const hosts = listeners.flatMap((each) => (each.port === undefined ? each.hosts : []));
  if (hosts.length === 0) return listeners;
  const proxy = {
    port: { number: port, protocol: 'HTTP_PROXY', name: 'http_proxy' },
    captureMode: 'NONE',
    hosts,
  } as const;
  return [...listeners, proxy];
}

interface WrittenListener {
  readonly port?: NonNullable<Sidecar['content']['egress']>[number]['port'];
  readonly bind?: string | undefined;
  readonly captureMode?: EgressListener['captureMode'] | undefined;
  readonly hosts: readonly string[];
}

function planListener({ port, bind, captureMode, hosts }: WrittenListener, namespace: string): ListenerPlan {
  const imported = new Map<string, Set<string>>();
  const excluded = new Map<string, Set<string>>();
  for (const written of hosts) {
    if (written === '~/*') continue;
    const slash = written.indexOf('/');
    const owner = slash < 0 ? '*' : written.slice(0, slash);
    const host = canonicalHost(written.slice(slash + 1));
    const from = owner.startsWith('~') ? owner.slice(1) || '*' : owner;
    addTo(owner.startsWith('~') ? excluded : imported, from === '.' ? namespace : from, host);
  }
  const proxy = port?.protocol?.toUpperCase() === 'HTTP_PROXY';
  const number = port?.number ?? 0;
  const servicePort = proxy ? 0 : number;
  return {
    port:
      port === undefined
        ? undefined
        : {
            number,
            protocol: proxy ? 'HTTP' : parseProtocol(port.protocol),
            name: port.name ?? '',
            ...(proxy && { proxy }),
          },
    servicePort,
    bind: bind ?? '',
    captureMode: captureMode ?? 'DEFAULT',
    everything: excluded.size === 0 && (imported.get('*')?.has('*') ?? false),
    imports: patternsOf(imported),
    excluded: patternsOf(excluded),
    importsKey: hosts.join(' '),
  };
}

function patternsOf(hosts: ReadonlyMap<string, ReadonlySet<string>>): ReadonlyMap<string, Patterns> {
  const patterns = new Map<string, Patterns>();
  for (const [owner, all] of hosts) {
    const wildcards = [...all].filter(isWildcardHost);
    patterns.set(owner, { exact: new Set([...all].filter((host) => !isWildcardHost(host))), wildcards });
  }
  return patterns;
}

/** The hosts in the egress listeners of a Sidecar. */
export interface NamedHosts {
  /** Those without wildcards, sorted. */
  readonly hosts: readonly string[];
  /** Whether others are imported as well. */
  readonly hasWildcards: boolean;
}

export function namedHosts({ content: { egress = [] } }: Sidecar): NamedHosts {
  const imported = egress.flatMap(({ hosts }) => hosts).filter((host) => !host.startsWith('~'));
  const names = imported.map((host) => canonicalHost(host.slice(host.indexOf('/') + 1)));
  const hosts = [...new Set(names.filter((name) => !isWildcardHost(name)))].sort();
  return { hosts, hasWildcards: egress.length === 0 || names.some(isWildcardHost) };
}

/** Whether a listener imports `hostname` (possibly a wildcard) defined in `owner`. */
export function importsHost(plan: ListenerPlan, owner: string, hostname: string): boolean {
  if (plan.everything) return true;
  if (isExcluded(plan, owner, hostname)) return false;
  for (const from of [owner, '*']) {
    const imports = plan.imports.get(from);
    if (imports === undefined) continue;
    if (imports.exact.has(hostname)) return true;
    if (imports.wildcards.some((pattern) => hostsOverlap(pattern, hostname))) return true;
    if (isWildcardHost(hostname)) for (const host of imports.exact) if (hostMatches(hostname, host)) return true;
  }
  return false;
}

function isExcluded({ excluded }: ListenerPlan, owner: string, hostname: string): boolean {
  if (excluded.size === 0) return false;
  return [owner, '*'].some((from) => {
    const { exact, wildcards } = excluded.get(from) ?? NO_PATTERNS;
    return exact.has(hostname) || wildcards.some((pattern) => hostMatches(pattern, hostname));
  });
}

/** The keys under which a scope is indexed: see {@link watchKeysOf}. */
export function planWatches(plan: ScopePlan): Set<string> {
  const watches = new Set<string>();
  for (const { imports } of plan.listeners) {
    for (const [owner, { exact, wildcards }] of imports) {
      for (const host of exact) watches.add(`${owner}/${host}`);
      if (wildcards.length > 0) watches.add(`${owner}/*`);
    }
  }
  return watches;
}

/** The keys of all scopes that may import `hostname` (not a wildcard) of `owner`. */
export function watchKeysOf(owner: string, hostname: string): readonly string[] {
  return [`${owner}/${hostname}`, `${owner}/*`, `*/${hostname}`, '*/*'];
}

export function sidecarKey(plan: ScopePlan): Scope['sidecar'] {
  return plan.sidecar === undefined ? undefined : keyOf(plan.sidecar);
}
