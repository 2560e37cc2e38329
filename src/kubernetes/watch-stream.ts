/** One watch of a collection, from the response headers to its end: reads events, and reports objects and changes. */
import type { Readable } from 'node:stream';
import type { Clock, Timer } from '../core/clock.ts';
import { CtlError, messageOf } from '../core/errors.ts';
import { ApiError, ConnectionError } from './api-error.ts';
import { contentTypeOf, FrameSplitter, receive } from './body.ts';
import type { ApiResponse } from './connection.ts';
import type { DecodedObject, KubernetesObject, ObjectReader, WatchEvent } from './objects.ts';

/** A change of a collection. */
export type ObjectChange<T> =
  | { readonly type: 'set'; readonly item: T }
  | { readonly type: 'deleted'; readonly object: KubernetesObject };

/** Longest pause between two frames of a streaming list, ms. */
const LIST_PAUSE_MS = 60_000;
/** A watch that was open for this long counts as served, ms. A watch that ends sooner without events is a failure. */
export const SHORT_WATCH_MS = 1000;

/** The server sent something that is not an event, or the event of an object that cannot be identified. */
export class UnreadableEventError extends CtlError {
  constructor(cause: unknown) {
    super(
      'unavailable',
      cause instanceof CtlError ? cause.message : `expected an event (${messageOf(cause)})`,
      {},
      cause,
    );
  }
}

/** The server returned success but does not send a streaming list. */
export class NoStreamingListError extends ConnectionError {}

/** How a watch without an error ended. */
export interface WatchEnd {
  readonly frames: number;
  /** Whether this program ended the watch, because the server had not sent anything for too long. */
  readonly isSilent: boolean;
}

export interface WatchLimits {
  /** How long a watch may be open, ms. */
  readonly deadlineMs: number;
  /** How long a watch may be without a frame, ms; undefined: until its deadline. */
  readonly silenceMs: number | undefined;
}

/** The operations of a reflector that a watch calls. */
export interface WatchContext<T> {
  readonly reader: ObjectReader;
  readonly clock: Clock;
  /** Undefined: the object is left out. */
  convert(object: DecodedObject): T | undefined;
  listed(items: readonly T[], version: string): void;
  changed(changes: readonly ObjectChange<T>[], version: string): void;
  /** A bookmark other than the end of a list was received. */
  bookmarked(): void;
  /** The server serves this watch. */
  served(): void;
  /** Called after reading; returns how long to pause, ms. */
  pause(events: number, bytes: number): number;
}

/** One watch, from the headers of its response to its end. */
export class WatchStream<T> {
  readonly #context: WatchContext<T>;
  readonly #response: ApiResponse;
  /** The parts of the body, decompressed. */
  readonly #content: Readable;
  readonly #splitter: FrameSplitter;
  readonly #contentType: string;
  readonly #outcome = Promise.withResolvers<WatchEnd>();
  /** Objects of a list that has not ended yet; undefined: changes. */
  #listing: Map<string, T> | undefined;
  #frames = 0;
  #isSilent = false;
  #isFinished = false;
  #deadline: Timer | undefined;
  /** During a list: limits the pause between frames. During a watch: the time until it counts as served. */
  #patience: Timer | undefined;
  #silence: Timer | undefined;
  /** Set while reading is paused. */
  #pause: Timer | undefined;
  readonly #limits: WatchLimits;

