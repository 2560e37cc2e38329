/**
 * A bounded queue that nobody can have for himself alone. What waits stands in lanes, one for each caller; lanes are
 * served in turn, and a lane may be no longer than the room that is left. So a caller alone gets half of the room, two
 * get a third each, and whoever comes then still finds some (the dynamic thresholds of Choudhury and Hahne, IEEE/ACM
 * Transactions on Networking 6(2), 1998). No fixed limit would do: thousands of pods may be of one service account and
 * come back at once.
 */
export interface FairQueue<T> {
  readonly size: number;
  /** False when the lane has its share already, or nothing more fits at all. */
  push(lane: string, item: T): boolean;
  /** Up to `count` items, the oldest of each lane in turn. */
  take(count: number): T[];
}

/** @param capacity most items that wait, of all lanes together */
export function createFairQueue<T>(capacity: number): FairQueue<T> {
  /** In the order of their turns; none is empty. */
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
