/**
 * The names of 10,000 services at a thousand agents, and the DNS server of the agent that is shipped with these names:
 * queries a second and CPU second of the agent's process, how long clients wait, and its memory. That agent is started
 * as users start it, with everything switched on; in place of Envoy, whose work is not measured, runs a program that
 * only waits.
 */
import { Resolver } from 'node:dns/promises';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { NAME_PIECES_METADATA } from '../../src/core/proxy.ts';
import { eventually } from '../../test/harness/eventually.ts';
import { tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { authority, everything, startBenchAgent } from '../agent/agents.ts';
import { startAsked } from '../client/child.ts';
import type { LoadCommand, LoadResult } from '../dns/messages.ts';
import { changeService, nameOf, writeServices } from '../dns/names.ts';
import { measureTables } from '../dns/table-bytes.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, type Table } from '../results.ts';
import { startServer } from '../server.ts';

/** Names for each service of the options: 10,000 by default. */
const NAMES_FACTOR = 10;
const RATE = 20_000;
const IN_FLIGHT = 64;
/** Longest of a round and of the warm-up, seconds. */
const SECONDS = 2;
const WARM_UP_SECONDS = 3;
const CHANGE_MS = 1000;
const TABLE_TIMEOUT_MS = 60_000;

/** A program that runs until it is ended. */
async function waitingProgram(owner: Owner): Promise<string> {
  const path = join(await tempDir(owner), 'envoy');
  await writeFile(path, '#!/bin/sh\nexec sleep infinity\n');
  await chmod(path, 0o755);
  return path;
}

interface Running {
  readonly pid: number;
  readonly port: number;
  /** Of the services. */
  readonly folder: string;
}

/** The control plane, and an agent that has the names of all services. */
async function start(owner: Owner, context: BenchContext, names: number, pieces: boolean): Promise<Running> {
  const folder = join(await tempDir(owner), 'config');
  await writeServices(folder, names);
  const server = await startServer(owner, { program: context.program, configDir: folder });
  const { env } = await authority(owner);
  const all = await everything(owner);
  const agent = await startBenchAgent(owner, context, {
    discoveryPort: server.ports.grpc,
    envoy: await waitingProgram(owner),
    env: { ...env, ...all.env, ...(pieces ? {} : { [`MESH_META_${NAME_PIECES_METADATA}`]: 'false' }) },
    // It is not: there is no Envoy.
    waitReady: false,
  });
  const resolver = new Resolver({ timeout: 1000, tries: 1 });
  resolver.setServers([`127.0.0.1:${all.dnsPort}`]);
  const what = 'the agent has the names';
  await eventually(async () => void (await resolver.resolve4(nameOf(names - 1))), {
    timeoutMs: TABLE_TIMEOUT_MS,
    what,
  });
  return { pid: agent.pid, port: all.dnsPort, folder };
}

/** Changes a service each second; returns how to end that. */
function changeNames({ folder }: Running): () => Promise<void> {
  let [version, ended] = [0, false];
  const run = async (): Promise<void> => {
    for (; !ended; await delay(CHANGE_MS)) await changeService(folder, ++version);
  };
  const running = run();
  return () => {
    ended = true;
    return running;
  };
}

type Row = readonly (string | number)[];

/** @param pieces whether the agent merges pieces of the table; without, only the changes of the table are measured */
async function measured(context: BenchContext, names: number, pieces: boolean): Promise<readonly Row[]> {
  const { options, progress } = context;
  const scope = createScope();
  try {
    const agent = await start(scope, context, names, pieces);
    const clients = startAsked<LoadCommand, LoadResult>(scope, join(import.meta.dirname, '../dns/load.ts'));
    const round = async (rate: number | undefined, most: number) => {
      const seconds = Math.min(most, options.seconds);
      const before = cpuSeconds(agent.pid);
      const result = await clients.ask({ port: agent.port, names, seconds, rate, inFlight: IN_FLIGHT });
      const cpu = cpuSeconds(agent.pid) - before;
      return { ...result, perCpuSecond: (result.perSecond * seconds) / cpu };
    };
    const row = async (what: string, rate: number | undefined): Promise<Row> => {
      progress(what);
      const rounds: Awaited<ReturnType<typeof round>>[] = [];
      for (let count = 0; count < options.rounds; count++) rounds.push(await round(rate, SECONDS));
      const middle = (pick: (result: (typeof rounds)[number]) => number) => median(rounds.map(pick));
      const sum = (pick: (result: LoadResult) => number) => rounds.reduce((total, result) => total + pick(result), 0);
      const whole = [middle((result) => result.perSecond), middle((result) => result.perCpuSecond)].map(Math.round);
      const times = [middle(({ p50 }) => p50), middle(({ p99 }) => p99), middle(({ max }) => max)];
      const { anonMiB, rssMiB } = memoryOf(agent.pid);
      const [lost, wrong] = [sum((result) => result.lost), sum((result) => result.wrong)];
      return [what, ...whole, ...times, lost, wrong, anonMiB, rssMiB];
    };
    await round(undefined, WARM_UP_SECONDS);
    const rows: Row[] = [];
    if (pieces) {
      rows.push(await row(`${RATE} queries a second`, RATE));
      rows.push(await row(`as many as possible, ${IN_FLIGHT} at a time`, undefined));
    }
    const end = changeNames(agent);
    const table = pieces ? '' : ', one table';
    rows.push(await row(`${RATE} queries a second, a name changes each second${table}`, RATE));
    await end();
    return rows;
  } finally {
    await scope.close();
  }
}

async function measure(context: BenchContext, names: number): Promise<Table> {
  const { rounds } = context.options;
  const rows = [...(await measured(context, names, true)), ...(await measured(context, names, false))];
  return {
    title: `DNS over UDP of ctl-agent, everything switched on, ${names} names (medians of ${rounds} rounds)`,
    columns: [
      'load',
      'queries/s',
      'per CPU s',
      'p50 ms',
      'p99 ms',
      'max ms',
      'lost',
      'wrong',
      'RssAnon MiB',
      'RSS MiB',
    ],
    rows,
  };
}

export const dns: Bench = {
  name: 'dns',
  about: 'the names of 10,000 services: queries a second of ctl-agent, and bytes to a thousand agents',
  run: async (context) => {
    const names = context.options.services * NAMES_FACTOR;
    return { rows: [], tables: [await measureTables(context, names), await measure(context, names)] };
  },
};
