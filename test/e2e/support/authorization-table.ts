/** The outcomes of expectations, for a table that people read. */
import assert from 'node:assert/strict';
import { eventually } from '../../harness/index.ts';

/** Runs a limited number at once: the machine has other work. */
export async function inParallel<T, R>(items: readonly T[], width: number, act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) results[index] = await act(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}

export interface Expectation {
  readonly group: string;
  /** The policies. */
  readonly what: string;
  /** The request. */
  readonly request: string;
  readonly expected: string;
  run(): Promise<string>;
}

/** Expectations, group by group and policy by policy. */
export class ExpectationTable {
  /** Group → policy → outcome → how often. */
  readonly #met = new Map<string, Map<string, Map<string, number>>>();
  #unmet = 0;

  /** Runs all, and describes those with another outcome. */
  async check(expectations: readonly Expectation[]): Promise<string[]> {
    const seen = await inParallel(expectations, WIDTH, (each) => each.run());
    const faults: string[] = [];
    for (const [index, { group, what, request, expected }] of expectations.entries()) {
      const outcome = seen[index] ?? '';
      if (outcome === expected) this.#note(group, what, outcome);
      else faults.push(`${group}: ${what}: ${request}: ${outcome}, expected ${expected}`);
    }
    this.#unmet += faults.length;
    return faults;
  }

  /**
   * Waits until all have the expected outcome at once, as after an edit has arrived, and then checks that this stays.
   */
  async settle(expectations: readonly Expectation[]): Promise<void> {
    await eventually(async () => {
      const seen = await inParallel(expectations, WIDTH, async (each) => `${each.request}: ${await each.run()}`);
      const expected = expectations.map((each) => `${each.request}: ${each.expected}`);
      assert.deepEqual(seen, expected);
    }, PATIENCE);
    assert.deepEqual(await this.check(expectations), []);
  }

  #note(group: string, what: string, outcome: string): void {
    const policies = this.#met.get(group) ?? new Map<string, Map<string, number>>();
    const outcomes = policies.get(what) ?? new Map<string, number>();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    this.#met.set(group, policies.set(what, outcomes));
  }

  print(title: string): void {
    let count = 0;
    const lines = [...this.#met].flatMap(([group, policies]) => [
      group,
      ...[...policies].map(([what, outcomes]) => {
        for (const number of outcomes.values()) count += number;
        const cells = [...outcomes].sort().map(([outcome, number]) => `${outcome} ${number}`);
        return `  ${what.padEnd(58)} ${cells.join(', ')}`;
      }),
    ]);
    const unmet = this.#unmet === 0 ? '' : `, ${this.#unmet} not met`;
    process.stdout.write(`${title}: ${count} expectations met${unmet}\n${lines.join('\n')}\n`);
  }
}

/** Number of concurrent requests. */
const WIDTH = 16;

/** Far longer than an edit takes to arrive, even when other tests use the cores. */
const PATIENCE = { timeoutMs: 30_000, intervalMs: 100 };
