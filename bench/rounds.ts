/**
 * The measured rounds of one row of the table. A round during which the machine was disturbed is discarded and
 * repeated. The number of repetitions of a row is limited, so that a run ends even if the machine is never quiet.
 */
import { isDisturbed, type Limits, type Lost, lostText } from './disturbance.ts';

export interface RoundsPolicy extends Limits {
  /** Rounds of one row that may be repeated, in all. */
  readonly repeats: number;
  /**
   * The delay before each repetition: disturbances come in phases, and a cheap round would spend all repetitions in
   * one.
   */
  readonly pauseMs: number;
}

export interface Measured {
  /** Undefined where it is unknown. */
  readonly lost: Lost | undefined;
}

/** The table's summary of a row's rounds. */
export interface RoundsTally {
  readonly counted: number;
  /** Rounds that count although the machine was disturbed, because no repetition was left. */
  readonly disturbed: number;
  readonly thrownAway: number;
  /** The worst shares among the rounds that count; absent where they are unknown. */
  readonly stolen?: number;
  readonly others?: number;
}

/** Rounds of one row. The caller keeps it, and `addRound` fills it. */
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
 * Measures one round and adds it. If the machine was disturbed, the round is repeated while the series has repetitions
 * left. `measure` receives the number of earlier attempts.
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
  /** Warm-up rounds, which never count. */
  readonly warmUp?: number;
}

/** A whole series: rounds 1, 2, … after the warm-up rounds, whose numbers end with 0. */
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
