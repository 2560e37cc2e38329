/** A source under another id: several of one kind are read. */
import type { ListedEvent, ResourceEvent } from '../resources/index.ts';
import { applyInSlices, type Source } from './source.ts';

/** The source with this id, which is also the origin of its documents and problems. */
export function namedSource(source: Source, id: string): Source {
  return {
    id,
    cluster: source.cluster,
    synced: source.synced,
    health: () => source.health(),
    close: () => source.close(),
    start: (sink) =>
      source.start({
        apply: (events, seenAt) =>
          sink.apply(
            events.map((event) => named(event, id)),
            seenAt,
          ),
        applyInSlices: (events, seenAt) =>
          applyInSlices(
            sink,
            events.map((event) => named(event, id)),
            seenAt,
          ),
        replace: (list, seenAt) => {
          // The type of an event stays the same.
          const events = list.events.map((event) => named(event, id) as ListedEvent);
          sink.replace({ ...list, events }, seenAt);
        },
        changing: (at) => sink.changing(at),
      }),
  };
}

function named(event: ResourceEvent, source: string): ResourceEvent {
  if (event.type === 'set') {
    const { resource } = event;
    return { ...event, resource: { ...resource, origin: { ...resource.origin, source } } };
  }
  if (event.type !== 'invalid') return event;
  const { problem } = event;
  return { ...event, problem: { ...problem, origin: { ...problem.origin, source } } };
}
