/** The units of a view that were not generated as configured, and what generation reports about the others. */
import type { GenerationFinding } from '../../generate/index.ts';
import type { JobAnswer } from '../protocol.ts';
import { nameOf } from './filter-versions.ts';
import type { UnitFailure } from './job-changes.ts';

export class UnitProblems {
  /** Units that could not be generated, or only with former versions of EnvoyFilters. */
  readonly #failing = new Set<string>();
  readonly #findings = new Map<string, readonly GenerationFinding[]>();

  /** Whether all units were generated as configured. */
  get noneFails(): boolean {
    return this.#failing.size === 0;
  }

  findings(): readonly GenerationFinding[] {
    return [...this.#findings.values()].flat();
  }

  updateFailing(answer: JobAnswer, failures: readonly UnitFailure[]): void {
    for (const name of this.#failing) if (isComplete(answer, name)) this.#failing.delete(name);
    for (const each of answer.units) this.#failing.delete(nameOf(each));
    for (const failure of failures) this.#failing.add(nameOf(failure));
  }

  /**
   * Replaces the findings of the units that were generated; a unit that keeps its last good version keeps its findings.
   */
  updateFindings(answer: JobAnswer, kept: ReadonlySet<string>): void {
    for (const name of this.#findings.keys())
      if (!kept.has(name) && isComplete(answer, name)) this.#findings.delete(name);
    for (const each of answer.units) if (!kept.has(nameOf(each))) this.#findings.delete(nameOf(each));
    for (const finding of answer.findings) {
      const name = nameOf(finding);
      if (!kept.has(name)) this.#findings.set(name, [...(this.#findings.get(name) ?? []), finding]);
    }
  }
}

/** The answer has all units of the type of this one. */
function isComplete({ complete }: JobAnswer, name: string): boolean {
  return complete.some((type) => name.startsWith(`${type}/`));
}
