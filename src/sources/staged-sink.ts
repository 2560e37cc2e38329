/**
 * Keeps what a source sends until it is complete, then passes it and all later events to another sink. A source that
 * replaces another one starts with this sink, so that the previous source stays in force meanwhile. Only the newest
 * state is kept: its size is that of the source's resources.
 */
import {
  eventId,
  type ListedEvent,
  type ResourceEvent,
  type ResourceKey,
  type ResourceList,
} from '../resources/index.ts';
import { applyInSlices, replaceInSlices, type SourceSink } from './source.ts';

export interface StagedSink extends SourceSink {
  /**
   * Passes what was kept as lists, then all that follows. @param eventTime of deletions that result from the lists,
   * monotonic ms
   */
  release(sink: SourceSink, eventTime: number): void;
}

type Scope = Pick<ResourceList, 'kinds' | 'namespace'>;

export function createStagedSink(): StagedSink {
  /** Newest event by key, or by the id of a problem. */
  const items = new Map<string, ResourceEvent>();
  /** The scopes of the lists, by their JSON form. */
  const scopes = new Map<string, Scope>();
  let released: SourceSink | undefined;

  const put = (event: ResourceEvent): void => {
    const id = eventId(event);
    const isGone = event.type === 'delete' || event.type === 'resolved';
    // The list that is passed on later lacks the resource, which deletes it.
    if (isGone && [...scopes.values()].some((scope) => isInList(scope, event))) items.delete(id);
    else items.set(id, event);
  };

  return {
    apply(events, seenAt) {
      if (released !== undefined) released.apply(events, seenAt);
      else for (const event of events) put(event);
    },
    applyInSlices(events, seenAt) {
      if (released !== undefined) return applyInSlices(released, events, seenAt);
      for (const event of events) put(event);
      return undefined;
    },
    replace(list, seenAt) {
      if (released !== undefined) {
        released.replace(list, seenAt);
        return;
      }
      const { kinds, namespace } = list;
      const scope: Scope = {
        ...(kinds === undefined ? {} : { kinds }),
        ...(namespace === undefined ? {} : { namespace }),
      };
      for (const [id, event] of items) if (isInList(scope, event)) items.delete(id);
      scopes.set(JSON.stringify(scope), scope);
      for (const event of list.events) put(event);
    },
    replaceInSlices(list, seenAt) {
      if (released !== undefined) return replaceInSlices(released, list, seenAt);
      this.replace(list, seenAt);
      return undefined;
    },
    changing: (at) => released?.changing(at),
    release(sink, eventTime) {
      released = sink;
      const left = new Set(items.values());
      for (const scope of scopes.values()) {
        const events = [...left].filter((event): event is ListedEvent => isListed(event) && isInList(scope, event));
        for (const event of events) left.delete(event);
        sink.replace({ ...scope, events, eventTime });
      }
      if (left.size > 0) sink.apply([...left]);
      items.clear();
      scopes.clear();
    },
  };
}

function isListed({ type }: ResourceEvent): boolean {
  return type === 'set' || type === 'invalid';
}

/** The key that decides whether a list covers an event; undefined if it is not known. */
function keyOfEvent(event: ResourceEvent): ResourceKey | undefined {
  if (event.type === 'invalid') return event.problem.key;
  return event.type === 'resolved' ? undefined : eventId(event);
}

/** Whether a list decides about what an event is about. */
export function isInList({ kinds, namespace }: Scope, event: ResourceEvent): boolean {
  if (kinds === undefined && namespace === undefined) return true;
  const [kind, within] = keyOfEvent(event)?.split('/', 2) ?? [];
  const isOfKind = kinds === undefined || kinds.some((each) => each === kind);
  return kind !== undefined && isOfKind && (namespace === undefined || namespace === within);
}
