/**
 * Convergence while people look at the pages of the introspection address, by turns with rounds in which nobody does.
 * Requests of browsers are simulated: what each page reads, as often as it does.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { request } from '../../test/harness/http.ts';
import { type Bench, joinProxies, type Load, type Mesh, rowOf, verify, withMesh } from '../mesh.ts';
import { loadOf, routesByTurns } from '../under-load.ts';

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
      await joinProxies(context, mesh);
      const { alone, loaded } = await routesByTurns(context, mesh, () => openPages(mesh));
      const note = await verify(context, mesh);
      return {
        rows: [
          rowOf(context, { bench: 'pages', what: 'route' }, mesh, alone),
          rowOf(context, { bench: 'pages', what: `route, ${READ.length} pages open` }, mesh, loaded, note),
        ],
      };
    }),
};

/** Reads as that many browser tabs do, each at another moment, until they are closed. */
function openPages({ server }: Mesh): Load {
  const tab = async (path: string, index: number, closed: AbortSignal): Promise<void> => {
    await pause((index * EVERY_MS) / READ.length, closed);
    while (!closed.aborted) {
      const { status } = await request({ port: server.ports.introspection, path, timeoutMs: 60_000 });
      if (status !== 200) throw new Error(`${path} returned HTTP ${status}`);
      await pause(EVERY_MS, closed);
    }
  };
  return loadOf((closed) => Promise.all(READ.map((path, index) => tab(path, index, closed))));
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return delay(ms, undefined, { signal }).catch(() => {});
}
