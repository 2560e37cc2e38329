/** From an edit of a file to its bytes at every proxy, for each kind of change; and what the program itself says about it. */
import { type Bench, joinProxies, measureChange, memory, type Round, rowOf, verify, withMesh } from '../mesh.ts';
import { meanMs, since } from '../metrics.ts';
import { mean, quantiles, type Row, type Table } from '../results.ts';
import { CHANGE_KINDS, type ChangeKind } from '../world/world.ts';

export const convergence: Bench = {
  name: 'convergence',
  about: 'from a change on disk to its bytes at each proxy',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds: count, warmUp } = context.options;
      const joined = await joinProxies(context, mesh);
      const measured = new Map<ChangeKind, Round[]>();
      for (let round = 1 - warmUp; round <= count; round++)
        for (const kind of CHANGE_KINDS) {
          context.progress(`${kind}, round ${round} of ${count}`);
          const result = await measureChange(context, mesh, mesh.world.change(kind, round));
          if (round > 0) measured.set(kind, [...(measured.get(kind) ?? []), result]);
        }
      const verdict = await verify(context, mesh);
      const rows: Row[] = [...measured].map(([kind, rounds]) => rowOf('convergence', kind, mesh, rounds));
      const sync: Row = {
        bench: 'convergence',
        what: 'at the end',
        size: mesh.size,
        latency: quantiles(joined.at.map((at) => at - mesh.server.startedAt)),
        ...memory(mesh),
        note: `latency: from the server's start; ${verdict}`,
      };
      return { rows: [...rows, sync], tables: [agreement(measured)] };
    }),
};

/** Mean times as the program tells them, beside the mean seen from outside. */
function agreement(measured: ReadonlyMap<ChangeKind, readonly Round[]>): Table {
  const rows = [...measured].map(([kind, rounds]) => {
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
    title: 'What the program says of itself (means, ms)',
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
