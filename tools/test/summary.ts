/** What `npm test` prints at its end. */
import type { Outcome } from './files.ts';

/** A stage that has ended. */
export interface StageResult {
  readonly name: string;
  readonly outcome: Outcome;
  readonly seconds: number;
}

/** `N passed, N failed`, and how many were skipped if any were. */
export function describeOutcome({ passed, failed, skipped }: Omit<Outcome, 'failures'>): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** `16 min 23 s`. */
function describeTime(seconds: number): string {
  const rounded = Math.round(seconds);
  const minutes = Math.floor(rounded / 60);
  return `${minutes > 0 ? `${minutes} min ` : ''}${rounded % 60} s`;
}

/**
 * The failed tests, one line for each stage, the whole time, and last the sums of all stages.
 * @param seconds the whole time, which is less than the sum of stages that run beside each other
 */
export function summary(stages: readonly StageResult[], seconds: number): string {
  const failures = stages.flatMap(({ name, outcome }) => outcome.failures.map((failure) => `  ${name}: ${failure}`));
  const width = Math.max(0, ...stages.map(({ name }) => name.length));
  const lines = stages.map(
    (stage) => `  ${stage.name.padEnd(width)}  ${describeOutcome(stage.outcome)} in ${describeTime(stage.seconds)}`,
  );
  const sum = (count: 'passed' | 'failed' | 'skipped') => stages.reduce((all, { outcome }) => all + outcome[count], 0);
  return [
    ...(failures.length > 0 ? ['failed:', ...failures, ''] : []),
    'stages:',
    ...lines,
    `time: ${describeTime(seconds)}`,
    '',
    describeOutcome({ passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') }),
  ].join('\n');
}
