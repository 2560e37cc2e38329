/** One watch of a collection, from the headers of its answer to its end: events in, objects and changes out. */
import type { Clock, Timer } from '../core/clock.ts';
import { ApiError, ConnectionError } from './api-error.ts';
import { contentTypeOf, FrameSplitter, onStreamEnd } from './body.ts';
import type { ApiResponse } from './connection.ts';
import type { KubernetesObject, ObjectReader, WatchEvent } from './objects.ts';

/** A change of a collection. */
export type ObjectChange<T> =
  | { readonly type: 'set'; readonly item: T }
  | { readonly type: 'deleted'; readonly object: KubernetesObject };

/** Longest pause between two frames of a streaming list, ms. */
const LIST_PAUSE_MS = 60_000;
/** A watch that was open for as long as this is served, ms; one that ends sooner and brought nothing is a failure. */
export const SHORT_WATCH_MS = 1000;

/** The operations of a reflector that a watch calls. */
export interface WatchContext<T> {
  readonly reader: ObjectReader;
  readonly clock: Clock;
  convert(object: KubernetesObject): T;
  listed(items: readonly T[], version: string): void;
  changed(changes: readonly ObjectChange<T>[], version: string): void;
  bookmarked(): void;
  /** The server serves this watch. */
  served(): void;
}

/** One watch, from the headers of its answer to its end. */
export class WatchStream<T> {
  readonly #context: WatchContext<T>;
  readonly #response: ApiResponse;
  readonly #splitter: FrameSplitter;
  readonly #contentType: string;
  readonly #outcome = Promise.withResolvers<number>();
  /** Objects of a list that has not ended yet; undefined: changes. */
  #listing: Map<string, T> | undefined;
  #frames = 0;
  #deadline: Timer | undefined;
  /** While a list is sent: the longest pause. Of a watch: the time until it counts as served. */
  #patience: Timer | undefined;

  /** @param initial whether all objects come first */
  constructor(context: WatchContext<T>, response: ApiResponse, initial: boolean, deadlineMs: number) {
    this.#context = context;
    this.#response = response;
    this.#contentType = contentTypeOf(response);
    this.#splitter = new FrameSplitter(this.#context.reader.framing(this.#contentType));
    this.#listing = initial ? new Map() : undefined;
    this.#deadline = this.#context.clock.setTimer(deadlineMs, () => this.#end());
    if (initial) this.#expectFrames();
    else this.#patience = this.#context.clock.setTimer(SHORT_WATCH_MS, () => this.#context.served());
    const { stream } = response;
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
    onStreamEnd(response, (error) => this.#ended(error));
  }

  /**
   * Resolves with the number of frames when the server has ended the watch in good order, or its deadline has passed.
   */
  get ended(): Promise<number> {
    return this.#outcome.promise;
  }

  #take(chunk: Buffer): void {
    try {
      const events = this.#splitter.push(chunk).map((frame) => this.#context.reader.event(frame, this.#contentType));
      this.#frames += events.length;
      this.#takeEvents(events);
    } catch (error) {
      this.#outcome.reject(error);
      this.#end();
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
        this.#context.bookmarked();
        if (event.isEndOfList && this.#listing !== undefined) this.#endList(event.resourceVersion);
        else if (this.#listing === undefined) version = event.resourceVersion;
      } else if (this.#listing !== undefined) this.#takeListed(event, this.#listing);
      else {
        changes.push(this.#change(event));
        version = event.object.metadata.resourceVersion ?? version;
      }
    }
    if (this.#listing !== undefined) this.#expectFrames();
    report();
  }

  #change(event: Extract<WatchEvent, { readonly object: KubernetesObject }>): ObjectChange<T> {
    if (event.type === 'deleted') return { type: 'deleted', object: event.object };
    return { type: 'set', item: this.#context.convert(event.object) };
  }

  /** Objects can change while the list is sent. */
  #takeListed(event: Extract<WatchEvent, { readonly object: KubernetesObject }>, listing: Map<string, T>): void {
    const { namespace = '', name } = event.object.metadata;
    const key = `${namespace}/${name}`;
    if (event.type === 'deleted') listing.delete(key);
    else listing.set(key, this.#context.convert(event.object));
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
      this.#outcome.reject(new ConnectionError(`no part of the list within ${LIST_PAUSE_MS / 1000} s`, false));
      this.#end();
    });
  }

  /** Ends the stream from this side. */
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
    this.#deadline?.cancel();
    this.#patience?.cancel();
    this.#outcome.resolve(this.#frames);
  }
}

function incompleteList(): ConnectionError {
  return new ConnectionError('the list ended before its last object', false);
}
