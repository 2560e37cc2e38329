/** Small forms of the benches, for tests: a mesh of twelve services, one round, no repetitions. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { BenchOptions } from '../../bench/options.ts';
import type { Outcome, Row } from '../../bench/results.ts';
import { chooseBenches, runBenches } from '../../bench/suite.ts';
import { buildAside } from './built.ts';
import { createScope } from './owner.ts';

export const SMALL: BenchOptions = {
  services: 12,
  endpoints: 2,
  proxies: 6,
  namespaces: 2,
  mode: 'delta',
  security: 'plain',
  content: 'mtls',
  rounds: 1,
  warmUp: 0,
  policy: { repeats: 0, pauseMs: 0, stolen: 0, others: 0 },
  seconds: 2,
  changes: 10,
  timeoutMs: 60_000,
  server: 'dist',
  peer: '',
  against: '',
  turns: 1,
  load: 0.002,
  gzip: false,
  only: [],
  profile: false,
  out: '',
  json: undefined,
};

/** Benches run the built programs. `npm test` has built them for all files; a file alone builds its own. */
export function prepareBenches(): void {
  const scope = createScope();
  before(async () => {
    process.env.TEST_PROGRAMS ??= await buildAside(scope);
  });
  after(() => scope.close());
}

/** Runs benches, none of which may fail. */
export async function runWith(options: BenchOptions, ...names: string[]): Promise<Outcome> {
  const benches = chooseBenches(names);
  const { outcomes, failures } = await runBenches({ benches, runs: [options], progress: () => {} });
  assert.deepEqual(failures, []);
  return { rows: outcomes.flatMap(({ rows }) => rows), tables: outcomes.flatMap(({ tables = [] }) => tables) };
}

export function row({ rows }: Outcome, bench: string, what: string): Row {
  const found = rows.find((each) => each.bench === bench && each.what === what);
  assert.ok(found, `${bench} has a row "${what}"`);
  return found;
}
