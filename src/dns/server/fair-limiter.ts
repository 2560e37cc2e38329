/**
 * Limits how many operations run at once, so that no client can use the whole limit: each may have as many as are still
 * free for others. One client alone gets half, two get a third each (see src/core/fairness/fair-queue.ts).
 */
export interface FairLimiter {
  /** How many operations run. */
  readonly size: number;
  /** Undefined when the client, or all together, have reached their limit; otherwise ends the operation. */
  acquire(client: string): (() => void) | undefined;
}

export function createFairLimiter(capacity: number): FairLimiter {
  const running = new Map<string, number>();
  let size = 0;
  return {
    get size() {
      return size;
    },
    acquire(client) {
      const own = running.get(client) ?? 0;
      if (own >= capacity - size) return undefined;
      running.set(client, own + 1);
      size++;
      let ended = false;
      return () => {
        if (ended) return;
        ended = true;
        size--;
        const left = (running.get(client) ?? 1) - 1;
        if (left === 0) running.delete(client);
        else running.set(client, left);
      };
    },
  };
}
