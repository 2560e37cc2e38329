/** Where the time of a push goes inside the program: its own stage times, per kind of change. */
import { percent } from '../disturbance.ts';
import { type Bench, joinProxies, measureKind, type Round, roundsOf, withMesh } from '../mesh.ts';
import { meanMs, sinceByLabel } from '../metrics.ts';
import { modeText } from '../options.ts';
import { mean } from '../results.ts';
import { type RoundsTally, runRounds, tallyOf } from '../rounds.ts';
import type { ChangeKind } from '../world/world.ts';

const KINDS = ['endpoint', 'route', 'service added', 'policy'] as const satisfies readonly ChangeKind[];
/** In the order in which a push passes them. */
const STAGES = ['snapshot', 'views', 'generate', 'intern', 'write'] as const;

export const pushLatency: Bench = {
  name: 'push-latency',
  about: 'the stages of a push, from ctl_stage_seconds',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds: count, policy } = context.options;
      await joinProxies(context, mesh);
      const rows: Cells[] = [];
      for (const kind of KINDS) {
        const series = await runRounds(roundsOf(context), context.options, (round, attempt) => {
          context.progress(`${kind}, round ${round} of ${count}`);
          return measureKind(context, mesh, kind, round, attempt);
        });
        rows.push(...stagesOf(kind, series.counted, tallyOf(series, policy)));
      }
      const columns = [
        ...['change', 'stage', 'times per round', 'mean ms', 'sum ms per round'],
        ...['rounds', 'thrown away', 'stolen at worst'],
      ];
      return { rows: [], tables: [{ title: `Stages of a push (${modeText(mesh.size)})`, columns, rows }] };
    }),
};

type Cells = (string | number | undefined)[];

function stagesOf(kind: ChangeKind, rounds: readonly Round[], { stolen, thrownAway }: RoundsTally): Cells[] {
  const parts = rounds.map(({ before, after }) => sinceByLabel(before, after, 'ctl_stage_seconds'));
  const rows = STAGES.map((stage) => {
    const all = { count: 0, sum: 0 };
    for (const part of parts) {
      all.count += part.get(stage)?.count ?? 0;
      all.sum += part.get(stage)?.sum ?? 0;
    }
    return [kind, stage, all.count / rounds.length, meanMs(all), (all.sum * 1000) / rounds.length];
  });
  const outside = mean(rounds.flatMap(({ latencies }) => latencies));
  const lost = stolen === undefined ? undefined : percent(stolen);
  return [...rows, [kind, 'seen outside', 1, outside, undefined, rounds.length, thrownAway, lost]];
}
