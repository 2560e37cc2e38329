/** What observers are told of a response that a proxy rejected. */
import type { XdsType } from '../../core/xds-types.ts';
import type { ProxySession } from '../../push/index.ts';
import { withClusters } from './demand/with-clusters.ts';
import type { ObservedStream, RejectedResponse } from './observer.ts';

/** Maximum number of rejected resources that a report names. */
const MAX_NAMED = 10;

interface Rejection extends ObservedStream {
  readonly type: XdsType;
  /** The proxy's error message. */
  readonly nack: string;
  /** Names that are kept back from now on. */
  readonly quarantined: readonly string[];
}

export function rejectedResponse(session: ProxySession, rejection: Rejection): RejectedResponse {
  const { type, nack, quarantined, ...stream } = rejection;
  const named = quarantined.slice(0, MAX_NAMED);
  return {
    ...stream,
    type,
    nodeId: session.node.id,
    message: nack,
    quarantined: quarantined.length,
    named: type === 'eds' ? withClusters(named, session.parts('cds')) : named,
  };
}
