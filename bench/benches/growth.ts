/** The same changes with more proxies and with more services: the lines of the report's plots. */
import {
  type Bench,
  type BenchContext,
  joinProxies,
  measureKind,
  roundsOf,
  rowOf,
  startRow,
  withMesh,
} from '../mesh.ts';
import type { Outcome, Row } from '../results.ts';
import { runRounds } from '../rounds.ts';
import type { ChangeKind } from '../world/world.ts';

const KINDS = ['endpoint', 'route', 'service added'] as const satisfies readonly ChangeKind[];
const PROXY_FACTORS = [0.25, 0.5, 1, 2];
const SERVICE_FACTORS = [0.25, 0.5];

async function rowsAt(context: BenchContext, proxies: number, services: number): Promise<Row[]> {
  context.progress(`${services} services, ${proxies} proxies`);
  return withMesh(context, { size: { proxies, services } }, async (mesh) => {
    const joined = await joinProxies(context, mesh);
    const rows: Row[] = [startRow(context, { bench: 'growth', what: 'cold' }, mesh, joined)];
    for (const what of KINDS) {
      const series = await runRounds(roundsOf(context), context.options, (round, attempt) =>
        measureKind(context, mesh, what, round, attempt),
      );
      rows.push(rowOf(context, { bench: 'growth', what }, mesh, series));
    }
    return rows;
  });
}

export const growth: Bench = {
  name: 'growth',
  about: 'cold start and changes over the number of proxies and of services',
  async run(context): Promise<Outcome> {
    const { proxies, services, namespaces } = context.options;
    const rows: Row[] = [];
    for (const factor of PROXY_FACTORS)
      rows.push(...(await rowsAt(context, Math.max(1, Math.round(proxies * factor)), services)));
    for (const factor of SERVICE_FACTORS)
      rows.push(...(await rowsAt(context, proxies, Math.max(namespaces, 4, Math.round(services * factor)))));
    return { rows };
  },
};
