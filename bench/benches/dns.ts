/**
 * The DNS server with a table of 10,000 names: queries a second and core, how long clients wait, memory. Goal: 20,000
 * queries a second and core, answered within 5 ms (p99), also while the table is replaced.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import type { LoadCommand, LoadResult, Served, ServerCommand } from '../dns/messages.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, type Table } from '../results.ts';

const NAMES = 10_000;
const RATE = 20_000;
const IN_FLIGHT = 64;
const WARM_UP_SECONDS = 3;
/** Quantiles are medians of so many rounds, so that a moment in which the machine does something else does not count. */
const ROUNDS = 5;
const SECONDS = 2;
const REPLACE_MS = 1000;

function start(owner: Owner, file: string): ChildProcess {
  const child = fork(join(import.meta.dirname, '../dns', file), { execArgv: ['--expose-gc'] });
  owner.after(async () => {
    if (child.exitCode !== null) return;
    child.kill();
    await once(child, 'exit');
  });
  return child;
}

async function call(child: ChildProcess, command: ServerCommand | LoadCommand): Promise<unknown> {
  const answer = once(child, 'message');
  child.send(command);
  const [message]: unknown[] = await answer;
  return message;
}

async function measure({ progress }: BenchContext): Promise<Table> {
  const scope = createScope();
  try {
    const [server, clients] = [start(scope, 'server.ts'), start(scope, 'load.ts')];
    const { port, tableMiB } = (await call(server, { op: 'serve', names: NAMES })) as Served;
    const pid = server.pid ?? 0;
    const round = async (rate: number | undefined, seconds: number) => {
      const before = cpuSeconds(pid);
      const result = (await call(clients, { port, names: NAMES, seconds, rate, inFlight: IN_FLIGHT })) as LoadResult;
      const cpu = cpuSeconds(pid) - before;
      return { ...result, perCpuSecond: (result.perSecond * seconds) / cpu };
    };
    await round(undefined, WARM_UP_SECONDS);
    const rows: (string | number)[][] = [];
    const row = async (what: string, rate: number | undefined): Promise<void> => {
      progress(what);
      const rounds: Awaited<ReturnType<typeof round>>[] = [];
      for (let count = 0; count < ROUNDS; count++) rounds.push(await round(rate, SECONDS));
      const middle = (pick: (result: LoadResult & { readonly perCpuSecond: number }) => number) =>
        median(rounds.map(pick));
      const sum = (pick: (result: LoadResult) => number) => rounds.reduce((total, result) => total + pick(result), 0);
      const whole = [middle((result) => result.perSecond), middle((result) => result.perCpuSecond)].map(Math.round);
      const times = [middle(({ p50 }) => p50), middle(({ p99 }) => p99), middle(({ max }) => max)];
      const { anonMiB } = memoryOf(pid);
      const hundredths = times.map((value) => Math.round(value * 100) / 100);
      const [lost, wrong] = [sum((result) => result.lost), sum((result) => result.wrong)];
      rows.push([what, ...whole, ...hundredths, lost, wrong, Math.round(anonMiB)]);
    };
    await row(`${RATE} queries a second`, RATE);
    await row(`as many as possible, ${IN_FLIGHT} at a time`, undefined);
    await call(server, { op: 'replace', everyMs: REPLACE_MS });
    await row(`${RATE} queries a second, table replaced each second`, RATE);
    return {
      title: `DNS over UDP from a table of ${NAMES} names, which takes ${tableMiB.toFixed(1)} MiB`,
      columns: ['load', 'queries/s', 'per CPU second', 'p50 ms', 'p99 ms', 'max ms', 'lost', 'wrong', 'RssAnon MiB'],
      rows,
    };
  } finally {
    await scope.close();
  }
}

export const dns: Bench = {
  name: 'dns',
  about: 'queries a second of the DNS server, with a table of 10,000 names',
  run: async (context) => ({ rows: [], tables: [await measure(context)] }),
};
