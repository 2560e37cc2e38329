/**
 * What reading a catalogue of Consul costs, with a stand-in for its HTTP API in a process of its own: time to ready,
 * CPU, memory and requests; then an instance that becomes critical, and 100 changes a second, while proxies are
 * connected.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { StandInInstance } from '../../src/sources/consul/testing/stand-in-registry.ts';
import { CONTROL, type Command, type Counts } from '../../src/sources/consul/testing/stand-in-server.ts';
import { startChild } from '../../test/harness/child.ts';
import { eventually } from '../../test/harness/eventually.ts';
import { freePort, tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { startClient } from '../client/client.ts';
import { lostIn, quiet } from '../counters.ts';
import { type Bench, type BenchContext, complete, nextWatch, roundsOf } from '../mesh.ts';
import { cpuSeconds, memoryOf } from '../process-stats.ts';
import { median, quantiles, type Table } from '../results.ts';
import { runRounds } from '../rounds.ts';
import { measureStart, type Server, startServer } from '../server.ts';
import { monotonicMs } from '../world/clock.ts';

const STAND_IN = join(import.meta.dirname, '../../src/sources/consul/testing/stand-in-main.ts');
const CHANGES_PER_SECOND = 100;
/** Every so many changes, one is followed to the proxies: an instance that becomes critical. */
const FOLLOWED = 100;
/** Services change in this order, so that their instances are on different nodes. */
const STRIDE = 31;
/** After so many services, at most, the changes of a service are undone. */
const UNDONE_AFTER = 100;
/** Instances of one node. */
const PER_NODE = 25;
/** Instances that are registered with one request. */
const BATCH = 2000;

interface Registry {
  readonly url: string;
  readonly pid: number;
  do(command: Command): Promise<Counts>;
}

