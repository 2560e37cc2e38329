/**
 * Simulated proxies that get everything and that ask for the services that they call, by turns: a cold start, changes
 * of one endpoint, and endpoints that change at a steady rate. Each proxy on demand calls others than its neighbours,
 * so that no two of them share their configuration. Services have HTTP ports only: each TCP service adds a listener to
 * every proxy.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../test/harness/eventually.ts';
import { request } from '../../test/harness/http.ts';
import type { Arrivals } from '../client/messages.ts';
import { type Uses, usersOf } from '../client/uses.ts';
import { quiet } from '../counters.ts';
import {
  type BenchContext,
  complete,
  joinProxies,
  type Mesh,
  measureChange,
  memory,
  nextWatch,
  verify,
  withMesh,
} from '../mesh.ts';
import { latencyOf, median, quantiles, type Table } from '../results.ts';
import type { Server } from '../server.ts';
import { monotonicMs } from '../world/clock.ts';
import { HTTP_PORT } from '../world/documents.ts';
import type { Change } from '../world/world.ts';

/** Services that each proxy calls. */
const USED = 10;
/** Services times proxies that are simulated with everything: 60 million would be 200 GB. */
const MAX_ALL = 10_000_000;

/** The same where the memory of a further proxy is measured. */
const USED_FOR_MEMORY = 30;
const KIB = 1024;
/** Garbage collections before the memory in use is read: what the first one collects may free more. */
const COLLECTIONS = 2;

const CONFIGURATIONS = ['all', 'on-demand'] as const;
type Configuration = (typeof CONFIGURATIONS)[number];
type Cells = readonly (string | number | undefined)[];

const COLUMNS = ['what', 'configuration', 'p50 ms', 'p99 ms', 'max ms', 'CPU s', 'MB', 'RSS MiB', 'note'];

/** The parts of the table that a run may be limited to. */
export const PARTS = ['cold', 'endpoint', 'churn', 'memory'] as const;
export type FleetPart = (typeof PARTS)[number];

export async function fleets(context: BenchContext, parts: ReadonlySet<string>): Promise<Table> {
  const { services, proxies, rounds } = context.options;
  const rows: Cells[] = [];
  const turns = parts.has('cold') ? rounds : 1;
  const colds = new Map<Configuration, Cold[]>(CONFIGURATIONS.map((each) => [each, []]));
  const configurations = CONFIGURATIONS.filter((each) => each !== 'all' || services * proxies <= MAX_ALL);
  for (let turn = 1; turn <= turns; turn++)
    for (const configuration of turn % 2 === 0 ? configurations.toReversed() : configurations)
      await withMesh(context, { world: { onlyHttp: true } }, async (mesh) => {
        context.progress(`cold start ${turn} of ${turns}, ${configuration}`);
        const uses = configuration === 'all' ? undefined : usesOf(mesh, USED);
        colds.get(configuration)?.push(await coldStart(context, mesh, uses));
        if (turn < turns) return;
        if (parts.has('endpoint')) rows.push(await endpoints(context, mesh, configuration, uses));
        if (parts.has('churn')) rows.push(await churn(context, mesh, configuration, uses));
      });
  if (parts.has('memory')) for (const each of configurations) rows.push(await memoryPerProxy(context, each));
  const first = configurations.map((each) => coldCells(each, colds.get(each) ?? []));
  const title = `Fleets: ${services} services, ${proxies} proxies, ${USED} services called by each`;
  return { title, columns: COLUMNS, rows: [...first, ...rows] };
}

function usesOf({ world, size }: Mesh, each: number): Uses {
  const hosts = Array.from({ length: size.services }, (_, index) => world.service(index).host);
  return { names: hosts.map((host) => `${HTTP_PORT}/${host}`), each: Math.min(each, size.services) };
}

interface Cold {
  readonly latencies: readonly number[];
  readonly cpu: number;
  readonly bytes: number;
  readonly rssMiB: number;
  readonly verdict: string;
}

async function coldStart(context: BenchContext, mesh: Mesh, uses: Uses | undefined): Promise<Cold> {
  const { started } = mesh;
  const { latencies, synced } = await joinProxies(context, mesh, uses && { uses });
  const { totals } = await quiet(mesh);
  const verdict = await verify(context, mesh);
  return {
    latencies,
    cpu: synced.serverCpu,
    bytes: totals.bytes - started.totals.bytes,
    rssMiB: memory(mesh).rssMiB,
    verdict,
  };
}

function coldCells(configuration: Configuration, all: readonly Cold[]): Cells {
  const { p50, p99, max } = latencyOf(all.map(({ latencies }) => latencies)).medianRound ?? quantiles([]);
  return [
    'cold start',
    configuration,
    ...[p50, p99, max],
    median(all.map(({ cpu }) => cpu)),
    median(all.map(({ bytes }) => bytes)) / 1e6,
    median(all.map(({ rssMiB }) => rssMiB)),
    `${all.length} times; ${all.at(-1)?.verdict}`,
  ];
}

