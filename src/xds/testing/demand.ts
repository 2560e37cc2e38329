/** Test support: what proxies on demand have asked for, without streams. */
import { Memos } from '../../core/memo.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { Demand } from '../on-demand/demand.ts';
import { SharedDemand } from '../on-demand/shared-demand.ts';
import { type DeltaRequest, NameSets, NO_NAMES } from '../protocol/index.ts';

/** A request that asks for nothing. */
export const EMPTY_REQUEST: DeltaRequest = {
  typeUrl: '',
  responseNonce: '',
  nack: undefined,
  node: undefined,
  subscribe: NO_NAMES,
  unsubscribe: NO_NAMES,
  initialVersions: new Map(),
};

export function newShared(clock = fakeClock()): SharedDemand {
  const memos = new Memos();
  return new SharedDemand(new NameSets(memos), memos, clock);
}

export const newDemand = (shared: SharedDemand): Demand => new Demand(shared, () => {});
