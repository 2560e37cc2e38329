/**
 * The agent's DNS server: names of the mesh from the name table that the control plane pushes, all others from the name
 * servers of resolv.conf or from the server of DNS_SERVER. docs/dns.md describes it.
 */
import { CtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import {
  createForwarder,
  createOwnAddresses,
  createTableResolver,
  type DnsAnswer,
  type DnsListener,
  type DnsResolver,
  type DnsServer,
  type DnsServerStats,
  type Forwarder,
  type ForwarderStats,
  followResolvConf,
  loopbackListeners,
  resolvConfUpstream,
  startDnsServer,
  tlsUpstream,
  type UpstreamSource,
} from '../../dns/index.ts';
import type { IdentityMetric, SecretSource } from '../types.ts';
import { type ControlPlaneConnection, NAME_TABLE_TYPE } from '../xds-proxy/index.ts';
import { MeshNames } from './mesh-names.ts';
import { type DnsPlan, isLoopback, type TlsServer } from './plan.ts';

export interface AgentDns {
  /** The reason why the workload is not ready yet; undefined when it is ready. */
  missing(): string | undefined;
  metrics(): readonly IdentityMetric[];
  close(): Promise<void>;
}

export interface AgentDnsOptions {
  readonly plan: DnsPlan;
  readonly connection: Pick<ControlPlaneConnection, 'subscribe'>;
  /** Undefined without certificates. */
  readonly secrets: SecretSource | undefined;
  /** PEM certificates of the authorities that the system trusts; undefined: those of Node.js. */
  readonly systemAuthorities: string | undefined;
  /** Default: /etc/resolv.conf. */
  readonly resolvConf?: string;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly log: Log;
}

/** RFC 1035, 4.1.1: the name does not exist. */
const NXDOMAIN = 3;

/**
 * Resolves names while the names of the mesh are not known yet. Names outside the mesh are resolved. NXDOMAIN is
 * replaced by SERVFAIL, because the name may be one of the mesh: clients cache that a name does not exist, and retry
 * after SERVFAIL.
 *
 * @param known whether the names are known, or no longer waited for; read for each query
 */
export function createWarmUpResolver(known: () => boolean): DnsResolver {
  return {
    resolve(_query, _client, next) {
      return known() ? next() : existing(next());
    },
  };
}

async function existing(answer: DnsAnswer): Promise<Buffer> {
  const response = await answer;
  // The lowest four bits of the fourth byte are the response code.
  if (((response[3] ?? 0) & 0x0f) !== NXDOMAIN) return response;
  throw new CtlError('unavailable', 'the names of the mesh are not known yet');
}

/** Rejects with CtlError when an address cannot be bound. */
export async function startAgentDns(options: AgentDnsOptions): Promise<AgentDns> {
  const { plan, connection, now, log } = options;
  const { namespace, domain } = plan;
  const conf = await followResolvConf({ path: options.resolvConf ?? '/etc/resolv.conf', log });
  let server: DnsServer | undefined;
  const isOwn = createOwnAddresses(() => server?.addresses ?? []);
  const upstream =
    plan.server === undefined ? resolvConfUpstream({ conf, isOwn, log }) : tlsServer(plan.server, options);
  const forwarder = createForwarder({ upstream, log });
  const others = measured(forwarder, now);
  const names = new MeshNames(log, now);
  const table = createTableResolver({
    scope: () => ({ table: names.table, namespace, domain, search: conf.current().search[0] }),
  });
  const close = async (): Promise<void> => {
    await server?.close();
    forwarder.close();
    conf.close();
  };
  try {
    server = await startDnsServer({
      listen: listenersOf(plan),
      resolvers: [createWarmUpResolver(() => !names.awaited()), table, others.resolver],
      clients: isLoopback(plan.address.host) ? 'local' : 'any',
      log,
    });
  } catch (error) {
    await close();
    throw error;
  }
  const { stats, addresses } = server;
  log.info('the DNS server is listening', { addresses: addresses.join(', ') });
  connection.subscribe({
    typeUrl: NAME_TABLE_TYPE,
    resourceNames: [],
    receive: (changes) => names.receive(changes),
  });
  return {
    missing: () => (names.awaited() ? 'the names of the mesh are not known yet' : undefined),
    metrics: () =>
      dnsMetrics({
        server: stats,
        forwarder: forwarder.stats,
        waitedMs: others.waitedMs(),
        names: names.table.size,
      }),
    close,
  };
}

function listenersOf({ address: { host, port } }: DnsPlan): readonly DnsListener[] {
  if (host === 'loopback') return loopbackListeners(port);
  return [{ host: host === 'all' ? undefined : host, port }];
}

/**
 * The control plane is verified with the root certificates of the mesh and is sent the workload's certificate; other
 * servers are sent no certificate.
 */
function tlsServer({ host, port, controlPlaneName }: TlsServer, options: AgentDnsOptions): UpstreamSource {
  const { secrets, systemAuthorities, log } = options;
  return tlsUpstream({
    server: { host, port },
    ...(controlPlaneName === undefined ? {} : { serverName: controlPlaneName }),
    log,
    certificates() {
      const current = secrets?.current();
      if (controlPlaneName === undefined) {
        if (systemAuthorities === undefined) return {};
        return { ca: [systemAuthorities, current?.roots ?? ''].join('\n') };
      }
      if (current === undefined) throw new CtlError('unavailable', 'the workload has no certificate yet');
      const { certificate, roots } = current;
      return { ca: roots, cert: certificate.chain, key: certificate.key };
    },
  });
}

/** Measures how long queries wait for an upstream server. */
function measured(forwarder: Forwarder, now: () => number): { resolver: DnsResolver; waitedMs: () => number } {
  let waited = 0;
  return {
    waitedMs: () => waited,
    resolver: {
      resolve(query, client, next) {
        const answer = forwarder.resolve(query, client, next);
        if (!(answer instanceof Promise)) return answer;
        const since = now();
        return answer.finally(() => {
          waited += now() - since;
        });
      },
    },
  };
}

/** Counters of the agent's DNS server as metrics. */
interface DnsCounters {
  readonly server: DnsServerStats;
  readonly forwarder: ForwarderStats;
  /** How long queries have waited for other servers, ms. */
  readonly waitedMs: number;
  readonly names: number;
}

function dnsMetrics({ server, forwarder, waitedMs, names }: DnsCounters): readonly IdentityMetric[] {
  return [
    ...Object.entries(server.queries).map(([protocol, value]) => ({
      name: 'dns_requests_total',
      value,
      labels: { protocol },
    })),
    ...[...server.responses].map(([code, value]) => ({ name: 'dns_responses_total', value, labels: { code } })),
    { name: 'dns_upstream_requests_total', value: forwarder.upstreamQueries },
    { name: 'dns_upstream_failures_total', value: forwarder.upstreamFailures },
    { name: 'dns_upstream_latency', value: Math.round(waitedMs) },
    { name: 'dns_names', value: names },
  ];
}
