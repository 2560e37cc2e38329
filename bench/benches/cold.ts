/** From the start of ctl-discovery to all proxies having everything. */
import type { Owner } from '../../test/harness/owner.ts';
import { quiet } from '../counters.ts';
import {
  type Bench,
  type BenchContext,
  joinProxies,
  type Mesh,
  memory,
  roundsOf,
  startAgain,
  verify,
  withMesh,
} from '../mesh.ts';
import { latencyOf, mean, median, type Row } from '../results.ts';
import { type Measured, runRounds, type Series, tallyOf } from '../rounds.ts';

interface ColdRound extends Measured {
  readonly latencies: readonly number[];
  readonly readyMs: number;
  readonly serverCpu: number;
  readonly clientCpu: number;
  readonly bytes: number;
  readonly messages: number;
  readonly resources: number;
  readonly rssMiB: number;
  readonly peakMiB: number;
}

async function coldRound(context: BenchContext, mesh: Mesh): Promise<ColdRound> {
  const { server, started } = mesh;
  const { latencies, synced, lost } = await joinProxies(context, mesh);
  const { totals } = await quiet(mesh);
  return {
    latencies,
    lost,
    readyMs: server.readyAt - server.startedAt,
    serverCpu: synced.serverCpu,
    clientCpu: synced.totals.cpuSeconds - started.totals.cpuSeconds,
    bytes: totals.bytes - started.totals.bytes,
    messages: totals.messages - started.totals.messages,
    resources: totals.resources - started.totals.resources,
    ...memory(mesh),
  };
}

async function again(context: BenchContext, mesh: Mesh, owner: Owner): Promise<void> {
  await mesh.client.do({ op: 'drop' });
  await mesh.server.stop();
  await startAgain(context, owner, mesh);
}

export const cold: Bench = {
  name: 'cold',
  about: 'from the start of ctl-discovery to all proxies in sync',
  run: (context) =>
    withMesh(context, {}, async (mesh, owner) => {
      const { rounds } = context.options;
      const series = await runRounds(roundsOf(context), { rounds }, async (round, attempt) => {
        if (round + attempt > 1) await again(context, mesh, owner);
        context.progress(`cold start ${round} of ${rounds}`);
        return coldRound(context, mesh);
      });
      const verdict = await verify(context, mesh);
      return { rows: [coldRow(context, mesh, series, verdict)] };
    }),
};

function coldRow(context: BenchContext, mesh: Mesh, series: Series<ColdRound>, verdict: string): Row {
  const each = <T>(pick: (round: ColdRound) => T): T[] => series.counted.map(pick);
  const ready = Math.round(median(each(({ readyMs }) => readyMs)));
  return {
    bench: 'cold',
    what: 'start to in sync',
    size: mesh.size,
    ...latencyOf(each(({ latencies }) => latencies)),
    rounds: tallyOf(series, context.options.policy),
    serverCpu: median(each(({ serverCpu }) => serverCpu)),
    clientCpu: median(each(({ clientCpu }) => clientCpu)),
    bytes: mean(each(({ bytes }) => bytes)),
    messages: mean(each(({ messages }) => messages)),
    resources: mean(each(({ resources }) => resources)),
    rssMiB: median(each(({ rssMiB }) => rssMiB)),
    peakMiB: Math.max(...each(({ peakMiB }) => peakMiB)),
    note: `ready after ${ready} ms; ${verdict}`,
  };
}
