/** What the store does with the events of sources: it applies them, and followers learn of it after each batch. */
import type { Slices } from '../../core/slices.ts';
import type { SourceIdentity, SourceSink } from '../../sources/index.ts';
import type { AppliedSummary, Debouncer, Store } from '../../store/index.ts';
import type { Batches } from './batches.ts';
import type { SourceMeter } from './observers.ts';

/** Learns that changes can be taken. */
export type IntakeFollower = Pick<Debouncer, 'changed' | 'changePending'>;

export interface StoreSinkOptions {
  readonly store: Store;
  readonly meter: Pick<SourceMeter, 'applied' | 'received'>;
  readonly batches: Batches;
  readonly followers: readonly IntakeFollower[];
  /** Monotonic ms. */
  readonly now: () => number;
}

/** The sinks of sources. A source learns of events that could not be applied, after the others were. */
export function storeSinks({ store, meter, batches, followers, now }: StoreSinkOptions) {
  const applied = (summary: AppliedSummary, seenAt?: number): void => {
    meter.applied(summary);
    for (const each of followers) each.changed(summary.changed, seenAt);
    if (summary.failure !== undefined) throw summary.failure;
  };
  function* receive(work: Slices<AppliedSummary>, seenAt: number | undefined): Slices<void> {
    const summary = yield* work;
    meter.received(summary.events);
    yield;
    applied(summary, seenAt);
  }
  const sinkOf = (source: SourceIdentity): SourceSink => {
    const { id } = source;
    store.add(source);
    return {
      apply: (events, seenAt) => batches.run(id, receive(store.applyInSlices(id, events), seenAt)),
      applyInSlices: (events, seenAt) =>
        batches.runInSlices(id, events.length, receive(store.applyInSlices(id, events), seenAt)),
      replace: (list, seenAt) => batches.run(id, receive(store.replaceInSlices(id, list), seenAt)),
      changing(at) {
        for (const each of followers) each.changePending(at);
      },
    };
  };
  const removed = ({ id }: SourceIdentity): void => {
    batches.finish(id);
    applied(store.remove(id, now()));
  };
  return { applied, sinkOf, removed };
}
