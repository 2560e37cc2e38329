/**
 * The messages between the main thread, which serves the proxies, and the policy thread, which decides. Requests and
 * responses are bytes.
 */
import type { CallerRecord, WorkloadChanges } from './attributes/workloads.ts';
import type { RuntimeStats, TransitionStats, VarietyCounts } from './runtime/stats.ts';
import type { PolicyCounts, PolicyDocument, PolicyOptions, PolicyProblem } from './types.ts';

/** Given to the thread when it starts. */
export interface PolicyThreadData {
  readonly options: PolicyOptions;
  readonly skipsSanVerification: boolean;
}

/**
 * Several byte strings in one buffer of their own: a view of a pooled buffer would be copied to the other thread with
 * the whole pool.
 */
export interface PackedBytes {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where each of them ends. */
  readonly ends: readonly number[];
}

export function packed(parts: readonly Uint8Array[]): PackedBytes {
  let end = 0;
  const ends = parts.map((part) => {
    end += part.length;
    return end;
  });
  const bytes = new Uint8Array(end);
  for (const [at, part] of parts.entries()) bytes.set(part, (ends[at] ?? 0) - part.length);
  return { bytes, ends };
}

export function unpacked({ bytes, ends }: PackedBytes): Uint8Array[] {
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end));
}

export type ToPolicyThread =
  /** Changed documents by key; the configuration changes when no more follow. */
  | {
      readonly kind: 'configure';
      readonly set: readonly (readonly [key: string, document: PolicyDocument])[];
      readonly deleted: readonly string[];
      readonly more: boolean;
    }
  | { readonly kind: 'workloads'; readonly changes: WorkloadChanges }
  /** Callers are numbered, because each of their calls names them. */
  | { readonly kind: 'caller'; readonly id: number; readonly record: CallerRecord }
  | { readonly kind: 'forget caller'; readonly id: number }
  /** Calls of `Check`: numbers of the calls and of their callers, and the requests. */
  | {
      readonly kind: 'checks';
      readonly ids: readonly number[];
      readonly callers: readonly number[];
      readonly requests: PackedBytes;
    }
  /** A message of the access log service. */
  | { readonly kind: 'record'; readonly id: number; readonly caller: number; readonly message: Uint8Array }
  | { readonly kind: 'scrape'; readonly id: number }
  | { readonly kind: 'written'; readonly characters: number }
  | { readonly kind: 'close' };

export type FromPolicyThread =
  /** Responses; an empty one means that the request cannot be decided about. */
  | { readonly kind: 'answers'; readonly ids: readonly number[]; readonly responses: PackedBytes }
  | { readonly kind: 'recorded'; readonly id: number }
  | {
      readonly kind: 'configured';
      readonly counts: PolicyCounts;
      readonly problems: readonly PolicyProblem[];
      readonly transition: Omit<TransitionStats, 'closed' | 'closeFailures'>;
      readonly varieties: VarietyCounts;
    }
  | {
      readonly kind: 'stats';
      readonly runtime: RuntimeStats | undefined;
      readonly activity: { readonly daemons: number; readonly workers: number };
      readonly closed: { readonly handlers: number; readonly failures: number };
      /** Entries of records beyond the limit of a message. */
      readonly droppedEntries: number;
    }
  | {
      readonly kind: 'log';
      readonly scope: PolicyLogScope;
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly message: string;
    }
  | { readonly kind: 'lines'; readonly stream: 'STDOUT' | 'STDERR'; readonly text: string }
  | { readonly kind: 'scraped'; readonly id: number; readonly text: string }
  | { readonly kind: 'closed' };

export type PolicyLogScope = 'attributes' | 'grpcAdapter';
