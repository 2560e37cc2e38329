/**
 * The measured rounds of one row of the table: those that count, and how many were thrown away because the machine was
 * disturbed while they ran. A thrown-away round is run again; a row has only so many repetitions, so that a machine
 * that is never quiet ends too.
 */
import { isDisturbed, type Limits, type Lost, lostText } from './disturbance.ts';

export interface RoundsPolicy extends Limits {
  /** Rounds of one row that may be run again, in all. */
  readonly repeats: number;
  /**
   * Waited before each of them: disturbances come in phases, and a cheap round would spend all of its repetitions in
   * one.
   */
  readonly pauseMs: number;
}

export interface Measured {
  /** Undefined where it cannot be known. */
  readonly lost: Lost | undefined;
}

/** What the table says of a row's rounds. */
export interface RoundsTally {
  readonly counted: number;
  /** Of those that count: run while the machine was disturbed, with no repetition left. */
  readonly disturbed: number;
  readonly thrownAway: number;
  /** Worst shares among those that count; left out where they cannot be known. */
  readonly stolen?: number;
  readonly others?: number;
}

/** Rounds of one row, kept by whoever measures; `addRound` fills it. */
export interface Series<R extends Measured> {
  readonly counted: R[];
  thrownAway: number;
}

export function createSeries<R extends Measured>(): Series<R> {
  return { counted: [], thrownAway: 0 };
}

export interface RoundsContext {
  readonly policy: RoundsPolicy;
  readonly progress: (text: string) => void;
  readonly pause: (ms: number) => Promise<void>;
}

/**
 * Measures one round and adds it; when the machine was disturbed, it is measured again as long as the series has
 * repetitions left. `measure` is told how often the round was measured before.
 */
export async function addRound<R extends Measured>(
  { policy, progress, pause }: RoundsContext,
  series: Series<R>,
  measure: (attempt: number) => Promise<R>,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const round = await measure(attempt);
    const { lost } = round;
    if (lost === undefined || !isDisturbed(lost, policy) || series.thrownAway >= policy.repeats) {
      series.counted.push(round);
      return;
    }
    series.thrownAway++;
    progress(`disturbed: ${lostText(lost)}; repetition ${series.thrownAway} of ${policy.repeats}`);
    await pause(policy.pauseMs);
  }
}

export interface RoundCounts {
  readonly rounds: number;
  /** Rounds before them, whatever they lost, that are for the caches and the compiler only. */
  readonly warmUp?: number;
}

/** A whole series: rounds 1, 2, … after those that warm up, which are numbered up to 0. */
export async function runRounds<R extends Measured>(
  context: RoundsContext,
  { rounds, warmUp = 0 }: RoundCounts,
  measure: (round: number, attempt: number) => Promise<R>,
): Promise<Series<R>> {
  for (let round = 1 - warmUp; round <= 0; round++) await measure(round, 0);
  const series = createSeries<R>();
  for (let round = 1; round <= rounds; round++) await addRound(context, series, (attempt) => measure(round, attempt));
  return series;
}

export function tallyOf({ counted, thrownAway }: Series<Measured>, limits: Limits): RoundsTally {
  const known = counted.flatMap(({ lost }) => (lost === undefined ? [] : [lost]));
  const worst = (pick: (lost: Lost) => number): number => Math.max(...known.map(pick));
  return {
    counted: counted.length,
    disturbed: known.filter((lost) => isDisturbed(lost, limits)).length,
    thrownAway,
    ...(known.length === 0 ? {} : { stolen: worst(({ stolen }) => stolen), others: worst(({ others }) => others) }),
  };
}
