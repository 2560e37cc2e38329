/**
 * How fast a route configuration reaches all proxies, compared with writing the same bytes to as many plain TCP
 * sockets.
 */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { Owner } from '../../test/harness/owner.ts';
import { countersOf, lostIn } from '../counters.ts';
import {
  type Bench,
  type BenchContext,
  complete,
  joinProxies,
  type Mesh,
  measureKind,
  roundsOf,
  rowOf,
  spread,
  withMesh,
} from '../mesh.ts';
import { latencyOf, median, type Row } from '../results.ts';
import { type Measured, runRounds, tallyOf } from '../rounds.ts';
import { monotonicMs } from '../world/clock.ts';

const MB = 1e6;

/** Port of a process that writes `bytes` to each of its sockets on request. */
async function rawServer(
  owner: Owner,
  bytes: number,
): Promise<{ port: number; pid: number; write(sockets: number): void }> {
  const child = fork(join(import.meta.dirname, 'raw-server.ts'), [String(bytes)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  owner.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('message', (message) => resolve(Number(message)));
    child.once('exit', () => reject(new Error('the raw server ended')));
  });
  return { port, pid: child.pid ?? 0, write: (sockets) => void child.send(sockets) };
}

interface RawRound extends Measured {
  readonly latencies: readonly number[];
  readonly serverCpu: number;
  readonly clientCpu: number;
}

async function rawRow(context: BenchContext, mesh: Mesh, owner: Owner, bytes: number): Promise<Row> {
  const { client, size } = mesh;
  const { timeoutMs, policy } = context.options;
  const server = await rawServer(owner, bytes);
  await client.do({ op: 'rawOpen', port: server.port, count: size.proxies, bytes });
  const series = await runRounds(roundsOf(context), context.options, async (): Promise<RawRound> => {
    const before = await countersOf({ client, server });
    const at = monotonicMs();
    server.write(size.proxies);
    const arrivals = complete(await client.do({ op: 'rawArrived', timeoutMs }), 'the raw bytes');
    const after = await countersOf({ client, server });
    return {
      latencies: arrivals.at.map((arrived) => arrived - at),
      serverCpu: after.serverCpu - before.serverCpu,
      clientCpu: after.totals.cpuSeconds - before.totals.cpuSeconds,
      lost: lostIn(before, after),
    };
  });
  const { counted } = series;
  const spreadMs = median(counted.map(({ latencies }) => spread(latencies)));
  return {
    bench: 'fan-out',
    what: 'raw TCP',
    size,
    ...latencyOf(counted.map(({ latencies }) => latencies)),
    spreadMs,
    rounds: tallyOf(series, policy),
    serverCpu: median(counted.map(({ serverCpu }) => serverCpu)),
    clientCpu: median(counted.map(({ clientCpu }) => clientCpu)),
    bytes: bytes * size.proxies,
    messages: size.proxies,
    note: speed(bytes * size.proxies, spreadMs),
  };
}

function speed(bytes: number, milliseconds: number): string {
  return `${Math.round(bytes / MB / (milliseconds / 1000))} MB/s from the first to the last proxy`;
}

export const fanOut: Bench = {
  name: 'fan-out',
  about: 'a route configuration to all proxies, compared with raw TCP',
  run: (context) =>
    withMesh(context, {}, async (mesh, owner) => {
      const { rounds } = context.options;
      await joinProxies(context, mesh);
      const measured = await runRounds(roundsOf(context), context.options, (round, attempt) => {
        context.progress(`route, round ${round} of ${rounds}`);
        return measureKind(context, mesh, 'route', round, attempt);
      });
      const row = rowOf(context, { bench: 'fan-out', what: 'route over ADS' }, mesh, measured);
      await mesh.client.do({ op: 'drop' });
      context.progress('raw TCP');
      const perProxy = Math.max(1, Math.round((row.bytes ?? 0) / mesh.size.proxies));
      const raw = await rawRow(context, mesh, owner, perProxy);
      const note = `${speed(row.bytes ?? 0, row.spreadMs ?? 0)}; latency holds debounce and generation`;
      return { rows: [{ ...row, note }, raw] };
    }),
};
