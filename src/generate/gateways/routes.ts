/** Route configurations of a gateway: the virtual services bound to its servers, host by host. */
import { compareMeta, compareText, matchingPatterns, type ResolvedVirtualService } from '../../model/index.ts';
import { commonHosts, settleDomains } from '../domains/index.ts';
import { type GatewayPlan, gatewayPlan, type ServerPlan } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import {
  cachedVirtualHosts,
  contextKey,
  encodedVirtualHost,
  encodeVirtualHost,
  hasRoutes,
  joinRoutes,
  MAX_BODY_BYTES,
  type RouteContext,
  routeConfiguration,
  type VirtualHostMessage,
  virtualServiceRoutes,
  withSharedRetries,
} from '../routes/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { GatewayView } from '../views.ts';
import { gatewayContext } from './context.ts';
import { httpsPort, redirectRoutes } from './https-redirect.ts';
import { misdirectedHosts } from './misdirected.ts';

/**
 * A candidate for domains of a route configuration: a host with routes, or one that other servers serve (`content`
 * undefined).
 */
interface HostCandidate {
  readonly host: string;
  readonly content: GatewayHost | undefined;
}

/** A virtual service with the gateway that it is bound to, because its matches may name gateways. */
interface Contribution {
  readonly virtualService: ResolvedVirtualService;
  readonly gateway: string;
}

interface GatewayHost {
  readonly contributions: Contribution[];
  httpsRedirect: boolean;
}

/** Names of all route configurations that the gateway's listeners request. */
export function gatewayRouteUnits(snapshot: MeshReader, view: GatewayView): readonly Unit[] {
  return [...gatewayPlan(snapshot, view).routes.keys()];
}

export function gatewayRoutes(snapshot: MeshReader, view: GatewayView, unit: Unit): UnitOutput {
  const plan = gatewayPlan(snapshot, view);
  const servers = plan.routes.get(unit);
  const [first] = servers ?? [];
  if (servers === undefined || first === undefined) return { resources: [], findings: [] };
  const context = gatewayContext(snapshot, view, first.port, first.gateway);
  const misdirected = misdirectedHosts(snapshot.memos, plan, first);
  const served = [...gatewayHosts(servers, snapshot, context)].sort(([a], [b]) => compareText(a, b));
  const candidates: readonly HostCandidate[] = [
    ...misdirected.hosts.map((host) => ({ host, content: undefined })),
    ...served.map(([host, content]) => ({ host, content })),
  ];
  const { owned } = settleDomains(candidates, ({ host, content }) =>
    content !== undefined && misdirected.covers(host) ? [] : [host],
  );
  const refused: Uint8Array[] = [];
  const virtualHosts: Uint8Array[] = [];
  for (const [{ host, content }, domains] of owned) {
    if (content === undefined) refused.push(encodeVirtualHost(misdirectedHost(host, domains, first.port)));
    else virtualHosts.push(encodeHost(host, domains, content, context, plan));
  }
  virtualHosts.push(...refused);
  if (virtualHosts.length === 0) {
    virtualHosts.push(encodeVirtualHost({ name: `blackhole:${first.port}`, domains: ['*'] }));
  }
  const resource = routeConfiguration(unit, virtualHosts, {
    validateClusters: { value: false },
    maxDirectResponseBodySizeBytes: { value: MAX_BODY_BYTES },
    // Requests contain the port that clients connect to, which may differ from the gateway's port, because load
    // balancers map ports.
    ignorePortInHostMatching: true,
  });
  return { resources: [resource], findings: [] };
}

/** RFC 9110, section 15.5.20 */
const MISDIRECTED_REQUEST = 421;

function misdirectedHost(host: string, domains: readonly string[], port: number): VirtualHostMessage {
  const routes = [{ match: { prefix: '' }, directResponse: { status: MISDIRECTED_REQUEST } }];
  return { name: `misdirected|${host}:${port}`, domains, routes };
}

function gatewayHosts(
  servers: readonly ServerPlan[],
  snapshot: MeshReader,
  context: RouteContext,
): ReadonlyMap<string, GatewayHost> {
  const hosts = new Map<string, GatewayHost>();
  const at = (host: string): GatewayHost => {
    const known = hosts.get(host) ?? { contributions: [], httpsRedirect: false };
    hosts.set(host, known);
    return known;
  };
  for (const server of servers) {
    const { gateway, httpsRedirect } = server;
    for (const virtualService of snapshot
      .virtualServicesOfGateway(gateway)
      .requests(server.hosts.map(({ host }) => host))) {
      if (!hasRoutes(virtualService, { ...context, gateway })) continue;
      for (const host of commonHosts(server.hosts, virtualService)) {
        if (server.isolated && closestServer(servers, host) !== server) continue;
        const { contributions } = at(host);
        const known = contributions.some((c) => c.virtualService === virtualService && c.gateway === gateway);
        if (!known) contributions.push({ virtualService, gateway });
        if (httpsRedirect) at(host).httpsRedirect = true;
      }
    }
    // The redirect also applies to hosts without a virtual service.
    if (httpsRedirect) for (const { host } of server.hosts) at(host).httpsRedirect = true;
  }
  return hosts;
}

/** The server with the most specific pattern for a host. */
function closestServer(servers: readonly ServerPlan[], host: string): ServerPlan | undefined {
  for (const pattern of matchingPatterns(host)) {
    const closest = servers.find((server) => server.hosts.some((own) => own.host === pattern));
    if (closest !== undefined) return closest;
  }
  return undefined;
}

function encodeHost(
  host: string,
  domains: readonly string[],
  content: GatewayHost,
  context: RouteContext,
  plan: GatewayPlan,
): Uint8Array {
  const secure = content.httpsRedirect ? httpsPort(plan, host) : undefined;
  const before = content.httpsRedirect ? redirectRoutes(context.port, secure) : [];
  const contributions = content.contributions.toSorted((a, b) => compareMeta(a.virtualService, b.virtualService));
  const name = `${host}:${context.port}`;
  const shell: VirtualHostMessage = {
    name,
    domains,
    includeRequestAttemptCount: true,
  };
  const [first, ...others] = contributions;
  if (first === undefined) return encodeVirtualHost({ ...shell, routes: before });
  const gateways = contributions.map(({ gateway }) => gateway).join(' ');
  const key = [gateways, content.httpsRedirect, secure ?? '', context.port, contextKey(context)].join('\n');
  const objects = [first.virtualService, ...others.map(({ virtualService }) => virtualService)] as const;
  const build = (lookups: RouteContext['lookups']) => ({
    ...shell,
    ...withSharedRetries([
      ...before,
      ...joinRoutes(
        contributions.map(({ virtualService, gateway }) =>
          virtualServiceRoutes(virtualService, { ...context, gateway, lookups }),
        ),
      ),
    ]),
  });
  const cached = cachedVirtualHosts(context.memos, first.virtualService);
  return encodedVirtualHost({ objects, name, domains, key }, context.lookups, build, cached);
}
