/** The state in this replica of a workload that registers itself. */
import type { Timer } from '../../core/clock.ts';
import { addressId } from '../../model/index.ts';
import type { AdmittedEntry } from './admission.ts';
import type { RegisteringStream } from './entries.ts';
import { type WorkloadTurns, workloadTurns } from './write-limits.ts';

export interface Workload {
  readonly key: string;
  readonly streams: Set<RegisteringStream>;
  /** The stream that was opened last. */
  stream: RegisteringStream;
  /** Milliseconds since the epoch; undefined while there are streams. */
  disconnectedAt: number | undefined;
  entry: AdmittedEntry | undefined;
  /** What was written, and when to write it again (monotonic ms); undefined if the next task must write it. */
  written: { readonly text: string; readonly refreshAt: number } | undefined;
  /** Whether the entry has changed since the task in progress has begun to write it: it may have read an older one. */
  isOutdated: boolean;
  refused: string | undefined;
  timer: Timer | undefined;
  /** Whether the log says that it is registered. */
  announced: boolean;
  /** The health that was written last by this replica; undefined: none. */
  writtenHealth: string | undefined;
  /** How long its entry stays without a stream, ms. */
  graceMs: number;
  readonly turns: WorkloadTurns;
}

export function newWorkload(key: string, stream: RegisteringStream, graceMs: number): Workload {
  return {
    key,
    streams: new Set(),
    stream,
    disconnectedAt: undefined,
    entry: undefined,
    written: undefined,
    isOutdated: false,
    refused: undefined,
    timer: undefined,
    announced: false,
    writtenHealth: undefined,
    graceMs,
    turns: workloadTurns(),
  };
}

/** The written data of a workload as a string: its entry is written again when this changes. */
export function textOf({ stream }: Workload, entry: AdmittedEntry): string {
  return JSON.stringify([entry, entry.probed ? stream.problem : '']);
}

export function keyOf({ node }: Pick<RegisteringStream, 'node'>): string {
  const { namespace, workloadGroup, serviceAccount, addresses, network } = node;
  const at = network === '' ? '' : `@${network}`;
  return `${namespace}/${workloadGroup}/${serviceAccount}/${addresses[0] ?? ''}${at}`;
}

export function nameOf({ namespace, name }: AdmittedEntry): string {
  return `${namespace}/${name}`;
}

export function addressOf({ spec }: AdmittedEntry): string {
  return `${spec.network ?? ''}/${addressId(spec.address) ?? spec.address}`;
}
