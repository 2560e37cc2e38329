/** The same changes with more proxies and with more services: the lines of the report's plots. */
import {
  type Bench,
  type BenchContext,
  joinProxies,
  measureChange,
  memory,
  type Round,
  rowOf,
  withMesh,
} from '../mesh.ts';
import { type Outcome, quantiles, type Row } from '../results.ts';
import type { ChangeKind } from '../world/world.ts';

const KINDS = ['endpoint', 'route', 'service added'] as const satisfies readonly ChangeKind[];
const PROXY_FACTORS = [0.25, 0.5, 1, 2];
const SERVICE_FACTORS = [0.25, 0.5];

async function rowsAt(context: BenchContext, proxies: number, services: number): Promise<Row[]> {
  context.progress(`${services} services, ${proxies} proxies`);
  return withMesh(context, { size: { proxies, services } }, async (mesh) => {
    const { rounds: count, warmUp } = context.options;
    const joined = await joinProxies(context, mesh);
    const rows: Row[] = [
      {
        bench: 'growth',
        what: 'cold',
        size: mesh.size,
        latency: quantiles(joined.at.map((at) => at - mesh.server.startedAt)),
        ...memory(mesh),
      },
    ];
    for (const kind of KINDS) {
      const rounds: Round[] = [];
      for (let round = 1 - warmUp; round <= count; round++) {
        const result = await measureChange(context, mesh, mesh.world.change(kind, round));
        if (round > 0) rounds.push(result);
      }
      rows.push(rowOf('growth', kind, mesh, rounds));
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
