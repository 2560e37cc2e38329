/**
 * The CPU time that a measured round lost: to the hypervisor, which gives the cores to other machines (`stolen`), and
 * to processes of this machine outside of the bench (`others`). A round that lost much says more about the neighbors
 * than about the server. Linux only: elsewhere the losses are unknown, and no round counts as disturbed.
 */
import { readFileSync } from 'node:fs';

/** CPU time of all cores together, seconds since the machine's start, in steps of 10 ms. */
export interface CpuTimes {
  readonly busy: number;
  /** Includes waiting for disks. */
  readonly idle: number;
  readonly stolen: number;
}

/** USER_HZ, in which /proc/stat counts: 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/**
 * The `cpu` line of /proc/stat (proc_stat(5)); undefined for a text without one, or with fewer fields than Linux has
 * had since 2.6.11.
 */
export function parseCpuTimes(text: string): CpuTimes | undefined {
  const fields = /^cpu +(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/).map(Number);
  // The fields of guests follow these, but `user` already includes them.
  const [user, nice, system, idle, iowait, irq, softirq, steal] = fields ?? [];
  if (user === undefined || nice === undefined || system === undefined || idle === undefined) return undefined;
  if (iowait === undefined || irq === undefined || softirq === undefined || steal === undefined) return undefined;
  return {
    busy: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
    idle: (idle + iowait) / TICKS_PER_SECOND,
    stolen: steal / TICKS_PER_SECOND,
  };
}

/** `read` gives the text of /proc/stat; undefined where that cannot be read. */
export function readCpuTimes(read = (): string => readFileSync('/proc/stat', 'utf8')): CpuTimes | undefined {
  try {
    return parseCpuTimes(read());
  } catch {
    return undefined;
  }
}

export interface Lost {
  /** Share of the CPU time that was wanted: stolen / (stolen + busy). Idle time does not make it smaller. */
  readonly stolen: number;
  /** Share of the time of all cores that processes other than the bench's used. */
  readonly others: number;
  /** The same in CPU seconds. */
  readonly stolenSeconds: number;
  readonly othersSeconds: number;
}

/**
 * The loss between two readings, between which the bench (server, proxies and its own process) used `ours` CPU seconds.
 * The kernel samples what cores do and measures what processes use, so `others` is off by some hundredths of a second,
 * never below 0.
 */
export function lostBetween(before: CpuTimes | undefined, after: CpuTimes | undefined, ours: number): Lost | undefined {
  if (before === undefined || after === undefined) return undefined;
  const busy = after.busy - before.busy;
  const stolenSeconds = Math.max(0, after.stolen - before.stolen);
  const othersSeconds = Math.max(0, busy - ours);
  return {
    stolen: share(stolenSeconds, stolenSeconds + busy),
    others: share(othersSeconds, busy + stolenSeconds + after.idle - before.idle),
    stolenSeconds,
    othersSeconds,
  };
}

function share(part: number, whole: number): number {
  return whole <= 0 ? 0 : part / whole;
}

/** The shares above which a round counts as disturbed. */
export interface Limits {
  readonly stolen: number;
  readonly others: number;
}

/**
 * Losses below this never count, seconds: a cheap round uses so little CPU that one step of the kernel's count would
 * exceed any limit, and the time of others is only as exact as the kernel's samples.
 */
const LEAST_STOLEN_S = 0.02;
const LEAST_OTHERS_S = 0.05;
/** Tolerance for sums of hundredths, which are not exact in binary. */
const ROUNDING = 1e-6;

/** False where the losses are unknown. */
export function isDisturbed(lost: Lost | undefined, limits: Limits): boolean {
  if (lost === undefined) return false;
  const byStealing = lost.stolen > limits.stolen && lost.stolenSeconds > LEAST_STOLEN_S - ROUNDING;
  const byOthers = lost.others > limits.others && lost.othersSeconds > LEAST_OTHERS_S - ROUNDING;
  return byStealing || byOthers;
}

export function lostText({ stolen, others }: Lost): string {
  return `${percent(stolen)} stolen, ${percent(others)} used by others`;
}

export function percent(part: number): string {
  return `${(part * 100).toFixed(1)} %`;
}
