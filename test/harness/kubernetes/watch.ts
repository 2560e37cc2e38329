/**
 * List and watch of one collection, for tests: every changed object, and the names of deleted ones. It lists again
 * whenever the server ends the watch. Between two lists it stores only names.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Owner } from '../owner.ts';
import { ApiError, type ApiObject, type KubernetesApi } from './api.ts';

export interface WatchHandler {
  /** An object that was added, changed or listed again. */
  changed(object: ApiObject): void;
  /** `namespace/name` of a deleted object. */
  gone(key: string): void;
  /** The collection could not be listed, or its watch has ended in disorder. It is listed again. */
  failed?(error: unknown): void;
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: ApiObject;
}

interface ObjectList {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly Omit<ApiObject, 'apiVersion' | 'kind'>[] | null;
}

const RETRY_MS = 200;

export const keyOf = ({ metadata }: Pick<ApiObject, 'metadata'>): string =>
  `${metadata.namespace ?? ''}/${metadata.name}`;

/** Watches a collection such as `/api/v1/pods` until the owner ends. Failures are retried. */
export function watchCollection(owner: Owner, api: KubernetesApi, path: string, handler: WatchHandler): void {
  const ended = new AbortController();
  const { signal } = ended;
  let known = new Set<string>();

  const list = async (): Promise<string> => {
    const { items, metadata } = await api.get<ObjectList>(path);
    const listed = (items ?? []) as readonly ApiObject[];
    const keys = new Set(listed.map(keyOf));
    for (const key of known) if (!keys.has(key)) handler.gone(key);
    known = keys;
    for (const object of listed) handler.changed(object);
    return metadata.resourceVersion;
  };
  const handle = ({ type, object }: WatchEvent): void => {
    if (type === 'ERROR') throw new ApiError(410, 'the watch is too old');
    if (type === 'BOOKMARK') return;
    const key = keyOf(object);
    if (type === 'DELETED') {
      known.delete(key);
      handler.gone(key);
    } else {
      known.add(key);
      handler.changed(object);
    }
  };
  const follow = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        const version = await list();
        const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${version}`;
        for await (const line of api.lines(`${path}?${query}`, signal)) handle(JSON.parse(line) as WatchEvent);
      } catch (error) {
        // Unreachable, ended, or too old: the next list has the missed changes.
        if (!signal.aborted) handler.failed?.(error);
      }
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  };
  const finished = follow();
  owner.after(async () => {
    ended.abort();
    await finished;
  });
}
