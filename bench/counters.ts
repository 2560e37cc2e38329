/** What the server, the proxies and the machine have used so far, and the wait until the server is idle. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from './client/client.ts';
import type { Totals } from './client/messages.ts';
import { type CpuTimes, type Lost, lostBetween, readCpuTimes } from './disturbance.ts';
import { cpuSeconds } from './process-stats.ts';
import { monotonicMs } from './world/clock.ts';

/**
 * The server is idle when for so many steps, of so many ms, nothing was sent and the server used less than this part
 * of a core.
 */
const QUIET_STEPS = 4;
const STEP_MS = 50;
const REST_LOAD = 0.15;
/** The longest wait for an idle server, ms. */
const QUIET_TIMEOUT_MS = 60_000;
/** Counters; a round is the difference between two readings. */
export interface Counters {
  readonly serverCpu: number;
  /** CPU seconds of this process, which only observes. */
  readonly benchCpu: number;
  readonly machine: CpuTimes | undefined;
  readonly totals: Totals;
}

export interface CountedProcesses {
  readonly client: Client;
  readonly server: { readonly pid: number };
}

/** Reads the counters with any process as the server. */
export async function countersOf({ client, server }: CountedProcesses): Promise<Counters> {
  const totals = await client.do({ op: 'totals' });
  return { ...ownCounters(), totals, serverCpu: cpuSeconds(server.pid) };
}

/** Reads the counters while there is no server. */
export async function countersWithout(client: Client): Promise<Counters> {
  const totals = await client.do({ op: 'totals' });
  return { ...ownCounters(), totals, serverCpu: 0 };
}

function ownCounters(): Pick<Counters, 'benchCpu' | 'machine'> {
  const { user, system } = process.cpuUsage();
  return { benchCpu: (user + system) / 1e6, machine: readCpuTimes() };
}

/** The loss to others between two readings of one server. */
export function lostIn(before: Counters, after: Counters): Lost | undefined {
  const used = ({ serverCpu, benchCpu, totals }: Counters): number => serverCpu + benchCpu + totals.cpuSeconds;
  return lostBetween(before.machine, after.machine, used(after) - used(before));
}

/** Waits until nothing is sent and the server has processed all answers; resolves with the counters. */
export async function quiet(mesh: CountedProcesses): Promise<Counters> {
  const deadline = monotonicMs() + QUIET_TIMEOUT_MS;
  let before = await countersOf(mesh);
  for (let steps = 0; steps < QUIET_STEPS && monotonicMs() < deadline; ) {
    const started = monotonicMs();
    await delay(STEP_MS);
    const after = await countersOf(mesh);
    const load = (after.serverCpu - before.serverCpu) / ((monotonicMs() - started) / 1000);
    steps = after.totals.messages === before.totals.messages && load < REST_LOAD ? steps + 1 : 0;
    before = after;
  }
  return before;
}
