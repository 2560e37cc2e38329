/**
 * Follows one collection of an API server: lists it, then watches it from there, for as long as it runs.
 *
 *   streaming list (one watch that begins with all objects) ─┐
 *   or paged list ────────────────────────────────────────────┴─▶ watch ─▶ resume from the last resourceVersion ─▶ …
 *
 * A list is reported when its last object has arrived. After a watch that broke, or that the server ended, the next one
 * resumes from the last resourceVersion. Everything is listed again only when the server no longer has that version
 * (410), does not have it yet (504), or sends nothing: a server whose etcd was restored from an older backup is silent
 * on a watch from a version that it has not reached yet. What was listed before stays valid, whatever the server
 * returns.
 */
import { backoff } from '../core/backoff.ts';
import { type Clock, sleep } from '../core/clock.ts';
import { CtlError } from '../core/errors.ts';
import { ApiError, isLost } from './api-error.ts';
import { contentTypeOf, readBody } from './body.ts';
import { errorOf, isSuccess } from './client.ts';
import type { ApiResponse, Connection } from './connection.ts';
import { isOfServer, minimumWait } from './failures.ts';
import { type DecodedObject, type KubernetesObject, ObjectReader, pathOf, type ResourceType } from './objects.ts';
import {
  NoStreamingListError,
  type ObjectChange,
  SHORT_WATCH_MS,
  UnreadableEventError,
  type WatchContext,
  WatchStream,
} from './watch-stream.ts';

export interface ReflectorHandlers<T> {
  /**
   * A list or a watch begins. Objects that were converted before, and were neither listed nor reported as changes, are
   * discarded.
   */
  onBegin?(isList: boolean): void;
  /**
   * Converts an object to the form that is kept; called for each when it arrives. An error that it throws ends the list
   * or the watch, which is repeated.
   */
  convert(object: KubernetesObject): T;
  /**
   * Converts an object that cannot be decoded beyond its metadata, so that its last version can stay in force. Without
   * this handler, such objects are left out.
   */
  convertUnreadable?(object: KubernetesObject, error: CtlError): T;
  /** All objects of the collection. */
  onList(items: readonly T[]): void;
  /** Changes since the last call, in order. */
  onChanges(changes: readonly ObjectChange<T>[]): void;
  /** The collection cannot be read now; called for every failed attempt. What was reported before stays valid. */
  onFailure(error: CtlError, verb: 'list' | 'watch'): void;
  /** The collection is read again after failures. */
  onRecovered(): void;
  /** A warning of the server about this kind; each warning is reported once. */
  onWarning?(text: string): void;
}

export interface ReflectorOptions {
  readonly connection: Connection;
  readonly type: ResourceType;
  /** All namespaces by default. */
  readonly namespace?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** How long the server is asked to keep a watch open, seconds, and up to twice that; default 300. */
  readonly watchSeconds?: number;
  /** Called with the number of objects and bytes read. Returns how long to pause reading, ms. Default: no pause. */
  readonly pause?: (objects: number, bytes: number) => number;
}

/** Interval between attempts after failures, ms. */
const RETRY_BASE_MS = 500;
const RETRY_MAX_MS = 30_000;
const WATCH_SECONDS = 300;
/** Grace period after the requested timeout before the watch is ended on this side, ms. */
const WATCH_GRACE_MS = 30_000;
/**
 * Servers send bookmarks every minute; a watch without a frame for this long counts as broken, ms. Some servers and
 * proxies send bookmarks less often, so the limit doubles after each list that it causes.
 */
const SILENCE_MS = 150_000;
const MAX_SILENCE_MS = 3_600_000;
/** If a version expires this soon after its list, the list was useless, ms. */
const EARLY_EXPIRY_MS = 60_000;
/**
 * HTTP status codes of servers and proxies that do not support streaming lists. Servers from 1.27 on return 422 while
 * the feature is disabled; older ones ignore unknown parameters, or return 400 or 422.
 */
