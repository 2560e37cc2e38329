/**
 * A bounded queue that no caller can fill alone. Items wait in lanes, one for each caller. Lanes are served in turn,
 * and a lane may not be longer than the free capacity: a single caller gets half of the capacity, two get a third each,
 * and there is always capacity for another (the dynamic thresholds of Choudhury and Hahne, IEEE/ACM Transactions on
 * Networking 6(2), 1998). A fixed limit would not work: thousands of pods may share one service account and reconnect
 * at once.
 */
export interface FairQueue<T> {
  readonly size: number;
  /** False when the lane is at its limit, or the queue is full. */
  push(lane: string, item: T): boolean;
  /** Up to `count` items, the oldest of each lane in turn. */
  take(count: number): T[];
}

/** @param capacity maximum number of items in all lanes together */
export function createFairQueue<T>(capacity: number): FairQueue<T> {
  /** In the order in which they are served; none is empty. */
  const lanes = new Map<string, T[]>();
  let size = 0;

  return {
    get size() {
      return size;
    },
    push(lane, item) {
      const waiting = lanes.get(lane);
      if ((waiting?.length ?? 0) >= capacity - size) return false;
      if (waiting === undefined) lanes.set(lane, [item]);
      else waiting.push(item);
      size++;
      return true;
    },
    take(count) {
      const taken: T[] = [];
      while (taken.length < count) {
        const [next] = lanes;
        if (next === undefined) break;
        const [lane, waiting] = next;
        taken.push(...waiting.splice(0, 1));
        lanes.delete(lane);
        if (waiting.length > 0) lanes.set(lane, waiting);
      }
      size -= taken.length;
      return taken;
    },
  };
}
