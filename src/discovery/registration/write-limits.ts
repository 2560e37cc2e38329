/**
 * How often WorkloadEntries may be written: by all workloads, by those of one service account, and by one workload. A
 * caller that connects and disconnects without end delays only its own workloads.
 */
import { sleep, systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { TokenBucket } from '../../core/fairness/token-bucket.ts';

/**
 * Limit for all workloads, per second and in a burst: after a restart of the control plane all workloads connect again,
 * and the API server has other clients.
 */
const WRITES = { rate: 50, burst: 200 };
/** The limit of one service account. */
const ACCOUNT_WRITES = { rate: 10, burst: 100 };
/** The limit of one workload: an application whose health changes constantly causes pushes to its callers. */
const WORKLOAD_WRITES = { rate: 0.2, burst: 10 };
/** The longest wait for a turn, ms. */
const LONGEST_WAIT_MS = 60_000;
/** Number of accounts whose rate is remembered. */
const MAX_ACCOUNTS = 1000;

export interface WorkloadTurns {
  readonly bucket: TokenBucket;
  /** Whether its account's share was taken for its next write, which was delayed until it is available. */
  hasTurn: boolean;
}

export function workloadTurns(): WorkloadTurns {
  return { bucket: new TokenBucket({ ...WORKLOAD_WRITES, now: systemClock.now }), hasTurn: false };
}

export class WriteLimits {
  readonly #accounts = new Map<string, TokenBucket>();
  readonly #bucket = new TokenBucket({ ...WRITES, now: systemClock.now });

  /**
   * @param account `namespace/name`
   * @returns milliseconds until the workload may be written; 0: now
   */
  waitForTurn(turns: WorkloadTurns, account: string): number {
    // A workload gets one turn: thousands that ask repeatedly would otherwise each be checked every time.
    if (turns.hasTurn) {
      turns.hasTurn = false;
      return 0;
    }
    const ownWait = turns.bucket.take();
    if (ownWait > 0) return ownWait;
    const wait = this.#accountOf(account).spend(1);
    turns.hasTurn = wait > 0;
    return Math.min(wait, LONGEST_WAIT_MS);
  }

  /** Waits for the permission to write once. Rejects with CtlError when the program ends meanwhile. */
  async write(ending: AbortSignal): Promise<void> {
    for (let wait = this.#bucket.take(); wait > 0; wait = this.#bucket.take()) {
      await sleep(systemClock, wait, ending);
      if (ending.aborted) throw new CtlError('unavailable', 'the program is being stopped');
    }
  }

  #accountOf(account: string): TokenBucket {
    const bucket = this.#accounts.get(account) ?? new TokenBucket({ ...ACCOUNT_WRITES, now: systemClock.now });
    // The most recently used account comes last.
    this.#accounts.delete(account);
    this.#accounts.set(account, bucket);
    const [oldest] = this.#accounts.keys();
    if (this.#accounts.size > MAX_ACCOUNTS && oldest !== undefined) this.#accounts.delete(oldest);
    return bucket;
  }
}