  /** @param initial whether the watch begins with all objects */
  constructor(context: WatchContext<T>, response: ApiResponse, initial: boolean, limits: WatchLimits) {
    this.#limits = limits;
    this.#context = context;
    this.#response = response;
    this.#contentType = contentTypeOf(response);
    this.#splitter = new FrameSplitter(this.#context.reader.framing(this.#contentType));
    this.#listing = initial ? new Map() : undefined;
    this.#deadline = this.#context.clock.setTimer(limits.deadlineMs, () => this.#end());
    this.#expectBookmark();
    if (initial) this.#expectFrames();
    else this.#patience = this.#context.clock.setTimer(SHORT_WATCH_MS, () => this.#context.served());
    this.#content = receive(
      response,
      (chunk) => this.#take(chunk),
      (error) => this.#ended(error),
    );
  }

  /** Resolves when the server has ended the watch normally, or a time limit of the watch has passed. */
  get ended(): Promise<WatchEnd> {
    return this.#outcome.promise;
  }

  #take(chunk: Buffer): void {
    // A destroyed stream may still deliver buffered data. If changes were not processed, later ones must not advance
    // the version past them.
    if (this.#isFinished) return;
    this.#expectBookmark();
    try {
      const { events, error } = this.#read(chunk);
      this.#frames += events.length;
      this.#takeEvents(events);
      if (error !== undefined) throw error;
      this.#pauseFor(this.#context.pause(events.length, chunk.length));
    } catch (error) {
      this.#outcome.reject(error);
      this.#end();
    }
  }

  /** Meanwhile, flow control of HTTP/2 makes the server wait. */
  #pauseFor(ms: number): void {
    if (ms === 0) return;
    this.#content.pause();
    this.#pause?.cancel();
    this.#pause = this.#context.clock.setTimer(ms, () => this.#content.resume());
  }

  /** The events that end in this chunk, up to the first that cannot be read. */
  #read(chunk: Buffer): { readonly events: readonly WatchEvent[]; readonly error?: UnreadableEventError } {
    const events: WatchEvent[] = [];
    try {
      for (const frame of this.#splitter.push(chunk)) events.push(this.#context.reader.event(frame, this.#contentType));
      return { events };
    } catch (error) {
      return { events, error: new UnreadableEventError(error) };
    }
  }

  #takeEvents(events: readonly WatchEvent[]): void {
    const changes: ObjectChange<T>[] = [];
    let version: string | undefined;
    const report = (): void => {
      if (version !== undefined) this.#context.changed(changes.splice(0), version);
      version = undefined;
    };
    for (const event of events) {
      if (event.type === 'error') {
        report();
        throw new ApiError(event.status);
      }
      if (event.type === 'bookmark') {
        if (event.isEndOfList && this.#listing !== undefined) this.#endList(event.resourceVersion);
        else {
          this.#context.bookmarked();
          if (this.#listing === undefined) version = event.resourceVersion;
        }
      } else if (this.#listing !== undefined) this.#takeListed(event, this.#listing);
      else {
        const change = this.#change(event);
        if (change !== undefined) changes.push(change);
        version = event.object.metadata.resourceVersion ?? version;
      }
    }
    if (this.#listing !== undefined) this.#expectFrames();
    report();
  }

  #change(event: Extract<WatchEvent, { readonly object: KubernetesObject }>): ObjectChange<T> | undefined {
    if (event.type === 'deleted') return { type: 'deleted', object: event.object };
    const item = this.#context.convert(event);
    return item === undefined ? undefined : { type: 'set', item };
  }

  /** Objects may change while the list is sent. */
  #takeListed(event: Extract<WatchEvent, { readonly object: KubernetesObject }>, listing: Map<string, T>): void {
    const { namespace = '', name } = event.object.metadata;
    const key = `${namespace}/${name}`;
    const item = event.type === 'deleted' ? undefined : this.#context.convert(event);
    if (item === undefined) listing.delete(key);
    else listing.set(key, item);
  }

  #endList(version: string): void {
    this.#patience?.cancel();
    const items = [...(this.#listing?.values() ?? [])];
    this.#listing = undefined;
    this.#context.listed(items, version);
  }

  #expectFrames(): void {
    this.#patience?.cancel();
    this.#patience = this.#context.clock.setTimer(LIST_PAUSE_MS, () => {
      this.#outcome.reject(new NoStreamingListError(`no event of the list within ${LIST_PAUSE_MS / 1000} s`, false));
      this.#end();
    });
  }

  /** A server that sends bookmarks sends one every minute, even where nothing changes. */
  #expectBookmark(): void {
    const { silenceMs } = this.#limits;
    this.#silence?.cancel();
    if (silenceMs === undefined) return;
    this.#silence = this.#context.clock.setTimer(silenceMs, () => {
      this.#isSilent = true;
      this.#end();
    });
  }

  /** Closes the stream from this side. */
  #end(): void {
    if (this.#listing !== undefined) this.#outcome.reject(incompleteList());
    this.#response.stream.destroy();
    this.#finish();
  }

  #ended(error: ConnectionError | undefined): void {
    if (error !== undefined) this.#outcome.reject(error);
    else if (this.#listing !== undefined) {
      this.#outcome.reject(incompleteList());
    } else if (this.#splitter.pending > 0) {
      this.#outcome.reject(new ConnectionError('the watch ended inside an event', false));
    }
    this.#finish();
  }

  #finish(): void {
    this.#isFinished = true;
    this.#deadline?.cancel();
    this.#patience?.cancel();
    this.#silence?.cancel();
    this.#pause?.cancel();
    this.#outcome.resolve({ frames: this.#frames, isSilent: this.#isSilent });
  }
}

function incompleteList(): ConnectionError {
  return new ConnectionError('the list ended before its last object', false);
}
