/**
 * What the names cost ctl-discovery and the network: a table of 10,000 names at a thousand agents, and one service that
 * changes, in one table and in pieces.
 */
import { join } from 'node:path';
import { tempDir } from '../../test/harness/files.ts';
import { createScope } from '../../test/harness/owner.ts';
import { startAsked } from '../client/child.ts';
import type { BenchContext } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, quantiles, type Table } from '../results.ts';
import { startServer } from '../server.ts';
import { monotonicMs } from '../world/clock.ts';
import type { AgentsCommand, AgentsResult } from './messages.ts';
import { changeService, writeServices } from './names.ts';

export async function measureTables(context: BenchContext, names: number): Promise<Table> {
  const { proxies, rounds } = context.options;
  return {
    title: `The names of ${names} services at ${proxies} agents, Delta (a change: medians of ${rounds} rounds)`,
    columns: [
      'table',
      'first, kB an agent',
      'first, s',
      'a changed service, kB an agent',
      'p50 ms',
      'p99 ms',
      'CPU s',
      'RssAnon MiB of ctl-discovery',
    ],
    rows: [await measured(context, names, false), await measured(context, names, true)],
  };
}

async function measured(context: BenchContext, names: number, pieces: boolean): Promise<(string | number)[]> {
  const { program, progress } = context;
  const { proxies: count, rounds } = context.options;
  const what = pieces ? 'in pieces' : 'one';
  progress(`${count} agents, table ${what}`);
  const scope = createScope();
  try {
    const folder = join(await tempDir(scope), 'config');
    await writeServices(folder, names);
    const server = await startServer(scope, { program, configDir: folder });
    const agents = startAsked<AgentsCommand, AgentsResult>(scope, join(import.meta.dirname, 'agents.ts'));
    const started = monotonicMs();
    const port = server.ports.grpc;
    const first = await agents.ask({ op: 'open', port, count, pieces, responses: 1 });
    const firstMs = Math.max(...first.at) - started;
    const changes: { readonly bytes: number; readonly cpu: number; readonly p50: number; readonly p99: number }[] = [];
    for (let [round, before] = [1, first.bytes]; round <= rounds; round++) {
      const cpu = cpuSeconds(server.pid);
      const changedAt = monotonicMs();
      await changeService(folder, round);
      const { bytes, at } = await agents.ask({ op: 'received', responses: round + 1 });
      const times = quantiles(at.map((each) => each - changedAt));
      changes.push({ bytes: bytes - before, cpu: cpuSeconds(server.pid) - cpu, p50: times.p50, p99: times.p99 });
      before = bytes;
    }
    const middle = (pick: (change: (typeof changes)[number]) => number): number => median(changes.map(pick));
    const kB = (bytes: number): string => (bytes / count / 1000).toFixed(1);
    return [
      what,
      kB(first.bytes),
      (firstMs / 1000).toFixed(1),
      kB(middle(({ bytes }) => bytes)),
      Math.round(middle(({ p50 }) => p50)),
      Math.round(middle(({ p99 }) => p99)),
      middle(({ cpu }) => cpu).toFixed(2),
      memoryOf(server.pid).anonMiB,
    ];
  } finally {
    await scope.close();
  }
}