async function startRegistry(owner: Owner): Promise<Registry> {
  const port = await freePort();
  const child = await startChild(owner, {
    name: 'stand-in for Consul',
    command: process.execPath,
    args: [STAND_IN, String(port)],
  });
  await eventually(() => {
    child.assertRunning();
    if (!child.output().includes('ready')) throw new Error('the stand-in for Consul does not listen yet');
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    pid: child.pid,
    async do(command) {
      const response = await fetch(`${url}${CONTROL}`, { method: 'POST', body: JSON.stringify(command) });
      return (await response.json()) as Counts;
    },
  };
}

function instanceOf(
  service: number,
  number: number,
  endpoints: number,
  more: Partial<StandInInstance> = {},
): StandInInstance {
  const index = service * endpoints + number;
  const node = Math.floor(index / PER_NODE);
  return {
    node: `node-${node}`,
    nodeAddress: `10.200.${node >> 8}.${node & 255}`,
    id: `svc-${service}-${number}`,
    service: `svc-${service}`,
    address: `10.${64 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`,
    port: 80,
    tags: [`version|v${number % 2}`, 'primary'],
    meta: { protocol: 'http', 'service-account': `svc-${service}` },
    status: 'passing',
    ...more,
  };
}

interface World {
  readonly context: BenchContext;
  readonly registry: Registry;
  readonly configDir: string;
}

function startReading(owner: Owner, { context, registry, configDir }: World): Promise<Server> {
  const { program, profiles } = context;
  return startServer(owner, {
    program,
    configDir,
    flags: ['--registries', 'ExtRegistry,Orchestrator', '--extregistryServerURL', registry.url],
    ...(profiles === undefined ? {} : { profiles }),
  });
}

const sumOf = ({ requests }: Counts): number => Object.values(requests).reduce((sum, count) => sum + count, 0);

/** One start until ready, and the requests that it takes. */
async function measureReading(world: World): Promise<readonly (string | number)[]> {
  const before = await world.registry.do({ do: 'count' });
  const { milliseconds, cpu, rssMiB, peakMiB } = await measureStart((owner) => startReading(owner, world));
  const after = await world.registry.do({ do: 'count' });
  return [milliseconds, cpu, rssMiB, peakMiB, sumOf(after) - sumOf(before), after.mostAtOnce];
}

/** Makes a change and follows it to the proxies: ms to each, from before the stand-in knows it. */
async function follow(world: World, client: ReturnType<typeof startClient>, service: number, command: Command) {
  const watch = nextWatch();
  const name = `outbound|80||svc-${service}.service.consul`;
  await client.do({ op: 'watch', watch, predicates: [{ type: 'eds', state: 'changed', name }] });
  const at = monotonicMs();
  await world.registry.do(command);
  const { timeoutMs } = world.context.options;
  const arrivals = complete(await client.do({ op: 'arrived', watch, timeoutMs }), `the change of ${name}`);
  return arrivals.at.map((arrival) => arrival - at);
}

async function measureLive(owner: Owner, world: World): Promise<Table[]> {
  const { context, registry } = world;
  const { options, progress } = context;
  const { services, endpoints, proxies: count, mode, content, timeoutMs } = options;
  const client = startClient(owner);
  const server = await startReading(owner, world);
  progress(`connecting ${count} proxies`);
  const namespaces = Array.from({ length: options.namespaces }, (_, index) => `ns-${index}`);
  await client.do({ op: 'open', port: server.ports.grpc, mode, content, count, namespaces, slow: 0 });
  complete(await client.do({ op: 'synced', timeoutMs }), 'the first configuration');
  const setStatus = (service: number, status: string): Command => {
    const { node, id } = instanceOf(service, 0, endpoints);
    return { do: 'status', node, id, status };
  };
  const series = await runRounds(roundsOf(context), options, async (round, attempt) => {
    const service = (round * 7 + attempt) % services;
    const before = await quiet({ client, server });
    const latencies = await follow(world, client, service, setStatus(service, 'critical'));
    const after = await quiet({ client, server });
    await follow(world, client, service, setStatus(service, 'passing'));
    return { latencies, serverCpu: after.serverCpu - before.serverCpu, lost: lostIn(before, after) };
  });
  const rounds = series.counted.map(({ latencies }) => quantiles(latencies));
  const critical: Table = {
    title: `An instance of a stand-in for Consul becomes critical: ${count} proxies`,
    columns: ['p50 ms', 'p99 ms', 'p99 of the worst round', 'CPU s', 'rounds'],
    rows: [
      [
        median(rounds.map(({ p50 }) => p50)),
        median(rounds.map(({ p99 }) => p99)),
        Math.max(...rounds.map(({ p99 }) => p99)),
        median(series.counted.map(({ serverCpu }) => serverCpu)),
        series.counted.length,
      ],
    ],
  };
  const churn = await measureChurn(world, client, server, registry);
  return [critical, churn];
}

/**
 * Half of the changes are of health, a quarter new instances, a quarter removals of these. Each is undone later, so
 * that no change is lost in the debounce.
 */
function changeOf(step: number, services: number, endpoints: number): Command {
  const pair = step >> 2;
  const earlier = pair - Math.min(UNDONE_AFTER, services >> 1);
  const instanceIn = (of: number) => instanceOf((of * STRIDE) % services, 1 % endpoints, endpoints);
  const status = (of: number, to: string): Command => ({ do: 'status', ...placeOf(instanceIn(of)), status: to });
  const added = (of: number): StandInInstance => {
    const address = `10.99.${(of >> 8) & 255}.${of & 255}`;
    return { ...instanceIn(of), id: `new-${of}`, address };
  };
  switch (step & 3) {
    case 0:
      return status(pair, 'critical');
    case 1:
      return { do: 'register', instances: [added(pair)] };
    case 2:
      return earlier < 0 ? { do: 'count' } : status(earlier, 'passing');
    default:
      return earlier < 0 ? { do: 'count' } : { do: 'deregister', ...placeOf(added(earlier)) };
  }
}

function placeOf({ node, id }: StandInInstance): { readonly node: string; readonly id: string } {
  return { node, id };
}

async function measureChurn(
  world: World,
  client: ReturnType<typeof startClient>,
  server: Server,
  registry: Registry,
): Promise<Table> {
  const { options, progress } = world.context;
  const { services, endpoints, seconds } = options;
  const before = { cpu: cpuSeconds(server.pid), requests: sumOf(await registry.do({ do: 'count' })) };
  const followed: Promise<readonly number[]>[] = [];
  const started = monotonicMs();
  for (let step = 0; step < seconds * CHANGES_PER_SECOND; step++) {
    if (step % (5 * CHANGES_PER_SECOND) === 0) progress(`${step / CHANGES_PER_SECOND} of ${seconds} s`);
    const service = ((step >> 2) * STRIDE) % services;
    const command = changeOf(step, services, endpoints);
    if (step % FOLLOWED === 0) {
      const arrived = follow(world, client, service, command);
      // A failure is thrown where all of them are awaited.
      arrived.catch(() => {});
      followed.push(arrived);
    } else void registry.do(command);
    await delay(Math.max(0, started + ((step + 1) * 1000) / CHANGES_PER_SECOND - monotonicMs()));
  }
  const lasted = (monotonicMs() - started) / 1000;
  const latencies = quantiles((await Promise.all(followed)).flat());
  const requests = sumOf(await registry.do({ do: 'count' })) - before.requests;
  const cpu = cpuSeconds(server.pid) - before.cpu;
  return {
    title: `${CHANGES_PER_SECOND} changes a second in a stand-in for Consul`,
    columns: ['s', 'p50 ms', 'p99 ms', 'CPU s', 'CPU %', 'requests a second', 'RSS MiB'],
    rows: [
      [lasted, latencies.p50, latencies.p99, cpu, (cpu / lasted) * 100, requests / lasted, memoryOf(server.pid).rssMiB],
    ],
  };
}

async function measure(owner: Owner, context: BenchContext): Promise<readonly Table[]> {
  const { options, progress } = context;
  const { services, endpoints } = options;
  const registry = await startRegistry(owner);
  const configDir = join(await tempDir(owner), 'config');
  await mkdir(configDir);
  const world = { context, registry, configDir };
  progress(`registering ${services} services`);
  const instances = Array.from({ length: services * endpoints }, (_, index) =>
    instanceOf(Math.floor(index / endpoints), index % endpoints, endpoints),
  );
  for (let at = 0; at < instances.length; at += BATCH) {
    await registry.do({ do: 'register', instances: instances.slice(at, at + BATCH) });
  }
  const rows: (readonly (string | number)[])[] = [];
  for (let round = 0; round < options.rounds; round++) {
    progress(`start, round ${round + 1} of ${options.rounds}`);
    rows.push(await measureReading(world));
  }
  const starts: Table = {
    title: `Start from a stand-in for Consul: ${services} services x ${endpoints} instances`,
    columns: ['ms to ready', 'CPU s', 'RSS MiB', 'peak MiB', 'requests', 'most at once'],
    rows,
  };
  return [starts, ...(await measureLive(owner, world))];
}

export const consul: Bench = {
  name: 'consul',
  about: 'a stand-in for Consul: start, an instance that becomes critical, 100 changes a second',
  async run(context) {
    const scope = createScope();
    try {
      return { rows: [], tables: await measure(scope, context) };
    } finally {
      await scope.close();
    }
  },
};
