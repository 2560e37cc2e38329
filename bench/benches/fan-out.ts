/** How fast a route configuration reaches all proxies, against the same number of bytes written to as many plain TCP sockets. */
import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { Owner } from '../../test/harness/owner.ts';
import type { BenchContext } from '../mesh.ts';
import {
  type Bench,
  complete,
  joinProxies,
  type Mesh,
  measureChange,
  type Round,
  rowOf,
  spread,
  withMesh,
} from '../mesh.ts';
import { cpuSeconds } from '../process-stats.ts';
import { median, quantiles, type Row } from '../results.ts';
import { monotonicMs } from '../world/clock.ts';

const MB = 1e6;

/** Port of a process that writes `bytes` to each of its sockets when told to. */
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

async function rawRow(context: BenchContext, mesh: Mesh, owner: Owner, bytes: number): Promise<Row> {
  const { client, size } = mesh;
  const { rounds, warmUp, timeoutMs } = context.options;
  const server = await rawServer(owner, bytes);
  await client.do({ op: 'rawOpen', port: server.port, count: size.proxies, bytes });
  const latencies: number[][] = [];
  const cpu: number[] = [];
  const clientCpu: number[] = [];
  for (let round = 1 - warmUp; round <= rounds; round++) {
    const before = cpuSeconds(server.pid);
    const { cpuSeconds: clientBefore } = await client.do({ op: 'totals' });
    const at = monotonicMs();
    server.write(size.proxies);
    const arrivals = complete(await client.do({ op: 'rawArrived', timeoutMs }), 'the raw bytes');
    if (round < 1) continue;
    latencies.push(arrivals.at.map((arrived) => arrived - at));
    cpu.push(cpuSeconds(server.pid) - before);
    clientCpu.push((await client.do({ op: 'totals' })).cpuSeconds - clientBefore);
  }
  const spreadMs = median(latencies.map(spread));
  return {
    bench: 'fan-out',
    what: 'raw TCP',
    size,
    latency: quantiles(latencies.flat()),
    spreadMs,
    serverCpu: median(cpu),
    clientCpu: median(clientCpu),
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
  about: 'a route configuration to all proxies, against raw TCP',
  run: (context) =>
    withMesh(context, {}, async (mesh, owner) => {
      const { rounds, warmUp } = context.options;
      await joinProxies(context, mesh);
      const measured: Round[] = [];
      for (let round = 1 - warmUp; round <= rounds; round++) {
        context.progress(`route, round ${round} of ${rounds}`);
        const result = await measureChange(context, mesh, mesh.world.change('route', round));
        if (round > 0) measured.push(result);
      }
      const row = rowOf('fan-out', 'route over ADS', mesh, measured);
      await mesh.client.do({ op: 'drop' });
      context.progress('raw TCP');
      const perProxy = Math.max(1, Math.round((row.bytes ?? 0) / mesh.size.proxies));
      const raw = await rawRow(context, mesh, owner, perProxy);
      const note = `${speed(row.bytes ?? 0, row.spreadMs ?? 0)}; latency holds debounce and generation`;
      return { rows: [{ ...row, note }, raw] };
    }),
};
