/**
 * What `ctl-discovery diff` asks, of one route and of one destination rule, and the convergence of a route while others
 * ask without a pause, by turns with rounds in which nobody asks.
 */
import { request } from '../../test/harness/http.ts';
import { type Bench, joinProxies, type Mesh, rowOf, verify, withMesh } from '../mesh.ts';
import { type Quantiles, quantiles, type Table } from '../results.ts';
import { loadOf, routesByTurns } from '../under-load.ts';
import type { Change } from '../world/world.ts';

/** Beyond the rounds that change the mesh, so that their versions are not in force. */
const ASKED = 20_000;
const PER_ROUND = 5;

export const diff: Bench = {
  name: 'diff',
  about: 'what a change would do, and the convergence of a route while others ask that',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      await joinProxies(context, mesh);
      const times = { route: [] as Asked[], policy: [] as Asked[] };
      const load = () =>
        loadOf(async (signal) => {
          for (let round = 0; !signal.aborted; round++) await ask(mesh, 'route', round);
        });
      const { alone, loaded } = await routesByTurns(context, mesh, load, async (round) => {
        if (round < 1) await ask(mesh, 'route', 0);
        for (let count = 0; count < PER_ROUND && round >= 1; count++)
          for (const kind of ['route', 'policy'] as const) times[kind].push(await ask(mesh, kind, 2 * round + count));
      });
      const note = await verify(context, mesh);
      return {
        rows: [
          rowOf(context, { bench: 'diff', what: 'route' }, mesh, alone),
          rowOf(context, { bench: 'diff', what: 'route while others ask' }, mesh, loaded, note),
        ],
        tables: [tableOf(times)],
      };
    }),
};

interface Asked {
  readonly milliseconds: number;
  readonly touched: number;
  readonly resources: number;
}

/** Asks what a change would do that is never made. */
async function ask(mesh: Mesh, kind: 'route' | 'policy', round: number): Promise<Asked> {
  const { path, text = '' }: Change = mesh.world.change(kind, ASKED + round);
  const started = performance.now();
  const { status, body } = await request({
    port: mesh.server.ports.http,
    path: '/debug/diffz',
    method: 'POST',
    body: JSON.stringify({ files: [{ file: path, text }] }),
    timeoutMs: 60_000,
  });
  const milliseconds = performance.now() - started;
  if (status !== 200) throw new Error(`/debug/diffz returned HTTP ${status}: ${body}`);
  const { proxies, resources } = JSON.parse(body) as {
    readonly proxies: { readonly touched: number };
    readonly resources: { readonly list: readonly unknown[] };
  };
  return { milliseconds, touched: proxies.touched, resources: resources.list.length };
}

function tableOf(times: Readonly<Record<string, readonly Asked[]>>): Table {
  return {
    title: 'What a change would do (ms)',
    columns: ['change', 'asked', 'p50', 'p90', 'max', 'proxies touched', 'resources'],
    rows: Object.entries(times).map(([change, all]) => {
      const { p50, p90, max }: Quantiles = quantiles(all.map(({ milliseconds }) => milliseconds));
      return [change, all.length, p50, p90, max, all[0]?.touched, all[0]?.resources];
    }),
  };
}
