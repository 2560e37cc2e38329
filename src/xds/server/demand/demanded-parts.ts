/** What a proxy should have that may ask for what it uses. */
import { type XdsType, xdsTypeOfUrl } from '../../../core/xds-types.ts';
import type { Parts, ProxySession } from '../../../push/index.ts';
import type { Asking, HeldContent, StreamDemand } from '../../on-demand/index.ts';
import type { DemandCount } from './demand-of-streams.ts';
import { likelyClusters } from './likely-clusters.ts';

/** @param demand absent: it gets everything */
export function demandedParts<Request>(session: ProxySession, demand: StreamDemand<Request> | undefined): Parts {
  if (demand === undefined) return session.content();
  const { onDemand: mode, namedHosts, laterClusters, laterHosts } = session;
  const parts = demand.parts(session.content(), mode, { named: namedHosts, laterClusters, laterHosts });
  session.hold(demand.held);
  return parts;
}

/** Resolves when everything is generated that a request needs; undefined if it is. */
export function neededFor<Request extends { readonly typeUrl: string }>(
  session: ProxySession,
  demand: StreamDemand<Request> | undefined,
  request: Request,
): Promise<void> | undefined {
  const type = xdsTypeOfUrl(request.typeUrl);
  if (type === undefined) return undefined;
  const needed = session.need(type) ?? (demand && neededOnDemand(session, demand, type, request));
  // What is generated then may need more.
  const all = needed?.then(() => neededFor(session, demand, request));
  // Not everybody waits for it: without a listener, a rejection would end the process.
  all?.catch(() => {});
  return all;
}

/** The virtual hosts of a request tell which clusters it needs. */
function neededOnDemand<Request>(
  session: ProxySession,
  demand: StreamDemand<Request>,
  type: XdsType,
  request: Request,
): Promise<void> | undefined {
  const { laterHosts, laterClusters, namedHosts } = session;
  const names = demand.hostsFor(type, request, session.content(), namedHosts);
  const hosts = laterHosts?.need(names, session);
  // In the same job: the proxy does not wait for another one. One that needs all virtual hosts needs all clusters.
  if (hosts !== undefined && names !== undefined && type === 'vhds')
    laterClusters?.want(likelyClusters(demand.askedIn(request), session.node.dnsDomain));
  return hosts ?? laterClusters?.need(demand.clustersFor(type, request, session.content()), session);
}

export function askingOf(
  { node, onDemand: mode }: ProxySession,
  clock: { wall(): number; monotonic(): number },
): Asking {
  return { mode, workload: node.workload, at: clock.wall(), since: clock.monotonic() };
}

export function demandCountOf<Request>(
  { onDemand: mode }: ProxySession,
  demand: StreamDemand<Request> | undefined,
): DemandCount {
  if (mode === undefined || demand === undefined) return { configuration: 'all', isOverLimit: false, hosts: 0 };
  const { hosts, isOverLimit } = demand;
  return { configuration: isOverLimit ? 'all' : mode, isOverLimit, hosts };
}

/** What the proxy holds and why; undefined for one that gets everything. */
export function explainedParts<Request>(
  session: ProxySession,
  demand: StreamDemand<Request> | undefined,
): HeldContent | undefined {
  return demand?.explain(session.content(), demandedParts(session, demand), session.onDemand);
}
