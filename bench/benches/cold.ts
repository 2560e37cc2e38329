/** From the start of ctl-discovery to all proxies having everything. */
import type { Owner } from '../../test/harness/owner.ts';
import {
  type Bench,
  type BenchContext,
  countersOf,
  joinProxies,
  type Mesh,
  memory,
  quiet,
  startAgain,
  verify,
  withMesh,
} from '../mesh.ts';
import { mean, median, type Quantiles, quantiles, type Row } from '../results.ts';

interface ColdRound {
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
  const { server } = mesh;
  const before = await mesh.client.do({ op: 'totals' });
  const { at } = await joinProxies(context, mesh);
  const synced = await countersOf(mesh);
  const { totals } = await quiet(mesh);
  return {
    latencies: at.map((arrived) => arrived - server.startedAt),
    readyMs: server.readyAt - server.startedAt,
    serverCpu: synced.serverCpu,
    clientCpu: synced.totals.cpuSeconds - before.cpuSeconds,
    bytes: totals.bytes - before.bytes,
    messages: totals.messages - before.messages,
    resources: totals.resources - before.resources,
    ...memory(mesh),
  };
}

async function again(context: BenchContext, mesh: Mesh, owner: Owner): Promise<void> {
  await mesh.client.do({ op: 'drop' });
  await mesh.server.stop();
  mesh.server = await startAgain(context, owner, mesh);
}

export const cold: Bench = {
  name: 'cold',
  about: 'from the start of ctl-discovery to all proxies in sync',
  run: (context) =>
    withMesh(context, {}, async (mesh, owner) => {
      const rounds: ColdRound[] = [];
      for (let round = 0; round < context.options.rounds; round++) {
        if (round > 0) await again(context, mesh, owner);
        context.progress(`cold start ${round + 1} of ${context.options.rounds}`);
        rounds.push(await coldRound(context, mesh));
      }
      const verdict = await verify(context, mesh);
      return { rows: [coldRow(mesh, rounds, verdict)] };
    }),
};

function coldRow(mesh: Mesh, rounds: readonly ColdRound[], verdict: string): Row {
  const latency: Quantiles = quantiles(rounds.flatMap(({ latencies }) => latencies));
  const each = (pick: (round: ColdRound) => number): number[] => rounds.map(pick);
  const ready = Math.round(median(each(({ readyMs }) => readyMs)));
  return {
    bench: 'cold',
    what: 'start to in sync',
    size: mesh.size,
    latency,
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
