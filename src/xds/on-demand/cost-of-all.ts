/** What it costs that sidecars get all services that they see, and what those would get on demand. */
import type { ProxySession } from '../../push/index.ts';
import { outboundOf } from './shared-demand.ts';

/** Sidecars that could ask for what they use, and what they have now. */
export interface CostOfAll {
  readonly sidecars: number;
  /** Bytes of clusters, endpoints and virtual hosts that they have, in sum. */
  readonly bytes: number;
  /** Of the view that most of them have: hosts, and bytes of one sidecar. */
  readonly hosts: number;
  readonly bytesOfOne: number;
}

/** The types that grow with the services. */
const TYPES = ['cds', 'eds', 'vhds'] as const;

/** Views whose bytes are counted; others count as the first of them, host by host. */
const MAX_COUNTED = 10;

type Session = Pick<ProxySession, 'node' | 'onDemand' | 'parts'>;

interface Sharing {
  readonly session: Session;
  readonly hosts: number;
  sidecars: number;
}

/** Undefined if no sidecar could ask. */
export function costOfAll(sessions: Iterable<Session>): CostOfAll | undefined {
  const byView = new Map<string, Sharing>();
  let sidecars = 0;
  for (const session of sessions) {
    const { node, onDemand } = session;
    if (onDemand !== undefined || node.type !== 'sidecar' || !node.discoversVirtualHosts) continue;
    const hosts = outboundOf(session.parts('vhds'));
    if (hosts === undefined || hosts.size === 0) continue;
    sidecars++;
    const known = byView.get(hosts.viewKey);
    if (known === undefined) byView.set(hosts.viewKey, { session, hosts: hosts.size, sidecars: 1 });
    else known.sidecars++;
  }
  const views = [...byView.values()].sort((a, b) => b.sidecars - a.sidecars);
  const [most] = views;
  if (most === undefined) return undefined;
  const bytesOfOne = bytesOf(most.session);
  const bytes = views.reduce((sum, { session, hosts, sidecars: count }, at) => {
    const ofOne = at < MAX_COUNTED ? bytesOf(session) : (bytesOfOne / most.hosts) * hosts;
    return sum + ofOne * count;
  }, 0);
  return { sidecars, bytes: Math.round(bytes), hosts: most.hosts, bytesOfOne };
}

function bytesOf(session: Session): number {
  let bytes = 0;
  for (const type of TYPES)
    for (const { fragment } of outboundOf(session.parts(type))?.resources() ?? []) bytes += fragment.length;
  return bytes;
}
