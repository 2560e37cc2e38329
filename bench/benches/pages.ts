/**
 * Convergence while people look at the pages of the introspection address, by turns with rounds in which nobody does.
 * Requests of browsers are simulated: what each page reads, as often as it does.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../test/harness/http.ts';
import {
  type Bench,
  type ChangeOptions,
  joinProxies,
  type Load,
  type Mesh,
  measureChange,
  type Round,
  roundsOf,
  rowOf,
  verify,
  withMesh,
} from '../mesh.ts';
import { addRound, createSeries } from '../rounds.ts';

/** What open pages read every 2 s. */
const READ = [
  '/debug/overviewz',
  '/debug/seriesz',
  '/debug/proxiesz',
  '/debug/pushz',
  '/debug/eventsz',
  '/debug/configz?limit=50',
  '/debug/push_status',
  '/metrics',
  '/memj',
];
const EVERY_MS = 2000;

export const pages: Bench = {
  name: 'pages',
  about: 'convergence of a route while every page for operators is open, by turns with none',
  run: (context) =>
    withMesh(context, {}, async (mesh) => {
      const { rounds, warmUp } = context.options;
      await joinProxies(context, mesh);
      const [alone, watched] = [createSeries<Round>(), createSeries<Round>()];
      let version = 0;
      const measure = (attempt: number, options: ChangeOptions) =>
        measureChange(context, mesh, mesh.world.change('route', ++version, attempt), options);
      const change = (attempt = 0) => measure(attempt, {});
      const changeWatched = (attempt = 0) => measure(attempt, { load: () => openPages(mesh) });
      for (let round = 1 - warmUp; round <= rounds; round++) {
        context.progress(`round ${round} of ${rounds}`);
        if (round < 1) {
          await change();
          await changeWatched();
        } else {
          await addRound(roundsOf(context), alone, change);
          await addRound(roundsOf(context), watched, changeWatched);
        }
      }
      const note = await verify(context, mesh);
      return {
        rows: [
          rowOf(context, { bench: 'pages', what: 'route' }, mesh, alone),
          rowOf(context, { bench: 'pages', what: `route, ${READ.length} pages open` }, mesh, watched, note),
        ],
      };
    }),
};

/** Reads as that many browser tabs do, each at another moment, until they are closed. */
function openPages({ server }: Mesh): Load {
  const closed = new AbortController();
  const tab = async (path: string, index: number): Promise<void> => {
    await pause((index * EVERY_MS) / READ.length, closed.signal);
    while (!closed.signal.aborted) {
      const { status } = await request({ port: server.ports.introspection, path, timeoutMs: 60_000 });
      if (status !== 200) throw new Error(`${path} returned HTTP ${status}`);
      await pause(EVERY_MS, closed.signal);
    }
  };
  const tabs = Promise.all(READ.map(tab));
  // The caller learns of a failure at the end.
  tabs.catch(() => {});
  return {
    end: async () => {
      closed.abort();
      await tabs;
    },
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal }).catch(() => {});
}
