/** One proxy in a hundred reads at 10 kB/s: what the others notice of it when routes change. */
import {
  type Bench,
  type BenchContext,
  joinProxies,
  type Mesh,
  measureChange,
  type Round,
  rowOf,
  withMesh,
} from '../mesh.ts';
import type { Row } from '../results.ts';

const SLOW_PART = 0.01;
const SLOW_BYTES_PER_SECOND = 10_000;

async function routes(context: BenchContext, mesh: Mesh, fast: readonly number[], first: number): Promise<Round[]> {
  const rounds: Round[] = [];
  for (let round = 0; round < context.options.rounds; round++)
    rounds.push(await measureChange(context, mesh, mesh.world.change('route', first + round), fast));
  return rounds;
}

export const slow: Bench = {
  name: 'slow',
  about: 'a route changed while 1 % of the proxies read at 10 kB/s',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds } = context.options;
      const { proxies } = mesh.size;
      const slowCount = Math.max(1, Math.round(proxies * SLOW_PART));
      const fast = Array.from({ length: proxies - slowCount }, (_, index) => index);
      await joinProxies(context, mesh, { slow: slowCount });
      context.progress('all fast');
      await routes(context, mesh, fast, 0);
      const before = await routes(context, mesh, fast, rounds);
      context.progress(`${slowCount} slow`);
      await mesh.client.do({ op: 'crawl', bytesPerSecond: SLOW_BYTES_PER_SECOND });
      const during = await routes(context, mesh, fast, 2 * rounds);
      const { broken } = await mesh.client.do({ op: 'totals' });
      const timeouts = (await mesh.server.samples()).get('ctl_xds_write_timeout') ?? 0;
      const rows: Row[] = [
        rowOf('slow', 'route, all fast', mesh, before),
        rowOf(
          'slow',
          'route, 1 % slow',
          mesh,
          during,
          `${slowCount} slow; ${broken} streams ended, ${timeouts} by write timeout`,
        ),
      ];
      return { rows };
    }),
};
