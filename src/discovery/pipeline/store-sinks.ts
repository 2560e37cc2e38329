/** What the store does with the events of sources: it applies them, and followers learn of it after each batch. */
import type { Clock } from '../../core/clock.ts';
import { oneLineOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { getScope } from '../../logging/index.ts';
import type { SourceIdentity, SourceSink } from '../../sources/index.ts';
import type { AppliedSummary, Debouncer, Store } from '../../store/index.ts';
import type { Batches } from './batches.ts';
import { DocumentRetries } from './document-retries.ts';
import type { SourceMeter } from './observers.ts';

/** Learns that changes can be taken. */
export type IntakeFollower = Pick<Debouncer, 'changed' | 'changePending'>;

export interface StoreSinkOptions {
  readonly store: Store;
  readonly meter: Pick<SourceMeter, 'applied' | 'received'>;
  readonly batches: Batches;
  readonly followers: readonly IntakeFollower[];
  readonly clock: Clock;
}

/** The sinks of sources. A source learns of events that could not be applied, after the others were. */
export function storeSinks({ store, meter, batches, followers, clock }: StoreSinkOptions) {
  const retries = new DocumentRetries({ clock, retry: (id) => retry(id) });
  const applied = (summary: AppliedSummary, seenAt?: number): void => {
    meter.applied(summary);
    for (const each of followers) each.changed(summary.changed, seenAt);
    if (summary.failure !== undefined) throw summary.failure;
  };
  function* receive(id: string, work: Slices<AppliedSummary>, seenAt: number | undefined): Slices<void> {
    const summary = yield* work;
    meter.received(summary.events);
    yield;
    retries.applied(id, store.unapplied(id).size);
    applied(summary, seenAt);
  }
  function* receiveAgain(id: string): Slices<void> {
    // They were counted when they came.
    const summary = yield* store.retryInSlices(id);
    retries.applied(id, store.unapplied(id).size);
    applied({ ...summary, events: [] });
  }
  const retry = async (id: string): Promise<void> => {
    try {
      await batches.runInSlices(id, store.unapplied(id).size, receiveAgain(id));
    } catch (error) {
      getScope('source').error(`documents of ${id} that were refused cannot be applied again: ${oneLineOf(error)}`);
    }
  };
  const sinkOf = (source: SourceIdentity): SourceSink => {
    const { id } = source;
    store.add(source);
    return {
      apply: (events, seenAt) => batches.run(id, receive(id, store.applyInSlices(id, events), seenAt)),
      applyInSlices: (events, seenAt) =>
        batches.runInSlices(id, events.length, receive(id, store.applyInSlices(id, events), seenAt)),
      refusals: () => store.unapplied(id),
      replace: (list, seenAt) => batches.run(id, receive(id, store.replaceInSlices(id, list), seenAt)),
      replaceInSlices: (list, seenAt) => {
        // What a list lacks is deleted.
        const most = Math.max(list.events.length, store.documentsOf(id).size);
        return batches.runInSlices(id, most, receive(id, store.replaceInSlices(id, list), seenAt));
      },
      changing(at) {
        for (const each of followers) each.changePending(at);
      },
    };
  };
  const removed = ({ id }: SourceIdentity): void => {
    batches.finish(id);
    retries.forget(id);
    applied(store.remove(id, clock.now()));
  };
  return { applied, sinkOf, removed, close: () => retries.close() };
}
