/**
 * A cluster that is followed while proxies are connected: one endpoint becoming ready, an idle cluster, and a churn of
 * endpoints. The same endpoint changes are measured from a directory, for comparison.
 */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Kubernetes } from '../../test/harness/kubernetes/index.ts';
import { createScope } from '../../test/harness/owner.ts';
import { type Client, startClient } from '../client/client.ts';
import { lostIn, quiet } from '../counters.ts';
import { type BenchContext, complete, nextWatch, roundsOf } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, quantiles, type Table } from '../results.ts';
import { runRounds } from '../rounds.ts';
import { type Server, startServer } from '../server.ts';
import { monotonicMs } from '../world/clock.ts';
import { type BenchObject, collectionOf, fileOf, sliceOf } from '../world/cluster.ts';

const UPDATES_PER_SECOND = 100;
/** Every so many updates of the churn, one is followed to the proxies. */
const FOLLOWED = 100;
/** Updates that are under way at once, at most. */
const WRITERS = 32;
const QUARTERS = 4;
const MAX_IDLE_SECONDS = 120;
const KIB = 1024;

export interface LiveSources {
  readonly cluster: Kubernetes;
  /** With the same objects. */
  readonly folder: string;
  /** Of a relay in front of the API server. */
  readonly kubeconfig: string;
  /** Bytes that were received over the relay. */
  readonly received: () => number;
}

type Write = (slice: BenchObject) => Promise<void>;

interface Live {
  readonly context: BenchContext;
  readonly client: Client;
  readonly server: Server;
  readonly write: Write;
}

function writesTo(cluster: Kubernetes): Write {
  return async (slice) => {
    const path = `${collectionOf(slice)}/${slice.metadata.name}`;
    const { status, body } = await cluster.api.request({ method: 'PUT', path, body: slice });
    if (status !== 200) throw new Error(`${path} answered ${status}: ${body}`);
  };
}

function writesInto(folder: string): Write {
  let drafts = 0;
  return async (slice) => {
    const path = join(folder, fileOf(slice));
    // On a crowded machine several writers can write one file at once.
    const draft = `${path}.${++drafts}.draft`;
    await writeFile(draft, JSON.stringify(slice));
    await rename(draft, path);
  };
}

/** The first slice of a service. */
function sliceNumber({ context }: Live, number: number, ready: boolean): BenchObject {
  const { services, endpoints, namespaces } = context.options;
  const service = number % services;
  return sliceOf(`ns-${service % namespaces}`, `svc-${service}`, service * endpoints, ready);
}

function clusterOf({ metadata }: BenchObject): string {
  const service = metadata.name.slice(0, metadata.name.lastIndexOf('-'));
  return `outbound|80||${service}.${metadata.namespace}.svc.cluster.local`;
}

/** Writes a slice and follows it to the proxies: ms to each, from before it is written. */
async function follow(live: Live, slice: BenchObject): Promise<readonly number[]> {
  const { client, write, context } = live;
  const watch = nextWatch();
  await client.do({ op: 'watch', watch, predicates: [{ type: 'eds', state: 'changed', name: clusterOf(slice) }] });
  const at = monotonicMs();
  await write(slice);
  const { timeoutMs } = context.options;
  const arrivals = complete(await client.do({ op: 'arrived', watch, timeoutMs }), `the change of ${clusterOf(slice)}`);
  return arrivals.at.map((arrival) => arrival - at);
}

/** Starts the server, connects the proxies and waits until they have everything. */
async function withLive<T>(
  context: BenchContext,
  source: { readonly configDir: string } | { readonly kubeconfig: string },
  write: Write,
  work: (live: Live) => Promise<T>,
): Promise<T> {
  const scope = createScope();
  try {
    const { options, program, profiles, progress } = context;
    const client = startClient(scope);
    const server = await startServer(scope, {
      program,
      ...source,
      env: { CTL_USE_ENDPOINT_SLICE: 'true' },
      ...(profiles === undefined ? {} : { profiles }),
    });
    progress(`connecting ${options.proxies} proxies`);
    const namespaces = Array.from({ length: options.namespaces }, (_, index) => `ns-${index}`);
    const { mode, content, proxies: count, timeoutMs } = options;
    await client.do({ op: 'open', port: server.ports.grpc, mode, content, count, namespaces, slow: 0 });
    complete(await client.do({ op: 'synced', timeoutMs }), 'the first configuration');
    return await work({ context, client, server, write });
  } finally {
    await scope.close();
  }
}

/** One endpoint becoming ready. */
async function measureReady(live: Live, name: string): Promise<readonly (string | number)[]> {
  const { context } = live;
  const series = await runRounds(roundsOf(context), context.options, async (round, attempt) => {
    context.progress(`one endpoint from the ${name}, round ${round} of ${context.options.rounds}`);
    const number = round * 7 + attempt;
    await follow(live, sliceNumber(live, number, false));
    const before = await quiet(live);
    const latencies = await follow(live, sliceNumber(live, number, true));
    const after = await quiet(live);
    return { latencies, serverCpu: after.serverCpu - before.serverCpu, lost: lostIn(before, after) };
  });
  const rounds = series.counted.map(({ latencies }) => quantiles(latencies));
  const times = [
    median(rounds.map((round) => round.p50)),
    median(rounds.map((round) => round.p99)),
    Math.max(...rounds.map((round) => round.p99)),
  ];
  return [name, ...times, median(series.counted.map(({ serverCpu }) => serverCpu)), series.counted.length];
}

