/** Where the time of a push goes inside the program: its own stage times, per kind of change. */
import { type Bench, joinProxies, measureChange, type Round, withMesh } from '../mesh.ts';
import { meanMs, sinceByLabel } from '../metrics.ts';
import { modeText } from '../options.ts';
import { mean } from '../results.ts';
import type { ChangeKind } from '../world/world.ts';

const KINDS = ['endpoint', 'route', 'service added', 'policy'] as const satisfies readonly ChangeKind[];
/** In the order of the way. */
const STAGES = ['snapshot', 'views', 'generate', 'intern', 'write'] as const;

export const pushLatency: Bench = {
  name: 'push-latency',
  about: 'the stages of a push, as ctl_stage_seconds tells them',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds: count, warmUp } = context.options;
      await joinProxies(context, mesh);
      const rows: (string | number | undefined)[][] = [];
      for (const kind of KINDS) {
        const rounds: Round[] = [];
        for (let round = 1 - warmUp; round <= count; round++) {
          context.progress(`${kind}, round ${round} of ${count}`);
          const result = await measureChange(context, mesh, mesh.world.change(kind, round));
          if (round > 0) rounds.push(result);
        }
        rows.push(...stagesOf(kind, rounds));
      }
      const columns = ['change', 'stage', 'times per round', 'mean ms', 'sum ms per round'];
      return { rows: [], tables: [{ title: `Stages of a push (${modeText(mesh.size)})`, columns, rows }] };
    }),
};

function stagesOf(kind: ChangeKind, rounds: readonly Round[]): (string | number | undefined)[][] {
  const parts = rounds.map(({ before, after }) => sinceByLabel(before, after, 'ctl_stage_seconds'));
  const rows = STAGES.map((stage) => {
    const all = { count: 0, sum: 0 };
    for (const part of parts) {
      all.count += part.get(stage)?.count ?? 0;
      all.sum += part.get(stage)?.sum ?? 0;
    }
    return [kind, stage, all.count / rounds.length, meanMs(all), (all.sum * 1000) / rounds.length];
  });
  return [...rows, [kind, 'seen outside', 1, mean(rounds.flatMap(({ latencies }) => latencies)), undefined]];
}