/** One endpoint of one service, at the proxies that have it. */
async function endpoints(
  context: BenchContext,
  mesh: Mesh,
  configuration: Configuration,
  uses: Uses | undefined,
): Promise<Cells> {
  const rounds = [];
  // The first one does not count.
  for (let round = 0; round <= context.options.rounds; round++) {
    const service = mesh.world.plain(round);
    const proxies = watchers(mesh, service, uses);
    rounds.push(await measureChange(context, mesh, mesh.world.endpoint(service, round + 1), proxies && { proxies }));
  }
  const counted = rounds.slice(1);
  const { p50, p99, max } = quantiles(counted.flatMap(({ latencies }) => latencies));
  const reached = counted.map(({ latencies }) => latencies.length);
  return [
    'one endpoint',
    configuration,
    ...[p50, p99, max],
    median(counted.map(({ serverCpu }) => serverCpu)),
    median(counted.map(({ bytes }) => bytes)) / 1e6,
    memory(mesh).rssMiB,
    `at ${median(reached)} proxies`,
  ];
}

/** The proxies that have a service; undefined: all. */
function watchers({ size }: Mesh, service: number, uses: Uses | undefined): readonly number[] | undefined {
  return uses && usersOf(service, size.proxies, size.services, uses.each);
}

/** Memory of the server for each further proxy: resident when all have everything, and in use. */
function memoryPerProxy(context: BenchContext, configuration: Configuration): Promise<Cells> {
  return withMesh(context, { world: { onlyHttp: true } }, async (mesh) => {
    const uses = configuration === 'all' ? undefined : usesOf(mesh, USED_FOR_MEMORY);
    const { proxies } = mesh.size;
    const half = Math.ceil(proxies / 2);
    const join = async (count: number): Promise<void> => {
      await joinProxies(context, mesh, { count, ...(uses && { uses }) });
      await quiet(mesh);
    };
    await join(half);
    const less = memory(mesh).rssMiB;
    await join(proxies);
    const more = memory(mesh).rssMiB;
    // Only now: a garbage collection before would lower what is resident.
    const used = await usedMiB(mesh.server);
    await join(half);
    const usedByLess = await usedMiB(mesh.server);
    const each = (mib: number): string => ((mib * KIB) / (proxies - half)).toFixed(0);
    const called = uses === undefined ? '' : `, ${uses.each} services called by each`;
    const note = `${each(more - less)} KiB for each further proxy${called}; in use: ${each(used - usedByLess)} KiB`;
    const figures = [undefined, undefined, undefined, undefined, undefined, more];
    return ['memory', configuration, ...figures, note];
  });
}

/** What the main thread's heap has, and buffers outside of it, in MiB, after its garbage was collected. */
async function usedMiB({ ports, samples }: Server): Promise<number> {
  for (let time = 0; time < COLLECTIONS; time++) {
    const collected = async (): Promise<void> => {
      const { status } = await request({ port: ports.introspection, path: '/memj/forcecollection', method: 'PUT' });
      if (status !== 202) throw new Error(`HTTP ${status}`);
    };
    // The server does it at most every ten seconds.
    await eventually(collected, { timeoutMs: 15_000, intervalMs: 500, what: 'garbage is collected' });
  }
  const all = await samples();
  const of = (name: string): number => all.get(name) ?? 0;
  return (of('nodejs_heap_size_used_bytes') + of('nodejs_external_memory_bytes')) / (KIB * KIB);
}

/** Endpoints of one service after the other, of those without subsets: proxies that call it have its cluster. */
async function churn(
  context: BenchContext,
  mesh: Mesh,
  configuration: Configuration,
  uses: Uses | undefined,
): Promise<Cells> {
  const { client, world } = mesh;
  const { seconds, timeoutMs, changes: perSecond } = context.options;
  const before = await quiet(mesh);
  const pending: Promise<number[]>[] = [];
  const begin = async (change: Change, proxies: readonly number[] | undefined): Promise<void> => {
    const watch = nextWatch();
    await client.do({ op: 'watch', watch, predicates: change.expect, ...(proxies && { proxies }) });
    const at = await world.apply(change);
    const arrived = client
      .do({ op: 'arrived', watch, timeoutMs })
      .then((arrivals: Arrivals) => complete(arrivals, `the change of ${change.path}`).at.map((each) => each - at));
    // A failure is thrown where all of them are awaited.
    arrived.catch(() => {});
    pending.push(arrived);
  };
  const started = monotonicMs();
  for (let step = 0; step < seconds * perSecond; step++) {
    if (step % (10 * perSecond) === 0) context.progress(`churn, ${configuration}, ${step / perSecond} of ${seconds} s`);
    const service = world.plain(step);
    await begin(world.endpoint(service, step + 1000), watchers(mesh, service, uses));
    await delay(Math.max(0, started + ((step + 1) * 1000) / perSecond - monotonicMs()));
  }
  const lasted = (monotonicMs() - started) / 1000;
  const { p50, p99, max } = quantiles((await Promise.all(pending)).flat());
  const after = await quiet(mesh);
  const cpu = after.serverCpu - before.serverCpu;
  return [
    'churn',
    configuration,
    ...[p50, p99, max],
    cpu,
    (after.totals.bytes - before.totals.bytes) / 1e6,
    memory(mesh).rssMiB,
    `${pending.length} endpoints in ${lasted.toFixed(0)} s; ${((cpu * 60) / lasted).toFixed(1)} CPU s a minute`,
  ];
}
