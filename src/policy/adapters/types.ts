/** What handlers do: the runtime calls them with the values of instances, and closes them after their last call. */
import type { Log } from '../../core/log.ts';
import type { HttpAnswer, HttpCall } from '../../core/network/http-call.ts';
import { addressText, durationText, timestampText, type Value } from '../../expressions/index.ts';
import type { Instance, InstanceValue, Status } from '../types.ts';

export interface CheckResult {
  readonly status: Status;
  /** For how long, ms, and how many times a result may be used again. 0: it may not. */
  readonly validDurationMs: number;
  readonly validUseCount: number;
  readonly output?: ReadonlyMap<string, Value>;
}

export interface QuotaResult {
  /** Code 0 when the amount is granted. */
  readonly status: Status;
}

/** The call of a proxy that a handler is called for. */
export interface CallContext {
  /** The calling proxy, by which caches and limits count. */
  readonly caller: string;
  /** Of this call alone. */
  readonly id: string;
  /** Epoch ms. */
  readonly now: number;
}

export type Awaitable<T> = T | Promise<T>;

/** One value of an instance. */
export interface Built {
  readonly instance: Instance;
  readonly value: InstanceValue;
}

export interface RunningHandler {
  /** Rejects or throws when it cannot decide, which denies the request. */
  check?(built: Built, call: CallContext): Awaitable<CheckResult>;
  /** Takes one unit. */
  quota?(built: Built, call: CallContext): Awaitable<QuotaResult>;
  report?(built: readonly Built[], call: CallContext): Awaitable<void>;
  /** Background loops, and calls in progress. */
  readonly daemons: number;
  readonly workers: number;
  /** Called once, after the last call has ended. */
  close(): Awaitable<void>;
}

/** A stream of this program that handlers write lines to. */
export interface LineSink {
  /** False when too many bytes wait: the line is dropped. */
  write(stream: 'STDOUT' | 'STDERR', line: string): boolean;
}

/** Time, randomness and I/O of handlers. */
export interface AdapterHost {
  /** Epoch ms. */
  now(): number;
  /** Monotonic ms. */
  monotonic(): number;
  random(): number;
  /** Calls `run` every `ms` until the returned function is called. */
  every(ms: number, run: () => void): () => void;
  later(ms: number, run: () => void): () => void;
  /** Fetches from servers that authors of documents name: refuses link-local and metadata addresses. */
  readonly fetch: (url: string, init: { readonly signal: AbortSignal }) => Promise<Response>;
  /** Calls servers that operators name. The body of the response has at most this many bytes. */
  readonly call: (call: HttpCall, maxBytes: number) => Promise<HttpAnswer>;
  /** Resolves names of such servers to an address that may be connected to. Rejects with CtlError. */
  readonly resolve: (host: string) => Promise<string>;
  readonly readFile: (path: string) => Promise<Buffer>;
  readonly lines: LineSink;
  readonly log: Log;
  /** BYPASS_OOP_MTLS_SAN_VERIFICATION. */
  readonly skipsSanVerification: boolean;
}

export const OK: Status = { code: 0, message: '' };

/** Canonical codes that adapters here return. */
export const CODE = {
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const;

/** A value as a string, as lists, labels and keys of quotas compare it. */
export function textOf(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return addressText(value);
  if (value instanceof Map) return JSON.stringify(Object.fromEntries([...value].sort(([a], [b]) => (a < b ? -1 : 1))));
  if (typeof value === 'object' && 'kind' in value)
    return value.kind === 'timestamp' ? timestampText(value) : durationText(value);
  return String(value);
}
