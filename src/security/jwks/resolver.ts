/**
 * The JWKS resolver: keeps the key sets that the mesh's RequestAuthentications refer to. It works in the background
 * alone: whoever needs keys reads what is known, and what is learnt later comes as an event.
 *
 *   want(references) ──▶ for each: fetch ──good──▶ onKeySet, again after `refreshMs`
 *                                    └──bad───▶ the last good set stays, again after 1 s, 2 s, … 1 min
 *
 * A rotation at the key server is noticed after `refreshMs` (give or take a tenth) at the latest; issuers publish a new
 * key well before they sign with it.
 */
import { CtlError, toCtlError } from '../../core/errors.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { Fetch, FetchLimits } from '../fetch-json.ts';
import { Refresh } from '../refresh.ts';
import { ConcurrencyLimiter } from './concurrency-limiter.ts';
import { loadKeys, shownReference } from './load-keys.ts';

/**
 * Tokens are refused for as long as no keys are known, so that a key server which comes back is noticed within a
 * minute, at the price of one connection a minute to one that never does.
 */
const LAST_RETRY_MS = 60_000;

/** Key sets that are followed at most: with 64 KiB each this bounds the memory; no mesh has that many issuers. */
const MAX_FOLLOWED = 1024;

export interface KeySetResolverOptions {
  /** Follows no redirects and refuses the addresses that it must not reach. */
  readonly fetch: Fetch;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** How long a key set that was fetched is good, ms. */
  readonly refreshMs: number;
  /** Default: those of `KEY_SET_LIMITS`. */
  readonly limits?: FetchLimits;
  /** Key sets that are followed at most. */
  readonly maxFollowed?: number;
  /** A key set, new or changed: JSON text; undefined when it was known and is not wanted any longer. */
  onKeySet(reference: string, jwks: string | undefined): void;
  /** Told of the first of several failures in a row. `known` says whether an earlier key set stays in force. */
  onProblem(error: CtlError, known: boolean): void;
  /** Told of the first success after a failure; `shown` is the reference without what is not for messages. */
  onRecovered(shown: string): void;
  readonly observer: { fetched(ok: boolean): void };
}

export interface KeySetResolver {
  /**
   * What is wanted from now on; what was wanted before and is not any longer is forgotten. What is followed already
   * goes on where more is wanted than may be. Resolves when each new one has been tried once, with or without success.
   */
  want(references: ReadonlySet<string>): Promise<void>;
  close(): void;
}

/** One reference that is followed. */
interface Followed {
  readonly tried: Promise<void>;
  /** Gives whether a key set was known. */
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
    // Nobody asks for a load between the regular ones.
    cooldownMs: 0,
    maxRetryMs: LAST_RETRY_MS,
  });
  return {
    tried: refresh.start(),
    stop: () => {
      refresh.close();
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
        const message = `policies name ${references.size} key sets, ${maxFollowed} are fetched at most; for one, ${shownReference(missing[fresh.length] ?? '')} is not`;
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
