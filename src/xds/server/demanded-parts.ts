/** What a proxy should have that may ask for what it uses. */
import type { Parts, ProxySession } from '../../push/index.ts';
import type { StreamDemand } from '../on-demand/index.ts';

/** @param demand absent: it gets everything */
export function demandedParts<Request>(session: ProxySession, demand: StreamDemand<Request> | undefined): Parts {
  if (demand === undefined) return session.content();
  const parts = demand.parts(session.content(), session.onDemand, session.namedHosts);
  session.hold(demand.held);
  return parts;
}
