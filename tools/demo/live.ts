/** The live view: redrawn in place on a terminal, printed line by line on change elsewhere. */
import { relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { DemoMesh } from './mesh.ts';
import { type Convergence, type MeshState, readState, unknownState } from './state.ts';
import { startTraffic } from './traffic.ts';
import { changedLines, coloured, hintLines, type LastPush, type Paint, plain, redraw, viewLines } from './view.ts';

/** Between two looks at the mesh, milliseconds: at once for an eye, next to nothing for the processes. */
const REFRESH_MS = 250;

/** A terminal, or something that lines go to. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
  hasColors?(): boolean;
}

/** What the times since the last look say about a push in between; undefined when there was none. */
export function pushBetween(before: Convergence | undefined, after: Convergence, at: Date): LastPush | undefined {
  const { count, sum } = before ?? { count: 0, sum: 0 };
  const proxies = after.count - count;
  return proxies <= 0 ? undefined : { at, proxies, seconds: (after.sum - sum) / proxies };
}

function terminal(screen: Screen): (fixed: readonly string[], lines: readonly string[]) => void {
  let drawn = 0;
  return (fixed, lines) => {
    const size = { columns: screen.columns ?? 80, rows: screen.rows ?? 24 };
    const all = [...lines, '', ...fixed];
    screen.write(redraw(drawn, all, size));
    drawn = Math.min(all.length, Math.max(1, size.rows - 1));
  };
}

function printer(screen: Screen): (fixed: readonly string[], lines: readonly string[]) => void {
  let previous: readonly string[] = [];
  return (fixed, lines) => {
    if (previous.length === 0) screen.write(`${fixed.join('\n')}\n`);
    for (const line of changedLines(previous, lines)) screen.write(`${line}\n`);
    previous = lines;
  };
}

/** Shows the mesh until `signal` is aborted, or throws when the mesh breaks. */
export async function showLive(mesh: DemoMesh, screen: Screen, signal: AbortSignal): Promise<void> {
  const inPlace = screen.isTTY === true;
  const paint: Paint = inPlace && screen.hasColors?.() === true ? coloured : plain;
  const show = inPlace ? terminal(screen) : printer(screen);
  const folder = relative(process.cwd(), mesh.configDir);
  const fixed = hintLines(
    {
      places: mesh.places,
      folder: folder.startsWith('..') ? mesh.configDir : folder,
      user: mesh.endUsers.headerFile,
      redirected:
        typeof mesh.redirection === 'string'
          ? { unavailable: mesh.redirection }
          : { netns: mesh.redirection.orders.netns.name, url: mesh.redirection.urls.stock },
    },
    paint,
  );
  const traffic = startTraffic(mesh.places.gateway);
  let last: { state: MeshState; push: LastPush | undefined } | undefined;
  const ending = new AbortController();
  const stop = AbortSignal.any([signal, ending.signal]);
  const follow = async () => {
    while (!stop.aborted) {
      const convergence = last?.state.convergence ?? { count: 0, sum: 0 };
      const state = await readState(mesh).catch((error: unknown) => unknownState(mesh, convergence, error));
      const push = pushBetween(last?.state.convergence, state.convergence, new Date()) ?? last?.push;
      last = { state, push };
      const view = { state, ...(push === undefined ? {} : { lastPush: push }) };
      show(fixed, viewLines(inPlace ? { ...view, traffic: traffic.shares() } : view, paint));
      await delay(REFRESH_MS, undefined, { signal: stop }).catch(() => {});
    }
  };
  const followed = follow();
  try {
    await Promise.race([mesh.broken, followed]);
  } finally {
    ending.abort();
    await Promise.all([traffic.stop(), followed]);
  }
}
