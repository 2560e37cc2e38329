/**
 * Time from an edit of a file to its bytes at every proxy, for each kind of change, beside the program's own metrics.
 */
import {
  type Bench,
  joinProxies,
  measureKind,
  type Round,
  roundsOf,
  rowOf,
  startRow,
  verify,
  withMesh,
} from '../mesh.ts';
import { meanMs, since } from '../metrics.ts';
import { modeText, type Size } from '../options.ts';
import { mean, type Row, type Table } from '../results.ts';
import { addRound, createSeries, type Series } from '../rounds.ts';
import { CHANGE_KINDS, type ChangeKind } from '../world/world.ts';

export const convergence: Bench = {
  name: 'convergence',
  about: 'from a change on disk to its bytes at each proxy',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds: count, warmUp } = context.options;
      const joined = await joinProxies(context, mesh);
      const measured = new Map(CHANGE_KINDS.map((kind) => [kind, createSeries<Round>()]));
      for (let round = 1 - warmUp; round <= count; round++)
        for (const [kind, series] of measured) {
          context.progress(`${kind}, round ${round} of ${count}`);
          if (round < 1) await measureKind(context, mesh, kind, round, 0);
          else await addRound(roundsOf(context), series, (attempt) => measureKind(context, mesh, kind, round, attempt));
        }
      const verdict = await verify(context, mesh);
      const rows: Row[] = [...measured].map(([what, series]) =>
        rowOf(context, { bench: 'convergence', what }, mesh, series),
      );
      const end = startRow(context, { bench: 'convergence', what: 'at the end' }, mesh, joined);
      rows.push({ ...end, note: `latency: from the server's start; ${verdict}` });
      return { rows, tables: [agreement(measured, mesh.size)] };
    }),
};

/** Mean times in the program's metrics, beside the mean measured from outside. */
function agreement(measured: ReadonlyMap<ChangeKind, Series<Round>>, size: Size): Table {
  const rows = [...measured].map(([kind, { counted: rounds }]) => {
    const told = (name: string): { ms: number | undefined; count: number } => {
      const parts = rounds.map(({ before, after }) => since(before, after, name));
      const all = { count: parts.reduce((n, p) => n + p.count, 0), sum: parts.reduce((n, p) => n + p.sum, 0) };
      return { ms: meanMs(all), count: all.count };
    };
    const latencies = rounds.flatMap((round) => round.latencies);
    const outside = latencies.length === 0 ? undefined : mean(latencies);
    const converged = told('ctl_proxy_convergence_time');
    const difference =
      outside === undefined || converged.ms === undefined ? undefined : ((converged.ms - outside) / outside) * 100;
    return [
      kind,
      outside,
      converged.ms,
      converged.count / rounds.length,
      difference === undefined ? undefined : `${difference.toFixed(0)} %`,
      told('ctl_proxy_queue_time').ms,
      told('ctl_xds_push_time').ms,
    ];
  });
  return {
    title: `The program's own metrics (${modeText(size)}; means, ms)`,
    columns: [
      'change',
      'seen outside',
      'ctl_proxy_convergence_time',
      'count per round',
      'difference',
      'ctl_proxy_queue_time',
      'ctl_xds_push_time',
    ],
    rows,
  };
}