const NO_STREAMING_LIST: ReadonlySet<number> = new Set([400, 405, 406, 415, 422, 501]);
/** HTTP status codes that do not show whether the server supports the form of the list request. */
const ABOUT_ALL_REQUESTS: ReadonlySet<number> = new Set([401, 403, 404, 410, 429]);
/** After so many consecutive failures of streaming lists, one list is read in pages. */
const STREAMING_ATTEMPTS = 3;
/** Time limit for the headers of a response, ms. */
const ANSWER_TIMEOUT_MS = 30_000;
/** Time limit for one page of a list, ms. */
const PAGE_TIMEOUT_MS = 60_000;
const PAGE_OBJECTS = 500;
const MAX_PAGE_BYTES = 64 * 1024 * 1024;
/** Pages can be empty, so a faulty server could send an endless number. */
const MAX_PAGES = 10_000;
/** Maximum number of distinct warnings passed on per kind. */
const MAX_WARNINGS = 8;
/** How often a list is restarted without delay when its next page has expired. */
const MAX_EXPIRED_PAGES = 3;

export class Reflector<T> {
  readonly #options: ReflectorOptions;
  readonly #handlers: ReflectorHandlers<T>;
  readonly #reader: ObjectReader;
  readonly #path: string;
  readonly #ending = new AbortController();
  readonly #warned = new Set<string>();
  /** The version from which the next watch resumes; undefined: a list is needed. */
  #version: string | undefined;
  /** False once the server has refused a streaming list. */
  #streaming = true;
  /** Failed streaming lists since the last successful list. */
  #failedStreams = 0;
  /** Whether the server sends bookmarks: then a watch without any frame is one that it does not serve. */
  #bookmarked = false;
  /** How long watches have received no frame, ms. */
  #silentMs = 0;
  /** How long watches may receive no frame before the collection is listed again, ms. */
  #silenceLimitMs = SILENCE_MS;
  #listedAt = Number.NEGATIVE_INFINITY;
  /** Consecutive lists whose version expired at once. */
  #earlyExpiries = 0;
  /** Events that could not be read since the last watch that ended normally. */
  #unreadable = 0;
  /** Consecutive failures, without those of a lost connection. */
  #failures = 0;
  #isFailing = false;
  #running: Promise<void> | undefined;

