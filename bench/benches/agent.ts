/**
 * What an agent costs its workload: how soon Envoy runs, and the memory of the agent's own
 * process.
 */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { envoyPath } from '../../test/harness/envoy.ts';
import { eventually } from '../../test/harness/eventually.ts';
import { tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { type Authority, authority, everything, startBenchAgent } from '../agent/agents.ts';
import { throughProxy } from '../agent/through-proxy.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import { memoryOf } from '../process-stats.ts';
import { median, type Table } from '../results.ts';
import { startServer } from '../server.ts';

/** Number of starts measured. Each takes half a second. */
const STARTS = 7;
/** Requests of one hour: probes every 2 s and scrapes every 15 s. */
const PROBES = 1800;
const SCRAPES = 240;
/** More than three months of rotations, one every 12 hours. */
const ROTATIONS = 200;
/** Short enough that the agent renews as fast as it can, which is twice a second. */
const CERTIFICATE_LIFE_MS = 3000;
const ROTATIONS_TIMEOUT_MS = 300_000;

/** USER_HZ is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

interface Sample {
  readonly startToExecMs: number;
  /** CPU time of all threads of the agent until the start of Envoy. A busy machine does not change it. */
  readonly cpuToExecMs: number;
  readonly anonMiB: number;
  readonly rssMiB: number;
}

/** A wrapper that records its start time and the agent's CPU time, then runs the real Envoy in its place. */
async function notingEnvoy(owner: Owner) {
  const folder = await tempDir(owner);
  const [path, note] = [join(folder, 'envoy'), join(folder, 'started')];
  const lines = [
    '#!/bin/sh',
    // User and system time of the parent, in ticks: fields 14 and 15 of proc(5); "node" holds no space.
    `{ date +%s%N; cut -d' ' -f14,15 /proc/$PPID/stat; } > '${note}'`,
    `exec '${envoyPath()}' "$@"`,
  ];
  await writeFile(path, `${lines.join('\n')}\n`);
  await chmod(path, 0o755);
  const startedAt = async () => {
    const [nanoseconds = 0, user = 0, system = 0] = (await readFile(note, 'utf8')).split(/\s+/).map(Number);
    return { epochMs: nanoseconds / 1e6, cpuMs: (user + system) * MS_PER_TICK };
  };
  return { path, startedAt };
}

/** Starts an agent and waits until it is ready. */
async function started(
  owner: Owner,
  context: BenchContext,
  discoveryPort: number,
  { env }: Authority,
  more: Readonly<Record<string, string>> = {},
) {
  const envoy = await notingEnvoy(owner);
  const before = Date.now();
  const agent = await startBenchAgent(owner, context, { discoveryPort, envoy: envoy.path, env: { ...env, ...more } });
  const { epochMs, cpuMs } = await envoy.startedAt();
  return { agent, startToExecMs: epochMs - before, cpuToExecMs: cpuMs };
}

function memory(pid: number): Pick<Sample, 'anonMiB' | 'rssMiB'> {
  const { anonMiB, rssMiB } = memoryOf(pid);
  return { anonMiB, rssMiB };
}

async function measure(context: BenchContext): Promise<Table> {
  const scope = createScope();
  try {
    const server = await startServer(scope, { program: context.program, configDir: await tempDir(scope) });
    const mesh = await authority(scope);
    const samplesOf = async (more: Readonly<Record<string, string>>): Promise<Sample[]> => {
      const samples: Sample[] = [];
      for (let start = 0; start < STARTS; start++) {
        const { agent, ...times } = await started(scope, context, server.ports.grpc, mesh, more);
        samples.push({ ...times, ...memory(agent.pid) });
        await agent.stop();
      }
      return samples;
    };
    const alone = await samplesOf({});
    const { env: all } = await everything(scope);
    const whole = await samplesOf(all);
    context.progress('probes and scrapes');
    const { agent } = await started(scope, context, server.ports.grpc, mesh, all);
    for (let probe = 0; probe < PROBES; probe++) await agent.readiness();
    for (let scrape = 0; scrape < SCRAPES; scrape++) await agent.http('status', '/stats/prometheus');
    const probed = memory(agent.pid);
    context.progress('rotations');
    await agent.stop();
    mesh.ca.lifeMs = CERTIFICATE_LIFE_MS;
    const rotating = (await started(scope, context, server.ports.grpc, mesh, all)).agent;
    const goal = mesh.issued() + ROTATIONS;
    await eventually(
      () => {
        if (mesh.issued() < goal) throw new Error(`${goal - mesh.issued()} rotations to go`);
      },
      { timeoutMs: ROTATIONS_TIMEOUT_MS },
    );
    const rotated = memory(rotating.pid);
    const round = (value: number): number => Math.round(value * 10) / 10;
    const row = (state: string, samples: readonly Sample[]) => {
      const of = (pick: (sample: Sample) => number): number => median(samples.map(pick));
      return [
        state,
        Math.round(of((s) => s.startToExecMs)),
        of((s) => s.cpuToExecMs),
        round(of((s) => s.anonMiB)),
        round(of((s) => s.rssMiB)),
      ];
    };
    return {
      title: `ctl-agent proxy, its own process without Envoy (median of ${STARTS} starts)`,
      columns: ['state', 'start to exec of Envoy ms', 'CPU until then ms', 'RssAnon MiB', 'RSS MiB'],
      rows: [
        row('ready', alone),
        row('ready, with xDS proxy and DNS', whole),
        [
          `after ${PROBES} probes, ${SCRAPES} scrapes`,
          undefined,
          undefined,
          round(probed.anonMiB),
          round(probed.rssMiB),
        ],
        [`after ${ROTATIONS} rotations`, undefined, undefined, round(rotated.anonMiB), round(rotated.rssMiB)],
      ],
    };
  } finally {
    await scope.close();
  }
}

export const agent: Bench = {
  name: 'agent',
  about: "start to exec of Envoy, the agent's own memory, configuration through its XDS proxy; --only start, proxy",
  run: async (context) => {
    const { only } = context.options;
    const isChosen = (part: string): boolean => only.length === 0 || only.includes(part);
    const tables: Table[] = [];
    if (isChosen('start')) tables.push(await measure(context));
    if (isChosen('proxy')) tables.push(await throughProxy(context));
    return { rows: [], tables };
  },
};
