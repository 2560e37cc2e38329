/**
 * Previews: what a change of documents would do to proxies, without doing it (docs/decisions/0012-previews.md). The
 * change is applied to a copy of the model that shares its memory; the recorded reads say which views it touches, and
 * generation workers compare these while no job waits. Nothing is stored, published or pushed.
 *
 *   documents ─▶ changes of resources in force ─▶ copy of the model ─▶ touched views ─workers─▶ differences ─▶ answer
 */
import { CtlError, toError } from '../core/errors.ts';
import { TimeFairQueue } from '../core/fairness/time-fair-queue.ts';
import { TimeShares } from '../core/fairness/time-shares.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import type { Slices } from '../core/slices.ts';
import type { Model, ModelChange } from '../model/index.ts';
import type { Engine, Previewer, PreviewResult, TouchedPart } from '../push/index.ts';
import { type AnyResource, keyOf, type ResourceChange, unreachedRoutes } from '../resources/index.ts';
import { answerOf } from './answer.ts';
import { readCandidate, type StoreReader, type Target } from './candidate.ts';
import { compareEndpoints } from './endpoints.ts';
import { policyOutcomes } from './policies.ts';
import { readRequest } from './request.ts';
import type { PreviewAnswer, PreviewCaller } from './types.ts';

export interface PreviewsOptions {
  readonly model: Pick<Model, 'fork' | 'snapshot'>;
  readonly engine: Pick<Engine, 'sessions' | 'touchedBy'>;
  readonly previewer: Previewer;
  readonly store: StoreReader;
  readonly target: Target;
  /** The changes that are published for changes of documents, and what they leave out, one line each. */
  readonly translated: (changes: readonly ResourceChange[]) => {
    readonly changes: readonly ResourceChange[];
    readonly notes: readonly string[];
  };
  /** Monotonic, ms. */
  readonly now: () => number;
  /** Calls `run` after this many milliseconds. */
  readonly later: (ms: number, run: () => void) => void;
  /** Resolves in the next turn of the event loop. */
  readonly nextTurn: () => Promise<unknown>;
}

/** Work on the main thread between two turns of the event loop, ms. */
const SLICE_MS = 4;
/** Time limit of a preview, with the time in which it waits, ms. */
const MAX_MS = 30_000;
/** Views and endpoints that are not compared by then are left out, ms. */
const COMPARING_MS = 8000;
/** Routes, and then policies, that are not compared by then are left out, ms. */
const SUMMARY_MS = 2000;
/**
 * Previews rest after one for the time, ms, that it took of the main thread, at most this long: they take at most about
 * half of it, whatever is asked.
 */
const MAX_REST_MS = 10_000;
/** Previews that wait, of all callers and of one. */
const MAX_WAITING = 16;
const MAX_WAITING_OF_CALLER = 4;
/** Time for which a caller is refused whose preview ended a worker that all proxies need, ms. */
const REFUSED_MS = 60_000;
/** Places that are kept for callers who see everything. */
const KEPT_WAITING = 4;

/** Time for a warning, ms: API servers wait for it. */
const WARNING_MS = 500;
/** Warnings a second, and at once. */
const WARNINGS_PER_SECOND = 5;
const NEVER = new AbortController().signal;

interface Waiting {
  readonly begin: () => void;
}

export class Previews {
  readonly #options: PreviewsOptions;
  readonly #shares = new TimeShares();
  readonly #waiting = new TimeFairQueue<Waiting>(this.#shares);
  readonly #warnings: TokenBucket;
  /** A preview is in progress: one at a time, because each keeps a copy of what it changes. */
  #busy = false;
  /** Callers that are refused, until when. */
  readonly #refused = new Map<string, number>();
  /** No preview begins. */
  #resting = false;
  /** Time that the preview in progress took of the main thread, ms. */
  #spentMs = 0;

  constructor(options: PreviewsOptions) {
    this.#options = options;
    this.#warnings = new TokenBucket({ rate: WARNINGS_PER_SECOND, burst: WARNINGS_PER_SECOND, now: options.now });
  }