  constructor(options: ReflectorOptions, handlers: ReflectorHandlers<T>) {
    this.#options = options;
    this.#handlers = handlers;
    this.#reader = new ObjectReader(options.type);
    this.#path = pathOf(options.type, options.namespace);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** No handler is called after it has resolved. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed()) {
      try {
        if (this.#version !== undefined) await this.#watch(false);
        else if (this.#streaming && this.#failedStreams < STREAMING_ATTEMPTS) await this.#watch(true);
        else await this.#listPages();
      } catch (error) {
        if (!this.#isClosed()) await this.#failed(errorFrom(error), this.#version === undefined ? 'list' : 'watch');
      }
    }
  }

  #isClosed(): boolean {
    return this.#ending.signal.aborted;
  }

  async #failed(error: CtlError, verb: 'list' | 'watch'): Promise<void> {
    if (verb === 'list' && this.#hasNoStreamingLists(error)) {
      this.#streaming = false;
      return;
    }
    // The event would come again after the same version.
    const unreadable = verb === 'watch' && error instanceof UnreadableEventError;
    if (unreadable) this.#unreadable++;
    const expired = error instanceof ApiError && (error.status === 410 || error.reason === 'Expired');
    const unknown = error instanceof ApiError && error.status === 504;
    if (expired || unknown || unreadable) this.#version = undefined;
    const { clock, random, connection } = this.#options;
    if (!isLost(error)) this.#failures++;
    if (expired && verb === 'watch') {
      const isEarly = clock.now() - this.#listedAt < EARLY_EXPIRY_MS;
      this.#earlyExpiries = isEarly ? this.#earlyExpiries + 1 : 0;
      // The version has expired on the server. That is not a failure: the list follows without a pause.
      if (!isEarly && this.#failures === 1) return;
    }
    this.#isFailing = true;
    this.#handlers.onFailure(error, verb);
    if (isLost(error)) return await connection.reached(this.#ending.signal);
    const others = expired ? this.#earlyExpiries : this.#unreadable;
    const wait = backoff(Math.max(this.#failures, others), RETRY_BASE_MS, RETRY_MAX_MS, random);
    const minimum = minimumWait(error) * (1 + random() / 5);
    if (isOfServer(error)) await connection.retries.wait(wait, minimum, this.#ending.signal);
    else await sleep(clock, Math.max(wait, minimum), this.#ending.signal);
  }

  /** Counts failures of streaming lists as well: some proxies break only these. */
  #hasNoStreamingLists(error: CtlError): boolean {
    if (!this.#streaming) return false;
    if (error instanceof NoStreamingListError) return true;
    const status = error instanceof ApiError ? error.status : 0;
    if (NO_STREAMING_LIST.has(status)) return true;
    const lost = isLost(error);
    if (this.#failedStreams === STREAMING_ATTEMPTS) this.#failedStreams = 0;
    else if (!lost && !ABOUT_ALL_REQUESTS.has(status)) this.#failedStreams++;
    return false;
  }

  #succeeded(): void {
    this.#failures = 0;
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#handlers.onRecovered();
  }

  /** @param initial whether the watch begins with all objects */
  async #watch(initial: boolean): Promise<void> {
    this.#handlers.onBegin?.(initial);
    const { random, watchSeconds = WATCH_SECONDS } = this.#options;
    const seconds = Math.ceil(watchSeconds * (1 + random()));
    const query = new URLSearchParams({ watch: '1', allowWatchBookmarks: 'true', timeoutSeconds: String(seconds) });
    if (initial) {
      query.set('sendInitialEvents', 'true');
      query.set('resourceVersionMatch', 'NotOlderThan');
    } else query.set('resourceVersion', this.#version ?? '');
    const response = await this.#open(query, 'watch', ANSWER_TIMEOUT_MS);
    const startedAt = this.#options.clock.now();
    const deadlineMs = seconds * 1000 + WATCH_GRACE_MS;
    const silenceMs = this.#bookmarked ? Math.max(this.#silenceLimitMs - this.#silentMs, 0) : undefined;
    const watch = new WatchStream(this.#context, response, initial, { deadlineMs, silenceMs });
    const { frames, isSilent } = await watch.ended;
    if (this.#isClosed()) return;
    const lasted = this.#options.clock.now() - startedAt;
    this.#silentMs = frames > 0 || isSilent ? 0 : this.#silentMs + lasted;
    if (isSilent) {
      this.#version = undefined;
      // Reset until the next bookmark, so that a server that sends no more of them is not listed again and again.
      this.#bookmarked = false;
      this.#silenceLimitMs = Math.min(this.#silenceLimitMs * 2, MAX_SILENCE_MS);
      return;
    }
    if (frames > 0) {
      this.#unreadable = 0;
      // Requests to a server that ends every watch after a frame need a pause.
      if (lasted < SHORT_WATCH_MS) await sleep(this.#options.clock, SHORT_WATCH_MS - lasted, this.#ending.signal);
      return;
    }
    if (lasted < SHORT_WATCH_MS) throw new CtlError('unavailable', 'the server ended the watch at once');
  }

  get #context(): WatchContext<T> {
    return {
      reader: this.#reader,
      clock: this.#options.clock,
      convert: (decoded) => this.#convert(decoded),
      listed: (items, version) => this.#listed(items, version),
      changed: (changes, version) => {
        if (changes.length > 0 && !this.#isClosed()) this.#handlers.onChanges(changes);
        // A follower failed to process the changes: they are read again.
        this.#version = version;
        this.#succeeded();
      },
      bookmarked: () => {
        this.#bookmarked = true;
      },
      served: () => this.#succeeded(),
      pause: (events, bytes) => this.#pause(events, bytes),
    };
  }

  #listed(items: readonly T[], version: string): void {
    if (this.#isClosed()) return;
    this.#handlers.onList(items);
    this.#version = version;
    this.#listedAt = this.#options.clock.now();
    this.#failedStreams = 0;
    this.#succeeded();
  }

  #convert({ object, error }: DecodedObject): T | undefined {
    return error === undefined ? this.#handlers.convert(object) : this.#handlers.convertUnreadable?.(object, error);
  }

  async #listPages(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#listOnce();
      } catch (error) {
        const expired = error instanceof ApiError && error.status === 410;
        if (!expired || attempt === MAX_EXPIRED_PAGES) throw error;
      }
    }
  }

  async #listOnce(): Promise<void> {
    this.#handlers.onBegin?.(true);
    const items: T[] = [];
    let limit = PAGE_OBJECTS;
    let next = '';
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const query = new URLSearchParams({ limit: String(limit) });
      if (next !== '') query.set('continue', next);
      const response = await this.#open(query, 'list', PAGE_TIMEOUT_MS);
      const body = await this.#page(response);
      if (body === undefined) {
        // A few objects of the largest size fill a page.
        if (limit === 1)
          throw new CtlError('resource_exhausted', `expected objects of at most ${MAX_PAGE_BYTES} bytes`);
        limit = Math.max(1, Math.floor(limit / 8));
        continue;
      }
      const page = this.#reader.list(body, contentTypeOf(response));
      for (const object of page.objects) {
        const item = this.#convert(object);
        if (item !== undefined) items.push(item);
      }
      if (next !== '' && page.continue === next)
        throw new CtlError('unavailable', 'the server sent the same continue token twice');
      next = page.continue;
      const pause = this.#pause(page.objects.length, body.length);
      if (pause > 0) await sleep(this.#options.clock, pause, this.#ending.signal);
      if (next === '') return this.#listed(items, page.resourceVersion);
    }
    throw new CtlError('resource_exhausted', `expected a list of at most ${MAX_PAGES} pages`);
  }

  #pause(objects: number, bytes: number): number {
    return this.#options.pause?.(objects, bytes) ?? 0;
  }

  /** The body of a page; undefined when it is too large. */
  async #page(response: ApiResponse): Promise<Buffer | undefined> {
    const timer = this.#options.clock.setTimer(PAGE_TIMEOUT_MS, () => response.stream.destroy());
    try {
      return await readBody(response, MAX_PAGE_BYTES);
    } catch (error) {
      if (error instanceof CtlError && error.code === 'resource_exhausted') return undefined;
      throw error;
    } finally {
      timer.cancel();
    }
  }

  /** The error of a response, with a time limit for reading its body. */
  async #error(response: ApiResponse): Promise<ApiError> {
    const timer = this.#options.clock.setTimer(ANSWER_TIMEOUT_MS, () => response.stream.destroy());
    try {
      return await errorOf(response);
    } finally {
      timer.cancel();
    }
  }

  async #open(query: URLSearchParams, of: 'list' | 'watch', timeoutMs: number): Promise<ApiResponse> {
    const { connection, fieldSelector, labelSelector } = this.#options;
    if (fieldSelector !== undefined) query.set('fieldSelector', fieldSelector);
    if (labelSelector !== undefined) query.set('labelSelector', labelSelector);
    const response = await connection.open({
      method: 'GET',
      path: `${this.#path}?${query}`,
      accept: this.#reader.accept(of),
      // Compression is requested for lists only: one object is small, and the decompression of a watch uses tens of
      // KiB.
      gzip: fieldSelector === undefined && query.get('resourceVersion') === null,
      timeoutMs,
      signal: this.#ending.signal,
    });
    if (!isSuccess(response)) throw await this.#error(response);
    if (this.#failures > 0) connection.retries.succeeded();
    this.#warn(response.headers.warning);
    return response;
  }

  /** Warnings as API servers send them: `299 - "text"` (RFC 7234, 5.5). */
  #warn(header: string | string[] | undefined): void {
    const [, text] = /^299 [^"]*"((?:[^"\\]|\\.){1,500})"/.exec(String(header ?? '')) ?? [];
    if (text === undefined || this.#warned.has(text) || this.#warned.size === MAX_WARNINGS) return;
    this.#warned.add(text);
    this.#handlers.onWarning?.(text);
  }
}

function errorFrom(error: unknown): CtlError {
  if (error instanceof CtlError) return error;
  return new CtlError('unavailable', error instanceof Error ? error.message : String(error), {}, error);
}
