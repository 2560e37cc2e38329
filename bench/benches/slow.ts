/** One proxy in a hundred reads at 10 kB/s: how much that delays the others when routes change. */
import {
  type Bench,
  type BenchContext,
  joinProxies,
  type Mesh,
  measureChange,
  type Round,
  roundsOf,
  rowOf,
  withMesh,
} from '../mesh.ts';
import type { Row } from '../results.ts';
import { runRounds, type Series } from '../rounds.ts';

const SLOW_PART = 0.01;
const SLOW_BYTES_PER_SECOND = 10_000;

/** `first`: number of the first round, so that each round changes something else. */
async function routes(
  context: BenchContext,
  mesh: Mesh,
  fast: readonly number[],
  first: number,
): Promise<Series<Round>> {
  const { rounds } = context.options;
  return runRounds(roundsOf(context), { rounds }, (round, attempt) =>
    measureChange(context, mesh, mesh.world.change('route', first + round, attempt), { proxies: fast }),
  );
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
      for (let round = 0; round < rounds; round++)
        await measureChange(context, mesh, mesh.world.change('route', round), { proxies: fast });
      const before = await routes(context, mesh, fast, rounds);
      context.progress(`${slowCount} slow`);
      await mesh.client.do({ op: 'crawl', bytesPerSecond: SLOW_BYTES_PER_SECOND });
      const during = await routes(context, mesh, fast, 2 * rounds);
      const { broken } = await mesh.client.do({ op: 'totals' });
      const timeouts = (await mesh.server.samples()).get('ctl_xds_write_timeout') ?? 0;
      const rows: Row[] = [
        rowOf(context, { bench: 'slow', what: 'route, all fast' }, mesh, before),
        rowOf(
          context,
          { bench: 'slow', what: 'route, 1 % slow' },
          mesh,
          during,
          `${slowCount} slow; ${broken} streams ended, ${timeouts} by write timeout`,
        ),
      ];
      return { rows };
    }),
};
