/**
 * Kernel events for a set of directories. Node's own recursive watch walks the tree by itself on Linux and misses
 * directories that are created and filled at once; here the scan decides what is watched, and each directory has one
 * plain watch.
 */
import { type FSWatcher, watch } from 'node:fs';
import { errnoOf } from '../../core/errors.ts';

export interface TreeWatchOptions {
  /** Something changed at `name` in `directory`; no name when the system does not say. */
  readonly onEvent: (directory: string, name: string | undefined) => void;
  /** The system refuses a watch (too many, or none on this file system): events are no longer reliable. */
  readonly onUnavailable: (error: unknown) => void;
}

export interface TreeWatch {
  /** Watches a directory; does nothing when it is watched already and still the same, or after `close`. */
  add(directory: string, identity: string): void;
  /** Stops watching directories that are not in `wanted`. */
  retain(wanted: ReadonlyMap<string, string>): void;
  close(): void;
}

export function createTreeWatch(options: TreeWatchOptions): TreeWatch {
  const watches = new Map<string, { readonly identity: string; readonly watcher: FSWatcher }>();
  let closed = false;

  const drop = (directory: string): void => {
    watches.get(directory)?.watcher.close();
    watches.delete(directory);
  };

  return {
    add(directory, identity) {
      if (closed || watches.get(directory)?.identity === identity) return;
      drop(directory);
      try {
        const watcher = watch(directory, { persistent: false }, (_event, name) => {
          options.onEvent(directory, name ?? undefined);
        });
        watcher.on('error', () => {
          drop(directory);
          options.onEvent(directory, undefined);
        });
        watches.set(directory, { identity, watcher });
      } catch (error) {
        // Deleted already: its parent has an event for that.
        if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') options.onUnavailable(error);
      }
    },
    retain(wanted) {
      for (const directory of [...watches.keys()]) if (!wanted.has(directory)) drop(directory);
    },
    close() {
      closed = true;
      for (const directory of [...watches.keys()]) drop(directory);
    },
  };
}
