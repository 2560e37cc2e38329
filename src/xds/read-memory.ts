/**
 * Lets go of what encrypted sockets have read. Node gives each of their reads a buffer of its own outside of V8's heap, which lives until V8
 * collects its young generation. A thousand proxies that acknowledge 65 KB each are 65 MB within no time, and little in the heap that would be a
 * reason to: V8 takes 64 MB of such memory for pressure then and marks the whole heap, which was measured to be two thirds of what the
 * processor did for a change of one endpoint. Collecting the young generation before that takes a millisecond or two, and the memory
 * of the buffers is used again.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * A quarter of what V8 takes for pressure (kExternalAllocationSoftLimit of its heap.h): what was collected is freed by another thread, and
 * counts until then.
 */
const COLLECTED_BYTES = 16 * 1024 * 1024;

/** Collects V8's young generation; does nothing where V8 does not let itself be asked. */
export function youngCollector(): () => void {
  let collect: (() => void) | undefined;
  return () => {
    collect ??= findCollector();
    collect();
  };
}

/** What `--expose-gc` shows to scripts that begin after it is said: no others of this program see it. */
function findCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('globalThis.gc');
  return typeof collect === 'function' ? () => void collect({ type: 'minor' }) : () => {};
}

/** Counts bytes that were read into buffers that nobody holds, and has them collected when they are many. */
export class ReadMemory {
  readonly #collect: () => void;
  #bytes = 0;

  constructor(collect: () => void) {
    this.#collect = collect;
  }

  count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < COLLECTED_BYTES) return;
    this.#bytes = 0;
    this.#collect();
  }
}
