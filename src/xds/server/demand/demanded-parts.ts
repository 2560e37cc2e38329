/** What a proxy should have that may ask for what it uses. */
import type { Parts, ProxySession } from '../../../push/index.ts';
import type { Asking, HeldContent, StreamDemand } from '../../on-demand/index.ts';
import type { DemandCount } from './demand-of-streams.ts';

/** @param demand absent: it gets everything */
export function demandedParts<Request>(session: ProxySession, demand: StreamDemand<Request> | undefined): Parts {
  if (demand === undefined) return session.content();
  const parts = demand.parts(session.content(), session.onDemand, session.namedHosts);
  session.hold(demand.held);
  return parts;
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
