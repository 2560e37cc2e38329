/**
 * Convergence where canaries try changes first, by turns with a second mesh, whose changes go to all proxies at once.
 * Both meshes have their own server and proxies; one is idle while the other is measured.
 */
import { type Bench, type Round, withMesh } from '../mesh.ts';
import { meanMs, since } from '../metrics.ts';
import { quantile, type Table } from '../results.ts';
import { measureSides, type Side, sideOf } from '../sides.ts';
import type { ChangeKind } from '../world/world.ts';

/** Kinds of changes that canaries try. */
const KINDS = ['route', 'service added', 'service removed', 'policy'] as const satisfies readonly ChangeKind[];

/** Views with more proxies have canaries. */
const ABOVE = 20;

const withCanaries = (above: number) => ({ env: { CTL_PUSH_CANARY: String(above) } });

export const canaries: Bench = {
  name: 'canaries',
  about: 'convergence where canaries try changes first, by turns with none',
  run: (context) =>
    withMesh(context, withCanaries(-1), (without) =>
      withMesh(context, withCanaries(ABOVE), async (with_) => {
        const sides = [sideOf('all at once', without, KINDS), sideOf('canaries first', with_, KINDS)];
        const rows = await measureSides(context, 'canaries', sides);
        return { rows, tables: [tableOf(sides)] };
      }),
    ),
};

/** The lower quartile is of the rounds that other processes disturbed least. Pairs are the two rounds of one moment. */
function tableOf(sides: readonly Side[]): Table {
  const rows = KINDS.map((kind) => {
    const [without = [], with_ = []] = sides.map(({ series }) =>
      (series.get(kind)?.counted ?? []).map(({ latencies }) => Math.max(...latencies)),
    );
    const pairs = without.map((ms, index) => (with_[index] ?? Number.NaN) - ms);
    const trials = sides[1]?.series.get(kind)?.counted.map(trialMs) ?? [];
    return [kind, ...[without, with_, pairs, trials].flatMap((values) => [at(values, 0.25), at(values, 0.5)])];
  });
  const columns = ['all at once', 'canaries first', 'difference of pairs', 'a trial'].flatMap((of) => [
    `p25, ${of}`,
    `p50, ${of}`,
  ]);
  return { title: 'The last proxy of a round (ms)', columns: ['change', ...columns], rows };
}

/** The mean time of the trials of a round: that is what the other proxies wait. */
function trialMs({ before, after }: Round): number {
  return meanMs(since(before, after, 'ctl_push_canary_seconds')) ?? Number.NaN;
}

function at(values: readonly number[], q: number): number {
  return quantile(
    [...values].sort((a, b) => a - b),
    q,
  );
}