/** What is received and used while nothing changes. */
async function measureIdle({ context, server, client }: Live, received: () => number) {
  const seconds = Math.min(context.options.seconds * 2, MAX_IDLE_SECONDS);
  await quiet({ server, client });
  context.progress(`idle for ${seconds} s`);
  const before = { bytes: received(), cpu: cpuSeconds(server.pid) };
  await delay(seconds * 1000);
  const kib = (received() - before.bytes) / KIB;
  const cpu = cpuSeconds(server.pid) - before.cpu;
  return [seconds, kib, (kib * 60) / seconds, (cpu * 1000) / seconds];
}

/** Updates at a steady rate; some are followed to the proxies. */
async function measureChurn(live: Live, name: string): Promise<readonly (string | number)[]> {
  const { context, server } = live;
  const { seconds } = context.options;
  const before = await quiet(live);
  const rssBefore = memoryOf(server.pid).rssMiB;
  const total = seconds * UPDATES_PER_SECOND;
  const started = monotonicMs();
  const followed: Promise<readonly number[]>[] = [];
  /** MiB after each quarter. Memory that grows with the number of changes shows here. */
  const quarters: number[] = [];
  let next = 0;
  const writer = async (): Promise<void> => {
    for (let step = next++; step < total; step = next++) {
      await delay(Math.max(0, started + (step * 1000) / UPDATES_PER_SECOND - monotonicMs()));
      if (step % (UPDATES_PER_SECOND * 10) === 0) context.progress(`churn from the ${name}, ${step} of ${total}`);
      if (step > 0 && step % Math.ceil(total / QUARTERS) === 0) quarters.push(memoryOf(server.pid).rssMiB);
      const isFollowed = step % FOLLOWED === 0;
      // Services of which one is followed are changed by nothing else. Each is changed to and fro.
      const { services } = context.options;
      const group = Math.floor(services / 2);
      const number = isFollowed ? group + ((step / FOLLOWED) % group) : step % group;
      const slice = sliceNumber(live, number, Math.floor(step / (isFollowed ? FOLLOWED * group : group)) % 2 === 1);
      if (!isFollowed) await live.write(slice);
      else {
        const arrived = follow(live, slice);
        // The statement that awaits all of them throws its failure.
        arrived.catch(() => {});
        followed.push(arrived);
      }
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
  const wrote = (monotonicMs() - started) / 1000;
  const lag = quantiles((await Promise.all(followed)).flat());
  const after = await quiet(live);
  const lasted = (monotonicMs() - started) / 1000;
  const { rssMiB, peakMiB } = memoryOf(server.pid);
  const cores = (after.serverCpu - before.serverCpu) / lasted;
  const memory = [rssBefore, ...quarters, rssMiB].map((mib) => Math.round(mib)).join(', ');
  return [name, total / wrote, memory, peakMiB, lag.p50, lag.p99, lag.max, cores];
}

/** What changes cost from an API server, beside a directory. Leaves the objects changed. */
export async function measureLive(context: BenchContext, sources: LiveSources): Promise<readonly Table[]> {
  const { cluster, folder, kubeconfig, received } = sources;
  const fromServer = await withLive(context, { kubeconfig }, writesTo(cluster), async (live) => ({
    ready: await measureReady(live, 'API server'),
    idle: await measureIdle(live, received),
    churn: await measureChurn(live, 'API server'),
  }));
  const { proxies, services, endpoints, seconds, only } = context.options;
  const besideFolder = only.length === 0 || only.some((part) => 'directory'.includes(part));
  const fromFolder = besideFolder
    ? await withLive(context, { configDir: folder }, writesInto(folder), async (live) => ({
        ready: [await measureReady(live, 'directory')],
        churn: [await measureChurn(live, 'directory')],
      }))
    : { ready: [], churn: [] };
  const size = `${services} services, ${services * endpoints} endpoints, ${proxies} proxies`;
  return [
    {
      title: `One endpoint becomes ready (${size})`,
      columns: ['source', 'p50 ms', 'p99 ms', 'worst p99 ms', 'CPU s', 'rounds'],
      rows: [fromServer.ready, ...fromFolder.ready],
    },
    {
      title: `An idle API server (${size})`,
      columns: ['seconds', 'KiB received', 'KiB a minute', 'ms of CPU a second'],
      rows: [fromServer.idle],
    },
    {
      title: `${UPDATES_PER_SECOND} endpoint updates a second for ${seconds} s (${size})`,
      columns: [
        ...['source', 'updates a second', 'RSS MiB: before, each quarter, after', 'peak'],
        ...['p50 ms to a proxy', 'p99 ms', 'worst ms', 'cores'],
      ],
      rows: [fromServer.churn, ...fromFolder.churn],
    },
  ];
}
