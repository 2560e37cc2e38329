/**
 * Limits the memory of the names that the streams of a caller subscribe to, and of reported names that do not exist.
 * Proxies of one view share one set of names, which counts once, but a client may invent a set for each of its streams.
 * A caller may not have more names than are free: a single caller gets half of the capacity, and there is always some
 * left for others (see src/core/fairness/fair-queue.ts).
 */
import { CtlError } from '../../../core/errors.ts';
import type { XdsType } from '../../../core/xds-types.ts';
import type { NameSet } from '../../protocol/index.ts';

/** Names of all callers: at about 100 bytes each 400 MB. The proxies of a mesh with 10,000 services name 50,000. */
const CAPACITY = 4_000_000;

/** A caller may always have as many: the largest request, so that a full quota refuses no proxy of a new caller. */
const ALWAYS = 100_000;

/** Counts how often each set is held. */
class HeldSets {
  readonly #holds = new Map<NameSet, number>();
  /** Names of the sets, each counted once, and reported names. */
  names = 0;

  hold(set: NameSet): void {
    const count = this.#holds.get(set) ?? 0;
    if (count === 0) this.names += set.size;
    this.#holds.set(set, count + 1);
  }

  release(set: NameSet): void {
    const count = this.#holds.get(set) ?? 0;
    if (count > 1) this.#holds.set(set, count - 1);
    else if (this.#holds.delete(set)) this.names -= set.size;
  }
}

export class NameQuota {
  readonly #capacity: number;
  readonly #always: number;
  readonly #all = new HeldSets();
  readonly #callers = new Map<string, { readonly sets: HeldSets; streams: number }>();

  constructor(capacity = CAPACITY, always = ALWAYS) {
    this.#capacity = capacity;
    this.#always = always;
  }

  /** Names of all callers. */
  get names(): number {
    return this.#all.names;
  }

  /** A stream of the caller begins. */
  enter(caller: string): StreamNames {
    const of = this.#callers.get(caller) ?? { sets: new HeldSets(), streams: 0 };
    this.#callers.set(caller, of);
    of.streams++;
    const sets = [of.sets, this.#all];
    return new StreamNames({
      hold: (set, reported) => {
        for (const held of sets) {
          held.hold(set);
          held.names += reported;
        }
        if (of.sets.names <= this.#always || of.sets.names <= this.#capacity - this.#all.names) return;
        throw new CtlError(
          'resource_exhausted',
          `the proxies of ${caller} subscribe to ${of.sets.names} different names, which exceeds their current quota`,
        );
      },
      release: (set, reported) => {
        for (const held of sets) {
          held.release(set);
          held.names -= reported;
        }
      },
      leave: () => {
        if (--of.streams === 0) this.#callers.delete(caller);
      },
    });
  }
}

interface StreamNamesOptions {
  readonly hold: (set: NameSet, reported: number) => void;
  readonly release: (set: NameSet, reported: number) => void;
  readonly leave: () => void;
}

/** The names that one stream subscribes to. */
export class StreamNames {
  readonly #options: StreamNamesOptions;
  readonly #held = new Map<XdsType, { readonly names: NameSet; readonly reported: number }>();

  constructor(options: StreamNamesOptions) {
    this.#options = options;
  }

  /**
   * Sets the names of a type that the stream subscribes to, and the number of reported names that do not exist. Throws
   * CtlError resource_exhausted if the caller has too many; the stream has to end then.
   */
  hold(type: XdsType, names: NameSet, reported = 0): void {
    const before = this.#held.get(type);
    if (before?.names === names && before.reported === reported) return;
    this.#held.set(type, { names, reported });
    if (before !== undefined) this.#options.release(before.names, before.reported);
    this.#options.hold(names, reported);
  }

  /** The stream has ended. */
  leave(): void {
    for (const { names, reported } of this.#held.values()) this.#options.release(names, reported);
    this.#held.clear();
    this.#options.leave();
  }
}
