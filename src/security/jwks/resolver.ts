/**
 * The JWKS resolver: keeps the key sets that the mesh's RequestAuthentications refer to. It works in the background:
 * known keys are available at once, and later changes are events.
 *
 *   want(references) ──▶ for each: fetch ──success──▶ onKeySet, again after `refreshMs`
 *                                    └──failure──▶ the last good set stays, again after 1 s, 2 s, … 1 min
 *
 * A rotation at the key server is noticed after `refreshMs` (plus or minus a tenth) at the latest; issuers publish a
 * new key well before they sign with it.
 */
import { CtlError, toCtlError } from '../../core/errors.ts';
import { Refresh, retryUpTo } from '../../core/scheduling/refresh.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { Fetch, FetchLimits } from '../fetch-json.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import { loadKeys, shownReference } from './load-keys.ts';

/**
 * Tokens are refused while no keys are known, so a recovered key server must be noticed within a minute, at the cost of
 * one connection a minute to a server that never recovers.
 */
const MAX_RETRY_MS = 60_000;

/** The maximum number of key sets: with 64 KiB each this bounds the memory; no mesh has that many issuers. */
const MAX_FOLLOWED = 1024;

export interface KeySetResolverOptions {
  /** Must not follow redirects, and must refuse forbidden addresses. */
  readonly fetch: Fetch;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** The time between two successful fetches of a key set, ms. */
  readonly refreshMs: number;
  /** Default: `KEY_SET_LIMITS`. */
  readonly limits?: FetchLimits;
  readonly maxFollowed?: number;
  /** Called with a new or changed key set as JSON text; with undefined for a known one that is no longer wanted. */
  onKeySet(reference: string, jwks: string | undefined): void;
  /** Called for the first of several failures in a row. `known` says whether an earlier key set stays in force. */
  onProblem(error: CtlError, known: boolean): void;
  /** Called for the first success after a failure; `shown` is the reference without password and query. */
  onRecovered(shown: string): void;
  readonly observer: { fetched(ok: boolean): void };
}

export interface KeySetResolver {
  /**
   * Sets the wanted references; others are dropped. When there are too many, those that are already followed have
   * precedence. Resolves when each new one has been fetched once, successfully or not.
   */
  want(references: ReadonlySet<string>): Promise<void>;
  close(): void;
}

interface Followed {
  readonly tried: Promise<void>;
  /** Stops following the key set. Returns true when its keys were known. */
  stop(): boolean;
}

function follow(reference: string, turns: ConcurrencyLimiter, options: KeySetResolverOptions): Followed {
  const { fetch, limits, observer, refreshMs } = options;
  let known: string | undefined;
  let failing = false;

  const attempt = async (signal: AbortSignal): Promise<string> => {
    const free = await turns.take(failing, signal);
    try {
      const keys = await loadKeys(reference, fetch, signal, limits);
      if (!signal.aborted) observer.fetched(true);
      return keys;
    } catch (error) {
      if (!signal.aborted) observer.fetched(false);
      throw error;
    } finally {
      free();
    }
  };

  const failed = (error: unknown): void => {
    if (failing) return;
    failing = true;
    const problem = toCtlError(error);
    options.onProblem(problem, known !== undefined);
  };

  const refresh = new Refresh<string>({
    load: async (signal) => ({ value: await attempt(signal), refreshMs }),
    onValue: (keys) => {
      if (failing) options.onRecovered(shownReference(reference));
      failing = false;
      if (keys === known) return;
      known = keys;
      options.onKeySet(reference, keys);
    },
    onProblem: failed,
    clock: options.clock,
    random: options.random,
    retryMs: retryUpTo(MAX_RETRY_MS),
  });
  return {
    tried: refresh.start(),
    stop: () => {
      void refresh.close();
      return known !== undefined;
    },
  };
}

export function createKeySetResolver(options: KeySetResolverOptions): KeySetResolver {
  const { maxFollowed = MAX_FOLLOWED } = options;
  const turns = new ConcurrencyLimiter();
  const followed = new Map<string, Followed>();
  let tooMany = false;
  return {
    want: async (references) => {
      for (const [reference, { stop }] of followed) {
        if (references.has(reference)) continue;
        followed.delete(reference);
        if (stop()) options.onKeySet(reference, undefined);
      }
      const missing = [...references].filter((reference) => !followed.has(reference));
      const fresh = missing.slice(0, maxFollowed - followed.size);
      if (fresh.length < missing.length && !tooMany) {
        const example = shownReference(missing[fresh.length] ?? '');
        const message =
          `policies name ${references.size} key sets, but at most ${maxFollowed} are fetched; ` +
          `${example}, for example, is not fetched`;
        options.onProblem(new CtlError('resource_exhausted', message), false);
      }
      tooMany = fresh.length < missing.length;
      for (const reference of fresh) followed.set(reference, follow(reference, turns, options));
      await Promise.all(fresh.map((reference) => followed.get(reference)?.tried));
    },
    close: () => {
      for (const { stop } of followed.values()) stop();
      followed.clear();
    },
  };
}