  /**
   * Compares the mesh with that which the change would make. Rejects with CtlError: `invalid_argument`,
   * `permission_denied`, `resource_exhausted` (too large), `unavailable` (too many at once), `deadline_exceeded`.
   * @param body see `readRequest`
   * @param gone aborts when the caller is gone
   */
  async run(body: Uint8Array, caller: PreviewCaller, gone: AbortSignal): Promise<PreviewAnswer> {
    const signal = AbortSignal.any([gone, AbortSignal.timeout(MAX_MS)]);
    this.#refuse(caller);
    await this.#turn(caller, signal);
    const started = this.#options.now();
    this.#spentMs = 0;
    try {
      // One of the same caller may have ended a worker in the meantime.
      this.#refuse(caller);
      return await this.#preview(body, caller, signal);
    } finally {
      this.#shares.charge(caller.id, this.#options.now() - started);
      this.#busy = false;
      this.#rest();
    }
  }

  /**
   * Number of proxies whose configuration reads something that a document of the cluster would change, for a warning:
   * nothing is generated. Undefined where that is not known soon, because previews are in progress or were so often.
   */
  async touchedBy(document: AnyResource): Promise<number | undefined> {
    const { engine, store, target, translated, now } = this.#options;
    if (this.#busy || this.#waiting.size > 0 || target.isDirectory || this.#warnings.take() > 0) return undefined;
    this.#busy = true;
    try {
      const key = keyOf(document);
      const [before, after] = [store.get(key), store.inForceWith(target.source, key, document)];
      if (before?.fingerprint === after?.fingerprint || !store.keeps(key)) return 0;
      const { changes, notes } = translated([{ key, before, after }]);
      if (notes.length > 0) return undefined;
      const sessions = new Set<unknown>();
      const ends = now() + WARNING_MS;
      const parts = await this.#sliced(
        engine.touchedBy(this.#derive(changes), () => now() <= ends),
        NEVER,
      );
      for (const { placements } of parts)
        for (const each of placements) for (const one of each.sessions) sessions.add(one);
      return now() > ends ? undefined : sessions.size;
    } finally {
      this.#busy = false;
      this.#next();
    }
  }

  /** Throws for a caller whose preview ended a worker a short time ago. */
  #refuse({ id }: PreviewCaller): void {
    if (this.#options.now() < (this.#refused.get(id) ?? 0))
      throw new CtlError('unavailable', 'your comparison ended a generation worker, try again in a minute');
  }

  #workerLost({ id }: PreviewCaller): void {
    const now = this.#options.now();
    for (const [caller, until] of this.#refused) if (until <= now) this.#refused.delete(caller);
    this.#refused.set(id, now + REFUSED_MS);
  }

  /** Resolves when it is the caller's turn. */
  #turn({ id: caller, sees }: PreviewCaller, signal: AbortSignal): Promise<void> {
    const free = MAX_WAITING - (sees('') ? 0 : KEPT_WAITING) - this.#waiting.size;
    if (this.#waiting.sizeOf(caller) >= Math.min(free, MAX_WAITING_OF_CALLER))
      return Promise.reject(new CtlError('unavailable', 'too many previews wait, try again later'));
    if (signal.aborted) return Promise.reject(ended());
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { begin: resolve };
      signal.addEventListener('abort', () => {
        this.#waiting.remove(caller, waiting);
        reject(ended());
      });
      this.#waiting.add(caller, waiting);
      this.#next();
    });
  }

  #rest(): void {
    this.#resting = true;
    this.#options.later(Math.min(this.#spentMs, MAX_REST_MS), () => {
      this.#resting = false;
      this.#next();
    });
  }

  #next(): void {
    if (this.#busy || this.#resting) return;
    const next = this.#waiting.next();
    if (next === undefined) return;
    this.#busy = true;
    next.begin();
  }

  async #preview(body: Uint8Array, caller: PreviewCaller, signal: AbortSignal): Promise<PreviewAnswer> {
    const { engine, store, target, translated } = this.#options;
    const request = await this.#sliced(readRequest(body), signal);
    const candidate = await this.#sliced(readCandidate(request, store, target, caller), signal);
    const { changes, notes } = translated(candidate.changes);
    const isSeen = ({ node }: { readonly node: { readonly namespace: string } }) => caller.sees(node.namespace);
    const connected = [...engine.sessions()].filter(isSeen).length;
    const base = this.#options.model.snapshot;
    const change = this.#derive(changes);
    const parts = await this.#sliced(engine.touchedBy(change, isSeen), signal);
    const generated = await this.#generated(changes, { base: base.version, change, caller }, parts, signal);
    const comparing = compareEndpoints(base, change.snapshot, parts, this.#late(COMPARING_MS));
    const endpoints = await this.#sliced(comparing, signal);
    const sides = { before: base, after: change.snapshot };
    const answering = answerOf({
      version: base.version,
      documents: candidate.outcomes,
      connected,
      compared: { parts, generated, endpoints },
      unreached: await this.#sliced(unreachedRoutes(changes, this.#late(SUMMARY_MS)), signal),
      policies: await this.#sliced(policyOutcomes(sides, parts, this.#late(SUMMARY_MS)), signal),
      notes: [...notes, ...(caller.sees('') ? [] : ['proxies of other namespaces are not shown'])],
    });
    return this.#sliced(answering, signal);
  }

  /** The mesh with the change. The model of the program stays as it is. */
  #derive(changes: readonly ResourceChange[]): ModelChange {
    const started = this.#options.now();
    try {
      return this.#options.model.fork().apply({ changes, eventTime: this.#options.now() });
    } catch (error) {
      throw new CtlError('failed_precondition', `the change cannot be applied: ${toError(error).message}`, {}, error);
    } finally {
      this.#spentMs += this.#options.now() - started;
    }
  }

  #generated(
    changes: readonly ResourceChange[],
    first: { readonly base: number; readonly change: ModelChange; readonly caller: PreviewCaller },
    parts: readonly TouchedPart[],
    signal: AbortSignal,
  ): Promise<PreviewResult> {
    if (parts.length === 0) return Promise.resolve({ resources: [], views: [] });
    const views = parts.map(({ before, after, units, placements }) => {
      return { before, after, units, placements: placements.map((each) => [each.before, each.after] as const) };
    });
    const { model, previewer } = this.#options;
    const takePreview = () => {
      // The mesh may have changed in the meantime, and workers have the latest one.
      const before = model.snapshot;
      const { delta, snapshot } = before.version === first.base ? first.change : this.#derive(changes);
      return { task: { delta, views, budgetMs: COMPARING_MS }, meshes: { before, after: snapshot } };
    };
    return previewer.preview({ takePreview, onWorkerLost: () => this.#workerLost(first.caller) }, signal);
  }

  /** Tells when a part of the work has taken this time, ms. */
  #late(after: number): () => boolean {
    const ends = this.#options.now() + after;
    return () => this.#options.now() > ends;
  }

  /** Does work on the main thread in slices. */
  async #sliced<T>(work: Slices<T>, signal: AbortSignal): Promise<T> {
    const { nextTurn } = this.#options;
    for (;;) {
      const done = this.#slice(work);
      if (done !== undefined) return done.value;
      await nextTurn();
      if (signal.aborted) throw ended();
    }
  }

  /** The result, if there is one by the end of the slice. */
  #slice<T>(work: Slices<T>): IteratorReturnResult<T> | undefined {
    const { now } = this.#options;
    const started = now();
    try {
      for (;;) {
        const step = work.next();
        if (step.done === true) return step;
        if (now() >= started + SLICE_MS) return undefined;
      }
    } finally {
      this.#spentMs += now() - started;
    }
  }
}

function ended(): CtlError {
  return new CtlError('deadline_exceeded', `the preview took longer than ${MAX_MS / 1000} s, or its caller is gone`);
}
