/**
 * All proxies reconnect at once with the configuration that they had: to the same process, and to a restarted one.
 * Nothing has changed, so nothing should be sent. The server is done when all streams are open and its CPU is idle.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Owner } from '../../test/harness/owner.ts';
import { type Counters, countersOf, lostIn, quiet } from '../counters.ts';
import {
  type Bench,
  type BenchContext,
  joinProxies,
  type Mesh,
  measureChange,
  memory,
  roundsOf,
  rowOf,
  startAgain,
  verify,
  withMesh,
} from '../mesh.ts';
import { cpuSeconds } from '../process-stats.ts';
import { latencyOf, mean, median, type Row } from '../results.ts';
import { type Measured, runRounds, type Series, tallyOf } from '../rounds.ts';
import { monotonicMs } from '../world/clock.ts';

/** The server is idle when it used less than this part of a core in each of the last steps. */
const REST_LOAD = 0.1;
const STEP_MS = 50;
const REST_STEPS = 5;

/** Waits until all streams are open and the server is idle. Resolves with the monotonic ms at which that began. */
async function settled(context: BenchContext, mesh: Mesh): Promise<number> {
  const deadline = monotonicMs() + context.options.timeoutMs;
  let resting = 0;
  let since = monotonicMs();
  let before = cpuSeconds(mesh.server.pid);
  while (monotonicMs() < deadline) {
    await delay(STEP_MS);
    const now = cpuSeconds(mesh.server.pid);
    const busy = now - before > (REST_LOAD * STEP_MS) / 1000;
    before = now;
    resting = busy ? 0 : resting + 1;
    if (busy) since = monotonicMs();
    if (resting < REST_STEPS) continue;
    if ((await streamsOf(mesh)) === mesh.size.proxies) return since;
    resting = 0;
  }
  throw new Error(`only ${await streamsOf(mesh)} of ${mesh.size.proxies} proxies have come back`);
}

async function streamsOf(mesh: Mesh): Promise<number> {
  return (await mesh.server.samples()).get('ctl_xds') ?? 0;
}

interface Return extends Measured {
  readonly ms: number;
  readonly before: Counters;
  readonly after: Counters;
  /** CPU of the server's process for the reconnect; of a new process all of it. */
  readonly serverCpu: number;
}

/** All proxies disconnect and reconnect to the same process. */
async function comeBack(context: BenchContext, mesh: Mesh): Promise<Return> {
  await quiet(mesh);
  await mesh.client.do({ op: 'drop' });
  // The server has seen the ends of the streams before the reconnects begin.
  await delay(500);
  const before = await countersOf(mesh);
  const at = monotonicMs();
  await mesh.client.do({ op: 'connect', retry: false });
  const ms = (await settled(context, mesh)) - at;
  const after = await quiet(mesh);
  return { ms, before, after, serverCpu: after.serverCpu - before.serverCpu, lost: lostIn(before, after) };
}

/** The process ends and is replaced by another one. */
async function restart(context: BenchContext, mesh: Mesh, owner: Owner): Promise<Return> {
  const before = await quiet(mesh);
  await mesh.client.do({ op: 'connect', retry: true });
  await mesh.server.kill();
  await startAgain(context, owner, mesh);
  const ms = (await settled(context, mesh)) - mesh.server.startedAt;
  const after = await quiet(mesh);
  return { ms, before, after, serverCpu: after.serverCpu, lost: lostIn(mesh.started, after) };
}

function returnRow(context: BenchContext, what: string, mesh: Mesh, series: Series<Return>, note: string): Row {
  const { counted } = series;
  const difference = (pick: (counters: Counters) => number): number =>
    mean(counted.map(({ before, after }) => pick(after) - pick(before)));
  return {
    bench: 'reconnect',
    what,
    size: mesh.size,
    ...latencyOf(counted.map(({ ms }) => [ms])),
    rounds: tallyOf(series, context.options.policy),
    serverCpu: median(counted.map(({ serverCpu }) => serverCpu)),
    clientCpu: difference(({ totals }) => totals.cpuSeconds),
    bytes: difference(({ totals }) => totals.bytes),
    messages: difference(({ totals }) => totals.messages),
    resources: difference(({ totals }) => totals.resources),
    ...memory(mesh),
    note,
  };
}

export const reconnect: Bench = {
  name: 'reconnect',
  about: 'all proxies reconnect at once; the same after a restart of ctl-discovery',
  run: (context) =>
    withMesh(context, {}, async (mesh, owner) => {
      const { rounds } = context.options;
      const again = roundsOf(context);
      await joinProxies(context, mesh);
      const dropped = await runRounds(again, { rounds }, (round) => {
        context.progress(`all reconnect, round ${round} of ${rounds}`);
        return comeBack(context, mesh);
      });
      const restarted = await runRounds(again, { rounds }, (round) => {
        context.progress(`restart of ctl-discovery, round ${round} of ${rounds}`);
        return restart(context, mesh, owner);
      });
      context.progress('a route after all that');
      const route = await runRounds(again, { rounds: 1 }, (round, attempt) =>
        measureChange(context, mesh, mesh.world.change('route', round, attempt)),
      );
      const verdict = await verify(context, mesh);
      return {
        rows: [
          returnRow(context, 'all drop, come back', mesh, dropped, 'one value per round: until the server is at rest'),
          returnRow(context, 'server restarted', mesh, restarted, 'from the start of the new process'),
          rowOf(context, { bench: 'reconnect', what: 'route afterwards' }, mesh, route, verdict),
        ],
      };
    }),
};
